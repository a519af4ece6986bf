// Package tap enforces limits and the rules of the embedded switch on what guests send and receive through taps. It uses eBPF
// programs (TCX) that outlive the process.
package tap

import (
	"time"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Taps manages the taps of a network namespace.
type Taps struct {
	k       *sysif.Kernel
	links   *netdev.Devices
	bridges *bridge.Bridges
	taps    *taps
}

// New returns the Taps that pin programs and maps in pins. lease is how long the leased rates of a policy apply after UpdateTap.
func New(k *sysif.Kernel, links *netdev.Devices, bridges *bridge.Bridges, pins bpf.Pins, lease time.Duration) *Taps {
	return &Taps{k: k, links: links, bridges: bridges, taps: newTaps(pins, lease, k.Log)}
}

// Close closes what this process has open; pinned objects stay.
func (h *Taps) Close() error { return h.taps.drop() }
