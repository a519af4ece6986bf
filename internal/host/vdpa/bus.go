// Package vdpa makes and removes vDPA devices of NICs, and gives them to vhost-vdpa.
package vdpa

import (
	"cmp"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Bus is the vDPA bus.
type Bus struct {
	k   *sysif.Kernel
	dir string // of links to devices
}

// New needs no closing. Links to devices are in dir, "" for model.VDPADir.
func New(k *sysif.Kernel, dir string) *Bus { return &Bus{k: k, dir: cmp.Or(dir, model.VDPADir)} }
