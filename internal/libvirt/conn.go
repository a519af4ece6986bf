package libvirt

import (
	"context"
	"errors"

	"sluice/internal/model"
)

// ErrDisconnected marks that libvirtd cannot be reached at present. Conn keeps
// trying by itself.
var ErrDisconnected = errors.New("not connected to libvirt")

// ErrStuck marks that an earlier call on the same domain has not come back, so that
// no other is made on it.
var ErrStuck = errors.New("an earlier libvirt call has not returned")

// Conn is a connection to libvirt that keeps itself up. All methods may be called
// from any goroutine.
type Conn struct {
	changed chan struct{}
}

var errTODO = errors.New("libvirt: not built yet")

// Open connects and reads all domains. It fails only if trying again cannot help
// (no libvirt.so.0, a bad URI); a libvirtd that is merely down leaves a Conn
// that keeps trying and whose methods return ErrDisconnected.
func Open(ctx context.Context, o Options) (*Conn, error) { return nil, errTODO }

// Domains returns all active domains, sorted by ID, from the cache that events keep
// true: it makes no call. The result is the caller's.
func (c *Conn) Domains(ctx context.Context) ([]Domain, error) { return nil, errTODO }

// Problems returns what is wrong with the domains or could not be read: MACs used
// twice, domains whose calls are stuck, XML that could not be read.
func (c *Conn) Problems() []model.Problem { return nil }

// Changed returns a channel that receives, coalesced, after the inventory changed.
// It is one channel for all callers, never closed.
func (c *Conn) Changed() <-chan struct{} { return c.changed }

// Stats returns CPU time and state of all active domains with one call, which does
// not wait for domains that are busy.
func (c *Conn) Stats(ctx context.Context) (map[model.VMID]Stat, error) { return nil, errTODO }

// Attach hot-plugs a VF into a running domain (not into its stored definition). If
// the alias is there already with the same address, it succeeds.
func (c *Conn) Attach(ctx context.Context, vm model.VMID, spec HostdevSpec) error { return errTODO }

// Detach asks the guest to give up the device with that alias and returns without
// waiting for it. Repeating it is harmless and re-sends a request that was lost.
// A device that is not there is a success.
func (c *Conn) Detach(ctx context.Context, vm model.VMID, alias string) error { return errTODO }

// WaitGone waits until the device with that alias is gone from the domain. It
// fails with model.ErrGuest when the guest refused, or did nothing before ctx ended,
// and with model.ErrGone when the domain stopped.
func (c *Conn) WaitGone(ctx context.Context, vm model.VMID, alias string) error { return errTODO }

// Agent sends one command to the guest agent and returns its answer. The
// caller bounds it by ctx and limits how many it has under way per domain.
func (c *Conn) Agent(ctx context.Context, vm model.VMID, command []byte) ([]byte, error) {
	return nil, errTODO
}

// Close ends the connection. Calls under way return soon; one that is stuck in
// libvirt is left behind.
func (c *Conn) Close() error { return nil }
