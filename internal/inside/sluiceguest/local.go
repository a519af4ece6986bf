package sluiceguest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/socket"
	"sluice/internal/channel"
)

// atMost is how many local clients are served at a time; others wait.
const atMost = 64

// localLimits are generous: only root can send requests here, and the daemon limits each guest as a whole. Handle exceeds the daemon's,
// and a client may be silent.
var localLimits = channel.Limits{Requests: 1000, Bytes: 8 << 20, Handle: 45 * time.Second, Silent: time.Hour}

// listen creates the socket, accessible only to root from the start. It replaces a socket left by a dead process.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("another sluice-guest serves %s: stop that one first (systemctl stop sluice-guest)", path)
	}
	switch info, err := os.Lstat(path); {
	case err == nil && info.Mode().Type() == fs.ModeSocket:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	case err == nil:
		return nil, fmt.Errorf("%s exists and is not a socket: move it away, or give another path with -socket", path)
	}
	return socket.Listen(ctx, path, 0o600)
}

// serveLocal serves clients in the guest until ctx ends.
func serveLocal(ctx context.Context, l net.Listener, h channel.Handler, log *slog.Logger) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	slots := make(chan struct{}, atMost)
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept clients: %w", err)
		}
		if uid, err := peer(conn); err != nil || !admitted(uid) {
			log.Warn("refused a client that is not root", "uid", uid, "error", err)
			_ = conn.Close()
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			continue
		}
		clients.Go(func() {
			defer func() { <-slots }()
			if err := channel.Serve(ctx, conn, h, localLimits); err != nil && ctx.Err() == nil {
				log.Debug("a client was cut off", "error", err)
			}
		})
	}
}

// peer returns the user ID of the other end, as reported by the kernel.
func peer(conn net.Conn) (uint32, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return cred.Uid, nil
}

// admitted reports whether a user may send requests: root, or the user that runs this process.
func admitted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// forwarder passes requests on to the daemon under IDs of its own. It answers hello itself with the daemon's last answer, so that a
// client learns whether there is a daemon.
type forwarder struct{ up *uplink }

func (f forwarder) Handle(ctx context.Context, method channel.Method, body json.RawMessage) (any, error) {
	daemon, welcome, err := f.up.daemon()
	if err != nil {
		return nil, err
	}
	switch method {
	case channel.MethodHello:
		return welcome, nil
	case channel.MethodAttach, channel.MethodDetach, channel.MethodList:
	default:
		return nil, &channel.Error{Code: channel.CodeInvalid, Text: fmt.Sprintf("sluice-guest does not pass on %.40q", method)}
	}
	var answer json.RawMessage
	err = daemon.Call(ctx, method, body, &answer)
	var refused *channel.Error
	switch {
	case err == nil:
		return answer, nil
	case errors.As(err, &refused):
		return nil, err
	}
	return nil, &channel.Error{
		Code: channel.CodeFailed, Text: fmt.Sprintf("Sluice on the host did not answer to %s: %v", method, err),
		Remedy: "ask again: what was done already is not done twice",
	}
}
