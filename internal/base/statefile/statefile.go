// Package statefile replaces and locks the small files that the daemon keeps, and says what
// to do where that fails.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Replace writes the file anew, on disk when it returns, or leaves it as it was.
func Replace(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, ignoreGone(os.Remove(tmp.Name())))
	}
	return SyncDir(filepath.Dir(path))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SyncDir makes what was renamed or created in a directory survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remedy says what to do about an error in a directory of the daemon's.
func Remedy(dir string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room in " + dir + " (df " + dir + ")"
	case errors.Is(err, syscall.EROFS):
		return "mount the file system of " + dir + " for writing; if it is, systemd keeps the daemon from it: add ReadWritePaths=" + dir + " to the unit (systemctl edit sluice)"
	case errors.Is(err, fs.ErrNotExist):
		return "make the directory again: mkdir -p " + dir
	case errors.Is(err, fs.ErrPermission):
		return "check the permissions of " + dir
	case errors.Is(err, syscall.EIO):
		return "the disk under " + dir + " fails: see dmesg"
	}
	return "see whether files can be written in " + dir
}

// ErrLocked marks a lock that another process holds.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock that the file stands for, until the file is closed or the process
// ends. Who holds it writes its process ID there, for the error of the next.
func Lock(path string) (*os.File, error) {
	const room = 32                                                              // a process ID
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NONBLOCK, 0o600) // does not wait, whatever is there
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
		if pid, e := io.ReadAll(io.LimitReader(f, room)); e == nil && len(pid) > 0 {
			err = fmt.Errorf("%w, %s", ErrLocked, strings.TrimSpace(string(pid)))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Only a help: the lock holds without it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte("pid "+strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}
