// Package mirror copies frames from a tap to a PF with eBPF programs while a VM changes its path, so that both paths receive its
// frames.
package mirror

import (
	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Mirroring manages the mirrors of this host.
type Mirroring struct {
	k       *sysif.Kernel
	links   *netdev.Devices
	bridges *bridge.Bridges
	mirrors *mirrors
}

// New returns a Mirroring that pins mirrors in pins. Close removes those that could not be pinned.
func New(k *sysif.Kernel, links *netdev.Devices, bridges *bridge.Bridges, pins bpf.Pins) *Mirroring {
	return &Mirroring{k: k, links: links, bridges: bridges, mirrors: newMirrors(pins, k.Log)}
}

// Close removes the mirrors that are not pinned.
func (h *Mirroring) Close() error { return h.mirrors.drop() }
