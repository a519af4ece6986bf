// Package socket makes unix sockets that are private from the first moment.
package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen makes a unix socket at a path. Its file has these permissions when it appears, or fewer, by the umask.
func Listen(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	var failed error
	conf := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), uint32(mode.Perm())) }) // bind gives the file this mode
		return errors.Join(err, failed)
	}}
	return conf.Listen(ctx, "unix", path)
}
