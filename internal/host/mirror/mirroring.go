// Package mirror copies frames between a tap and a PF by eBPF programs while a VM changes its path, so that both paths hear what is for it.
package mirror

import (
	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Mirroring is what stands of that on this host.
type Mirroring struct {
	k       *sysif.Kernel
	links   *netdev.Devices
	bridges *bridge.Bridges
	mirrors *mirrors
}

// New pins mirrors there. Close forgets those that could not be pinned, and so removes them.
func New(k *sysif.Kernel, links *netdev.Devices, bridges *bridge.Bridges, pins bpf.Pins) *Mirroring {
	return &Mirroring{k: k, links: links, bridges: bridges, mirrors: newMirrors(pins, k.Log)}
}

// Close removes the mirrors that are not pinned.
func (h *Mirroring) Close() error { return h.mirrors.drop() }
