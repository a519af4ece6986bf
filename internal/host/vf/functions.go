// Package vf finds PFs and their VFs, and changes VFs: address, VLAN and rates at the PF's driver, rate objects of devlink, and which driver
// of the host has them.
package vf

import (
	"sluice/internal/host/bridge"
	"sluice/internal/host/sysif"
)

// Functions are the PFs and VFs of the host.
type Functions struct {
	k       *sysif.Kernel
	bridges *bridge.Bridges
	devlink *devlink
}

// New needs no closing.
func New(k *sysif.Kernel, bridges *bridge.Bridges) *Functions {
	return &Functions{k: k, bridges: bridges, devlink: &devlink{k.Generic}}
}
