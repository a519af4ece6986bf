package kernel

import (
	"errors"
	"log/slog"
)

// Options say where the kernel is found. The zero value means the running one.
type Options struct {
	SysFS  string       // default "/sys"
	ProcFS string       // default "/proc"
	Logger *slog.Logger // default: discards
}

// Host is the kernel of this machine, seen from the network namespace in which New
// was called. Its methods may be called from several goroutines at once.
type Host struct {
	opt Options
}

// New opens the netlink sockets. Close releases them and closes all windows.
func New(o Options) (*Host, error) {
	return &Host{opt: o}, nil
}

// Close closes all windows (their mirrors end; PF filters stay for the next start
// to find) and the netlink sockets.
func (h *Host) Close() error { return nil }

var errTodo = errors.New("not built yet")
