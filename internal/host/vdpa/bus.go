// Package vdpa creates and removes vDPA devices of NICs, and binds them to vhost-vdpa.
package vdpa

import (
	"cmp"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Bus is the vDPA bus.
type Bus struct {
	k   *sysif.Kernel
	dir string // of symbolic links to devices
}

// New returns the Bus, which needs no closing. Symbolic links to devices are in dir, "" for model.VDPADir.
func New(k *sysif.Kernel, dir string) *Bus { return &Bus{k: k, dir: cmp.Or(dir, model.VDPADir)} }
