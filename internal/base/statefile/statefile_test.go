package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"one", "two"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(path); err != nil || string(have) != text {
			t.Errorf("%q, %v", have, err)
		}
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

// TestFullDisk checks that a full disk leaves the file unchanged, and that the remedy is about space, not permissions.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv("SLUICE_TEST_NO_ROOT") == "1" {
		t.Skip("SLUICE_TEST_NO_ROOT=1: needs a file system of its own")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	path := filepath.Join(dir, "f")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	err := Replace(path, make([]byte, 64<<10))
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(Remedy(dir, err), "make room") {
		t.Errorf("%v; %s", err, Remedy(dir, err))
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != "old" {
		t.Errorf("%q, %v", have, err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

func TestRemedies(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "make room", syscall.EDQUOT: "make room", syscall.EROFS: "ReadWritePaths=/d", syscall.ENOENT: "mkdir -p /d",
		syscall.EACCES: "permissions", syscall.EPERM: "permissions", syscall.EIO: "dmesg", syscall.EBUSY: "can be written",
	} {
		if got := Remedy("/d", &os.PathError{Op: "open", Path: "/d/f", Err: err}); !strings.Contains(got, want) {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) {
		t.Errorf("%v, want who holds it", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
