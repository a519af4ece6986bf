package kerneltest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// IP runs ip(8) with the words of line and fails the test if that fails.
func IP(t testing.TB, line string) string { return run(t, "ip", line) }

// Bridge runs bridge(8) with the words of line and fails the test if that fails.
func Bridge(t testing.TB, line string) string { return run(t, "bridge", line) }

func run(t testing.TB, tool, line string) string {
	t.Helper()
	out, err := exec.Command(tool, strings.Fields(line)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, line, err, out)
	}
	return string(out)
}

// NewBridge makes a bridge without multicast snooping (its queries are noise) and with
// no delay before ports forward. It is gone after the test.
func NewBridge(t testing.TB, name string) {
	t.Helper()
	IP(t, "link add "+name+" type bridge mcast_snooping 0 forward_delay 0")
	t.Cleanup(func() { IP(t, "link del "+name) })
	Quiet(t, name)
	IP(t, "link set "+name+" up")
}

// Quiet keeps IPv6 from sending anything of its own out of an interface.
func Quiet(t testing.TB, name string) {
	t.Helper()
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// Port is a tap held open: what the kernel sends out of it can be read, and what is
// written to it arrives from it, as if a guest or a wire were behind it.
type Port struct {
	Name string
	file *os.File
}

// NewPort makes a tap, sets it up and puts it into bridge, unless that is "". It is gone
// after the test.
func NewPort(t testing.TB, name, bridge string) *Port {
	t.Helper()
	return newPort(t, name, bridge, 0)
}

// NewOffloadPort makes one behind which frames begin with a struct virtio_net_hdr, so that
// they may be large ones that are still to be cut up.
func NewOffloadPort(t testing.TB, name, bridge string) *Port {
	t.Helper()
	return newPort(t, name, bridge, unix.IFF_VNET_HDR)
}

func newPort(t testing.TB, name, bridge string, flags uint16) *Port {
	t.Helper()
	f, err := openTap(name, flags)
	if err != nil {
		t.Fatalf("make tap %s: %v", name, err)
	}
	t.Cleanup(func() { _ = f.Close() })
	Quiet(t, name)
	if bridge != "" {
		IP(t, "link set "+name+" master "+bridge)
	}
	IP(t, "link set "+name+" up")
	if bridge != "" {
		WaitForwarding(t, name)
	}
	return &Port{Name: name, file: f}
}

// WaitForwarding waits until a bridge port carries frames: the bridge hears of its
// carrier a little later than the port is set up.
func WaitForwarding(t testing.TB, name string) {
	t.Helper()
	const forwarding = "3"
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile("/sys/class/net/" + name + "/brport/state")
		if err == nil && strings.TrimSpace(string(state)) == forwarding {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("bridge port %s does not forward: state %q, %v", name, state, err)
		}
	}
}

func openTap(name string, flags uint16) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tap "+name), nil
}

// Close takes the port away, as when a guest stops.
func (p *Port) Close() error { return p.file.Close() }

// SetSendBuffer lets so many bytes be under way from the port at most: then Send waits. It is what
// <tune><sndbuf> of libvirt sets.
func (p *Port) SetSendBuffer(bytes int32) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = unix.IoctlSetPointerInt(int(fd), unix.TUNSETSNDBUF, int(bytes)) })
	return errors.Join(cerr, err)
}

// Send lets a frame arrive from behind the port. It waits while the send buffer is full, by poll(2): only that
// asks a tap to tell when there is room, which the edge-triggered epoll of Go's own Write does not.
func (p *Port) Send(t testing.TB, frame []byte) {
	t.Helper()
	raw, err := p.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cerr := raw.Control(func(fd uintptr) {
		for {
			if _, err = unix.Write(int(fd), frame); !errors.Is(err, unix.EAGAIN) {
				return
			}
			room := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if n, perr := unix.Poll(room, int(patience.Milliseconds())); n == 0 || perr != nil && !errors.Is(perr, unix.EINTR) {
				err = fmt.Errorf("wait for room: %w", errors.Join(err, perr))
				return
			}
		}
	})
	if err := errors.Join(cerr, err); err != nil {
		t.Fatalf("send from behind %s: %v", p.Name, err)
	}
}

// patience bounds waits for frames that should come; only failing tests wait that long.
const patience = 30 * time.Second

// Next returns the next frame the kernel sent out of the port.
func (p *Port) Next(t testing.TB) []byte {
	t.Helper()
	frame, err := p.read(patience)
	if err != nil {
		t.Fatalf("wait for a frame at %s: %v", p.Name, err)
	}
	return frame
}

// Waiting returns the next frame that the kernel has sent out of the port by now, nil if there is none: what Send leads
// to without a queue in between is there when it returns.
func (p *Port) Waiting(t testing.TB) []byte {
	t.Helper()
	raw, err := p.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n := 0
	cerr := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) })
	switch {
	case cerr == nil && errors.Is(err, unix.EAGAIN):
		return nil
	case errors.Join(cerr, err) != nil:
		t.Fatalf("read a frame at %s: %v", p.Name, errors.Join(cerr, err))
	}
	return buf[:n]
}

// Expect reads the next frame and compares it. That a frame does not come out is shown by
// sending another one that does, and expecting that.
func (p *Port) Expect(t testing.TB, want []byte) {
	t.Helper()
	if got := p.Next(t); string(got) != string(want) {
		t.Fatalf("frame at %s:\n%s\nwant:\n%s", p.Name, hex.Dump(got), hex.Dump(want))
	}
}

func (p *Port) read(wait time.Duration) ([]byte, error) {
	if err := p.file.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	buf := make([]byte, 64<<10)
	n, err := p.file.Read(buf)
	return buf[:n], err
}

// Frame builds an Ethernet frame of an experimental type with text as its payload.
func Frame(dst, src [6]byte, text string) []byte {
	f := append(dst[:], src[:]...)
	f = append(f, 0x88, 0xb5)
	f = append(f, text...)
	for len(f) < 60 {
		f = append(f, 0)
	}
	return f
}
