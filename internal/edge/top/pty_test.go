package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"
)

// terminal is the user's end of a pseudo terminal.
type terminal struct {
	*os.File
	t    *testing.T
	mu   sync.Mutex
	seen bytes.Buffer
}

// newTerminal returns a terminal and the device name for the program.
func newTerminal(t *testing.T, columns, rows int) (*terminal, string) {
	t.Helper()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{File: f, t: t}
	term.resize(columns, rows)
	t.Cleanup(func() { _ = f.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			if err != nil {
				return
			}
			term.mu.Lock()
			term.seen.Write(b[:n])
			term.mu.Unlock()
		}
	}()
	return term, fmt.Sprintf("/dev/pts/%d", n)
}

func (m *terminal) resize(columns, rows int) {
	m.t.Helper()
	ws := unix.Winsize{Col: uint16(columns), Row: uint16(rows)} //nolint:gosec // small
	if err := unix.IoctlSetWinsize(int(m.Fd()), unix.TIOCSWINSZ, &ws); err != nil {
		m.t.Fatal(err)
	}
}

// sees waits for a text and discards the output up to its end.
func (m *terminal) sees(text string) {
	m.t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
		m.mu.Lock()
		_, after, found := bytes.Cut(bytes.Clone(m.seen.Bytes()), []byte(text))
		if found {
			m.seen.Reset()
			m.seen.Write(after)
		}
		m.mu.Unlock()
		if found {
			return
		}
	}
	m.t.Fatalf("%q did not come; there is %q", text, m.seen.String())
}

func (m *terminal) types(keys string) {
	m.t.Helper()
	if _, err := m.WriteString(keys); err != nil {
		m.t.Fatal(err)
	}
}

// told is a Source whose answers a test sets.
type told struct{ next chan look }

func (s *told) Look(ctx context.Context, _ uint64) (*Data, error) {
	select {
	case l := <-s.next:
		return l.data, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *told) Explain(_ context.Context, vm string) ([]string, error) {
	return []string{"explained: " + vm}, nil
}

func TestOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	m, device := newTerminal(t, 80, 24)
	src := &told{make(chan look, 1)}
	src.next <- look{data: sample()}
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), src, func() (tcell.Screen, error) {
			tty, err := tcell.NewDevTtyFromDev(device)
			if err != nil {
				return nil, err
			}
			return tcell.NewTerminfoScreenFromTty(tty)
		}, "Sluice")
	}()
	m.sees("PACKETS/S*")
	m.types("?")
	m.sees("Keys")
	m.types("q\x1b[B\r") // back, one row down, details of that VM
	m.sees("explained:")
	m.sees("0008")
	m.types("q")
	m.resize(120, 40) // a wider terminal has more columns
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	m.sees("PROMISED")
	src.next <- look{err: errors.New("nobody is there")}
	m.sees("nobody")
	d := sample()
	d.VMs[0].Name = "ZYXWVUTS"
	src.next <- look{data: d}
	m.sees("ZYXWVUTS")
	m.types("q")
	m.sees("\x1b[?1049l") // the previous contents of the terminal are restored
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// Without a daemon the terminal is not touched.
func TestFirstLookFails(t *testing.T) {
	src := &told{make(chan look, 1)}
	want := errors.New("no daemon")
	src.next <- look{err: want}
	err := Run(t.Context(), src, func() (tcell.Screen, error) {
		t.Error("the screen is opened")
		return nil, errors.New("none")
	}, "")
	if !errors.Is(err, want) {
		t.Errorf("have %v", err)
	}
}
