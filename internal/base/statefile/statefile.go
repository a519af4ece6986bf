// Package statefile replaces and locks the daemon's small files, and suggests remedies for their errors.
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

// Replace writes the whole file and syncs it to disk, or leaves it unchanged. The temporary file always has the same name,
// .NAME.new, so that one left by a killed process is reused.
func Replace(path string, data []byte) error {
	tmp, err := create(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new"))
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()), tmp.Close())
	}
	return errors.Join(tmp.Close(), SyncDir(filepath.Dir(path)))
}

// create opens an empty file and locks it, so that other writers of the same file wait.
func create(name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		var own, there fs.FileInfo
		if err == nil {
			own, err = f.Stat()
		}
		if err == nil {
			there, err = os.Lstat(name)
		}
		if err == nil && os.SameFile(own, there) {
			if err = f.Truncate(0); err == nil {
				return f, nil
			}
		}
		_ = f.Close() // nothing was written
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// Another writer has renamed it meanwhile: try again.
	}
}

// SyncDir makes renames and creations in a directory survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remedy says what to do about an error in a directory of the daemon.
func Remedy(dir string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room in " + dir + " (df " + dir + ")"
	case errors.Is(err, syscall.EROFS):
		return "mount the file system of " + dir + " for writing; if it is, systemd keeps the daemon from it: add ReadWritePaths=" + dir +
			" to the unit (systemctl edit sluice)"
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

// Lock locks the file until it is closed or the process ends. It writes the holder's process ID there, for the error messages of
// others.
func Lock(path string) (*os.File, error) {
	const room = 32                                                              // a process ID
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NONBLOCK, 0o600) // O_NONBLOCK: do not block, whatever is there
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
	// Informational: the lock holds without it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte("pid "+strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}
