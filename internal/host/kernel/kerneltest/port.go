package kerneltest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// IP runs ip(8) with the words of line and fails the test if that fails.
func IP(t testing.TB, line string) string { return run(t, "ip", line) }

// Bridge runs bridge(8) with the words of line and fails the test if that fails.
func Bridge(t testing.TB, line string) string { return run(t, "bridge", line) }

// TC runs tc(8) with the words of line and fails the test if that fails.
func TC(t testing.TB, line string) string { return run(t, "tc", line) }

func run(t testing.TB, tool, line string) string {
	t.Helper()
	out, err := exec.Command(tool, strings.Fields(line)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, line, err, out)
	}
	return string(out)
}

// NewBridge creates a bridge without multicast snooping (its queries are noise) and without forwarding delay. It is removed after
// the test.
func NewBridge(t testing.TB, name string) {
	t.Helper()
	IP(t, "link add "+name+" type bridge mcast_snooping 0 forward_delay 0")
	t.Cleanup(func() { IP(t, "link del "+name) })
	Quiet(t, name)
	IP(t, "link set "+name+" up")
}

// Quiet keeps IPv6 from sending frames of its own through an interface.
func Quiet(t testing.TB, name string) {
	t.Helper()
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// Port is a tap held open: frames that the kernel sends out of it can be read, and frames written to it arrive as from a guest or
// a wire.
type Port struct {
	Name string
	file *os.File
}

// NewPort creates a tap, sets it up and adds it to bridge unless that is "". It is removed after the test.
func NewPort(t testing.TB, name, bridge string) *Port {
	t.Helper()
	return newPort(t, name, bridge, 0)
}

// NewOffloadPort is NewPort with a struct virtio_net_hdr in front of each frame, so that frames may be large and still to be
// segmented.
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

// WaitForwarding waits until a bridge port forwards: the bridge learns of its carrier a little later than the port is set up.
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

// Close removes the port, as when a guest stops.
func (p *Port) Close() error { return p.file.Close() }

// SetSendBuffer limits the bytes in flight from the port, beyond which Send blocks, as <tune><sndbuf> of libvirt does.
func (p *Port) SetSendBuffer(bytes int32) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = unix.IoctlSetPointerInt(int(fd), unix.TUNSETSNDBUF, int(bytes)) })
	return errors.Join(cerr, err)
}

// Send makes a frame arrive from behind the port. While the send buffer is full it waits by poll(2): only that makes a tap signal
// space, which the edge-triggered epoll of Go's own Write does not.
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

// patience bounds waits for frames that should arrive; only failing tests wait that long.
const patience = 30 * time.Second

// Next returns the next frame the kernel sent out of the port.
func (p *Port) Next(t testing.TB) []byte {
	t.Helper()
	buf, n := make([]byte, 64<<10), 0
	err := p.file.SetReadDeadline(time.Now().Add(patience))
	if err == nil {
		n, err = p.file.Read(buf)
	}
	if err != nil {
		t.Fatalf("wait for a frame at %s: %v", p.Name, err)
	}
	return buf[:n]
}

// Waiting returns the next frame that the kernel has already sent out of the port, nil if there is none. Without a queue in
// between, the result of a Send is there when Send returns.
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

// Expect reads the next frame and compares it. To check that a frame does not arrive, send another one that does, and expect
// that.
func (p *Port) Expect(t testing.TB, want []byte) {
	t.Helper()
	if got := p.Next(t); string(got) != string(want) {
		t.Fatalf("frame at %s:\n%s\nwant:\n%s", p.Name, hex.Dump(got), hex.Dump(want))
	}
}

// Frame builds an Ethernet frame with an experimental EtherType and text as its payload.
func Frame(dst, src [6]byte, text string) []byte {
	f := slices.Concat(dst[:], src[:], []byte{0x88, 0xb5}, []byte(text))
	return append(f, make([]byte, max(0, 60-len(f)))...)
}
