// Package guest asks the QEMU guest agent what the guest's interfaces counted.
//
// Whatever a guest answers is untrusted: size, depth, count, names and numbers are
// bounded before anything is made of them, and time is bounded by the context. Numbers
// that pass here are well-formed, not true: compare them with what the host sees.
package guest

import (
	"context"
	"errors"

	"sluice/internal/model"
)

// Transport carries one agent command, a JSON object, to a VM's agent and
// returns the whole answer. It obeys ctx.
type Transport interface {
	Agent(ctx context.Context, vm model.VMID, cmd []byte) ([]byte, error)
}

// ErrAnswer marks that the guest answered with something malformed or out of bounds.
var ErrAnswer = errors.New("the guest agent's answer is not usable")

// Counters are a guest interface's counters since the guest booted, or since its
// driver was bound.
type Counters struct {
	Name      string    // the guest's own name: printable, at most 15 bytes
	MAC       model.MAC // zero if the guest did not say
	RxBytes   uint64
	RxPackets uint64
	RxDropped uint64
	TxBytes   uint64
	TxPackets uint64
	TxDropped uint64
}

// Client asks guests over a Transport. It holds no state of a VM; limiting how
// often and how many at a time one VM is asked is the caller's job.
type Client struct {
	t Transport
}

// New makes a Client.
func New(t Transport) *Client { return &Client{t: t} }

// Interfaces returns the counters of all Ethernet interfaces of the guest, the lower
// devices of a failover or bond included, in the guest's order.
func (c *Client) Interfaces(ctx context.Context, vm model.VMID) ([]Counters, error) {
	return nil, errors.New("guest: not built yet")
}

// Ping says whether the agent answers.
func (c *Client) Ping(ctx context.Context, vm model.VMID) error {
	return errors.New("guest: not built yet")
}
