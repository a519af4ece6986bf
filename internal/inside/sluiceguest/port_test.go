package sluiceguest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/channel"
)

// terminal opens a pseudoterminal in raw mode: a character device of the kernel that hangs up when its other end closes. It returns
// that end and the path.
func terminal(t testing.TB) (master *os.File, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	var mode *unix.Termios
	if err == nil {
		mode, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	}
	if err == nil {
		mode.Iflag, mode.Oflag, mode.Lflag = 0, 0, 0
		err = unix.IoctlSetTermios(fd, unix.TCSETS, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = master.Close() })
	return master, fmt.Sprintf("/dev/pts/%d", number)
}

func TestPortThatIsADevice(t *testing.T) {
	noLeaks(t)
	master, path := terminal(t)
	p, err := openPort(path)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := p.connected(); !there || err != nil {
		t.Errorf("connected: %v, %v", there, err)
	}
	ended := make(chan error)
	go func() {
		_, err := p.Read(make([]byte, 10))
		ended <- err
	}()
	_ = master.Close()
	if err := <-ended; err == nil {
		t.Error("reading goes on after the other end has closed")
	}
	if there, err := p.connected(); there || err == nil || !strings.Contains(err.Error(), "has gone") {
		t.Errorf("connected, after the end: %v, %v", there, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := openPort(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what has gone: %v", err)
	}
}

// A port whose other end never reads does not block the writer forever; closing it ends the reader.
func TestPortThatNobodyReads(t *testing.T) {
	noLeaks(t)
	_, path := terminal(t)
	p, err := openPort(path)
	if err != nil {
		t.Fatal(err)
	}
	c := channel.NewClient(p)
	if err := p.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = p.Write(make([]byte, 4096))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The port disappears, is busy, and returns under another name: the service finds it again.
func TestPortIsOpenedAgain(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	master, path := terminal(t)
	busy := 0
	open := func() (port, error) {
		mu.Lock()
		defer mu.Unlock()
		if busy > 0 {
			busy--
			return nil, unix.EBUSY
		}
		return openPort(path)
	}
	client := dial(t, service(t, open, nil))
	var daemons sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer daemons.Wait()
	defer cancel()
	serve := func(m *os.File) {
		daemons.Go(func() { _ = channel.Serve(ctx, m, channel.Dispatch(&daemon{}), channel.Limits{}) })
	}
	serve(master)
	eventually(t, "the daemon is there", func() bool { return hello(t, client) == "" })

	mu.Lock()
	_ = master.Close()
	master, path = terminal(t)
	busy = 2
	mu.Unlock()
	serve(master)
	eventually(t, "the new port is open", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return busy == 0
	})
	eventually(t, "the daemon is there again", func() bool { return hello(t, client) == "" })
}

func TestFindPort(t *testing.T) {
	named := func(name string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(name + "\n")} }
	for want, root := range map[string]fstest.MapFS{
		"/dev/virtio-ports/org.sluice.0": {"dev/virtio-ports/org.sluice.0": named("")},
		"/dev/vport2p2": {
			"sys/class/virtio-ports/vport1p1/name": named("org.qemu.guest_agent.0"),
			"sys/class/virtio-ports/vport2p2/name": named(channel.Port),
		},
		"": {"sys/class/virtio-ports/vport1p1/name": named("org.qemu.guest_agent.0")},
	} {
		got, err := findPort(root)
		if got != want || (err == nil) == (want == "") {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "modprobe virtio_console") {
			t.Errorf("no remedy: %v", err)
		}
	}
}

func TestPausesGrow(t *testing.T) {
	var p pauses
	var sum time.Duration
	for range 6 {
		sum += p.next()
	}
	if sum != 250*time.Millisecond+500*time.Millisecond+time.Second+2*time.Second+4*time.Second+5*time.Second {
		t.Error(sum)
	}
}
