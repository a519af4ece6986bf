// Package vf finds PFs and their VFs, and changes VFs: MAC, VLAN and rates through the PF's driver, devlink rate objects, and the
// host driver that a VF is bound to.
package vf

import (
	"sluice/internal/host/bridge"
	"sluice/internal/host/sysif"
)

// Functions manages the PFs and VFs of the host.
type Functions struct {
	k       *sysif.Kernel
	bridges *bridge.Bridges
	devlink *devlink
}

// New returns the Functions of the host. They need no closing.
func New(k *sysif.Kernel, bridges *bridge.Bridges) *Functions {
	return &Functions{k: k, bridges: bridges, devlink: &devlink{k.Generic}}
}
