package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/internal/base/statefile"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// locks keep daemons from interfering with each other: only one holds a state_dir, and only one on the host moves its VFs. Both
// locks end with the process, however it ends.
type locks struct {
	held    *os.File // of the state_dir
	enforce *os.File // nil until the mode was enforce
}

// runDir is where every daemon of the host finds the others' locks, whatever its config. The unit keeps it while the daemon is
// stopped. Only root can write there, so nobody else can hold the lock. Tests use a directory of their own.
var runDir = "/run/sluice"

// state takes the lock of a state_dir, which holds one daemon's journal and overrides.
func (l *locks) state(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("state_dir %s: %w; %s", dir, err, statefile.Remedy(filepath.Dir(dir), err))
	}
	f, err := statefile.Lock(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, statefile.ErrLocked):
		return fmt.Errorf("state_dir %s is in use by a running daemon (%w); stop that one first: systemctl stop sluice", dir, err)
	case err != nil:
		return fmt.Errorf("state_dir %s: %w; %s", dir, err, statefile.Remedy(dir, err))
	}
	l.held = f
	return nil
}

// mode takes the host's lock when the mode is enforce. It keeps the lock from then on: after a reload that ends the mode, moves
// under way go on.
//
// A host is a network namespace here. The PFs, the bridge and the taps are in it, and nobody can move a VF of this host's VMs
// without them, whichever libvirt it uses.
func (l *locks) mode(m model.Mode) error {
	if m != model.ModeEnforce || l.enforce != nil {
		return nil
	}
	host, err := sysif.NetworkNamespace()
	if err == nil {
		err = os.MkdirAll(runDir, 0o755) //nolint:gosec // the socket's directory too
	}
	if err != nil {
		return fmt.Errorf("mode enforce: %w", err)
	}
	f, err := statefile.Lock(hostLock(host))
	switch {
	case errors.Is(err, statefile.ErrLocked):
		return fmt.Errorf("mode enforce: another daemon moves the VFs of this host (%w), and two would fight over them; stop that one first: "+
			"systemctl stop sluice", err)
	case err != nil:
		return fmt.Errorf("mode enforce: take the host's lock: %w; %s", err, statefile.Remedy(runDir, err))
	}
	l.enforce = f
	return nil
}

func hostLock(namespace uint64) string {
	return filepath.Join(runDir, fmt.Sprintf("enforce-%d.lock", namespace))
}

// enforced reports whether a daemon of this host moves VFs, this one or another.
func (l *locks) enforced() bool {
	if l.enforce != nil {
		return true
	}
	host, err := sysif.NetworkNamespace()
	if err != nil {
		return false
	}
	return lockedBySomebody(hostLock(host))
}

func (l *locks) close() {
	for _, f := range []*os.File{l.held, l.enforce} {
		if f != nil {
			_ = f.Close() // releases the lock
		}
	}
}
