package socket

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestListen checks that a private socket has its final permissions from the start.
func TestListen(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(t.Context(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
