// Package bridge reads and changes the state of Linux bridge ports: static FDB entries, isolation, VLANs, and the unicast filters
// (`self`) of NICs for addresses behind them.
package bridge

import (
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Bridges manages the bridges of a network namespace.
type Bridges struct {
	k      *sysif.Kernel
	links  *netdev.Devices
	sticky bool
}

// New returns the Bridges of the namespace. They need no closing. With sticky, no frame can move the entries of PinFDB.
func New(k *sysif.Kernel, links *netdev.Devices, sticky bool) *Bridges {
	return &Bridges{k: k, links: links, sticky: sticky}
}
