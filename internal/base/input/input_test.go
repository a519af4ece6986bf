package input

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	fifo, link, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(file, []byte("abc"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		fifo: "is a pipe, not a regular file", dir: "is a directory, not a regular file",
		"/dev/zero": "is a device, not a regular file", filepath.Join(dir, "none"): "no such file",
		file: "", link: "",
	} {
		failed := make(chan error, 1)
		go func() {
			data, err := Read(path, 3)
			if err == nil && string(data) != "abc" {
				err = errors.New("read " + string(data))
			}
			failed <- err
		}()
		select {
		case err := <-failed:
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", path, err, want)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: still waiting", path)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("abcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file, 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("4 bytes where 3 are taken: %v", err)
	}
}
