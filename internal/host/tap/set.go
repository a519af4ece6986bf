// Package tap holds what guests send and receive through taps to limits, and to the rules of the embedded switch, by eBPF programs (TCX) that
// outlive the process.
package tap

import (
	"time"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Taps are those of a network namespace.
type Taps struct {
	k       *sysif.Kernel
	links   *netdev.Devices
	bridges *bridge.Bridges
	taps    *taps
}

// New pins programs and maps there. What a tap is allowed holds for so long after UpdateTap. Close closes what is open; what is pinned stays.
func New(k *sysif.Kernel, links *netdev.Devices, bridges *bridge.Bridges, pins bpf.Pins, lease time.Duration) *Taps {
	return &Taps{k: k, links: links, bridges: bridges, taps: newTaps(pins, lease, k.Log)}
}

// Close closes what is open.
func (h *Taps) Close() error { return h.taps.drop() }
