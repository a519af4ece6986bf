// Package bridge reads and changes what Linux bridges know of ports: static entries of the FDB, isolation, VLANs, and the filters
// (`self`) that a NIC holds for addresses behind it.
package bridge

import (
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Bridges are those of a network namespace.
type Bridges struct {
	k      *sysif.Kernel
	links  *netdev.Devices
	sticky bool
}

// New needs no closing. Sticky makes entries that no frame can move; see PinFDB.
func New(k *sysif.Kernel, links *netdev.Devices, sticky bool) *Bridges {
	return &Bridges{k: k, links: links, sticky: sticky}
}
