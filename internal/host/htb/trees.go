// Package htb shares a PF's link among taps by HTB trees, each on an ifb device of its own.
package htb

import (
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Trees are those of a network namespace.
type Trees struct {
	k     *sysif.Kernel
	links *netdev.Devices
}

// New needs no closing.
func New(k *sysif.Kernel, links *netdev.Devices) *Trees { return &Trees{k: k, links: links} }
