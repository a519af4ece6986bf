// Package htb shares a PF's link among taps with HTB trees, each on its own ifb device.
package htb

import (
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Trees manages the HTB trees of a network namespace.
type Trees struct {
	k     *sysif.Kernel
	links *netdev.Devices
}

// New returns the Trees of the namespace. They need no closing.
func New(k *sysif.Kernel, links *netdev.Devices) *Trees { return &Trees{k: k, links: links} }
