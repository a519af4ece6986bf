// Package guest asks the QEMU guest agent for the counters of the guest's interfaces, or takes them from sluice-guest's reports.
//
// Whatever a guest answers is untrusted: size, depth, count, names and numbers are checked before use, and the context bounds the time.
// Numbers that pass are well-formed, not true: compare them with what the host sees.
package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sluice/internal/model"
)

// Transport carries one agent command, a JSON object, to a VM's agent and returns the whole answer. It obeys ctx.
type Transport interface {
	Agent(ctx context.Context, vm model.VMID, cmd []byte) ([]byte, error)
}

// ErrAnswer means that the guest's answer was malformed or out of bounds. It comes with model.ErrGuest.
var ErrAnswer = errors.New("the guest agent's answer is not usable")

// ErrRefused means that the agent does not know a command or may not run it.
var ErrRefused = errors.New("the guest agent refused")

// Counters are a guest interface's counters since the guest booted, or since its driver was bound.
type Counters struct {
	Name      string    // the guest's own name: printable, at most 64 bytes
	MAC       model.MAC // never zero
	RxBytes   uint64
	RxPackets uint64
	RxDropped uint64
	TxBytes   uint64
	TxPackets uint64
	TxDropped uint64
	TxWaiting uint64 // bytes waiting in its queue; only sluice-guest reports them
}

// Client asks guests over a Transport. It holds no state of a VM; the caller limits how often and how many times at once a VM is asked.
type Client struct {
	// Exec allows guest-exec if the agent refuses to read files. Set it before use.
	Exec bool
	t    Transport
}

// New makes a Client.
func New(t Transport) *Client { return &Client{t: t} }

// Interfaces returns the counters of the guest's Ethernet interfaces, in the guest's order. They include the lower devices of a failover or
// bond.
//
// The agent gives no counters for an interface without an IP address; these come from the guest's /proc/net/dev. If the agent refuses that
// too, such interfaces are left out.
func (c *Client) Interfaces(ctx context.Context, vm model.VMID) ([]Counters, error) {
	found, err := c.interfaces(ctx, vm)
	if err != nil {
		return nil, fmt.Errorf("read the guest interfaces of %s: %w", vm, err)
	}
	if !found.complete() {
		err := c.complete(ctx, vm, found)
		if err != nil && (ctx.Err() != nil || errors.Is(err, model.ErrGuest)) {
			return nil, fmt.Errorf("read the guest's /proc/net/dev of %s: %w", vm, err)
		}
	}
	return found.counters(), nil
}

// WithMAC returns how many of the guest's Ethernet interfaces have a MAC: two or more if a bond, a team or a failover is above its NIC.
func (c *Client) WithMAC(ctx context.Context, vm model.VMID, mac model.MAC) (n int, err error) {
	found, err := c.interfaces(ctx, vm)
	if err != nil {
		return 0, fmt.Errorf("read the guest interfaces of %s: %w", vm, err)
	}
	for _, f := range found {
		if f.mac == mac {
			n++
		}
	}
	return n, nil
}

// request is an agent command.
type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
}

// do sends a command and decodes its result into out.
func (c *Client) do(ctx context.Context, vm model.VMID, name string, args, out any) error {
	cmd, err := json.Marshal(request{name, args})
	if err != nil {
		return err
	}
	answer, err := c.t.Agent(ctx, vm, cmd)
	if err != nil {
		return err
	}
	if err := decode(answer, out); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
