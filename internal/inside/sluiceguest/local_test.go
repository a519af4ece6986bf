package sluiceguest

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another sluice-guest") {
		t.Errorf("a second one: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if l, err = listen(t.Context(), path); err != nil {
		t.Fatalf("after one that died: %v", err)
	}
	_ = l.Close()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("over a file: %v", err)
	}
}

// Users other than root are refused, even if the mode of the socket lets them connect.
func TestOnlyRootIsServed(t *testing.T) {
	noLeaks(t)
	socket := service(t, (&cable{}).open, nil)
	for _, p := range []string{filepath.Dir(filepath.Dir(socket)), filepath.Dir(socket), socket} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine: its user is changed for good
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			read <- errno
			return
		}
		read <- askRaw(socket)
	}()
	if err := <-read; !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("nobody is answered: %v", err)
	}
	c := dial(t, socket)
	if got := hello(t, c); got != "nodaemon" {
		t.Errorf("root: %s", got)
	}
}

// askRaw sends a request from the current thread, without Go's network poller.
func askRaw(socket string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	_, _ = unix.Write(fd, []byte(`{"v":1,"id":1,"method":"hello"}`+"\n"))
	n, err := unix.Read(fd, make([]byte, 1))
	if n == 0 && err == nil {
		return io.EOF
	}
	return err
}
