package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/internal/base/socket"
	"sluice/internal/base/statefile"
)

// socketDirMode lets members of the group reach the socket inside.
const socketDirMode = 0o755

// listenUnix creates the daemon's socket, mode 0660, owned by root and the group. It replaces a stale socket; one that
// answers is an error. The lock file beside it prevents a race between two daemons that start at once; it is released when
// the listener closes or the process ends. If the group does not exist, warn is called and only root may connect.
func listenUnix(path, group string, warn func(string)) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), socketDirMode); err != nil {
		return nil, fmt.Errorf("create the socket's directory: %w", err)
	}
	lock, err := statefile.Lock(path + ".lock")
	if errors.Is(err, statefile.ErrLocked) {
		err = errLive
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l, err := bind(path, group, warn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), lock.Close())
	}
	return &lockedListener{Listener: l, lock: lock}, nil
}

func bind(path, group string, warn func(string)) (net.Listener, error) {
	if err := removeDead(path); err != nil {
		return nil, err
	}
	l, err := socket.Listen(context.Background(), path, 0o600)
	if err != nil {
		return nil, err
	}
	if err := allowGroup(path, group, warn); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// errLive means that the socket belongs to a running daemon.
var errLive = errors.New("another daemon serves it; stop that one first: systemctl stop sluice")

// removeDead removes a socket that nobody listens on. Any other file at that path is kept.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("another file is at this path; move it away or set api.socket to another path")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(errLive, c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot determine whether a daemon serves it: %w", err)
	}
	return os.Remove(path)
}

// allowGroup gives the group access to the socket.
func allowGroup(path, group string, warn func(string)) error {
	if group == "" {
		return os.Chmod(path, 0o600)
	}
	gid, err := idOf(group, true)
	if err != nil {
		warn(fmt.Sprintf("group %q does not exist, so only root can use %s; create it: groupadd --system %s", group, path, group))
		return os.Chmod(path, 0o600)
	}
	if err := os.Chown(path, -1, int(gid)); err != nil {
		return err
	}
	return os.Chmod(path, 0o660) // the group has read access to the API
}

// lockedListener releases the lock when the socket closes.
type lockedListener struct {
	net.Listener
	lock *os.File
}

// Close closes the listener, which removes the socket, and then the lock.
func (l *lockedListener) Close() error { return errors.Join(l.Listener.Close(), l.lock.Close()) }
