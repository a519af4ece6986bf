// Package socket creates unix sockets with restricted permissions from the start.
package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen creates a unix socket at path. Its file has the permissions mode, less the umask, from the moment it appears.
func Listen(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	var failed error
	conf := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), uint32(mode.Perm())) }) // bind creates the file with this mode
		return errors.Join(err, failed)
	}}
	return conf.Listen(ctx, "unix", path)
}
