package scenario

import (
	"slices"
	"time"

	"sluice/internal/sim"
)

// carrier shares what the virtio path and the link carry, and turns what VMs want to
// send into what they move. Policies see what is moved, as they do on a host: a VM that
// is slowed down looks less busy than it would like to be.
type carrier struct {
	path  Path
	vms   []*carried
	now   time.Time
	valid bool
	order []*carried
}

// carried is one VM's load behind a carrier. It is a sim.Load.
type carried struct {
	by   *carrier
	vm   *sim.VM
	want *vmLoad

	size, cpus, got float64
}

// on says whether a scenario has such a model.
func (p *Path) on() bool { return p.Virtio+p.VirtioVM+p.VFVM+p.Gbit > 0 }

// At implements sim.Load.
func (c *carried) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	c.by.share(t)
	return c.got, c.got * c.size, c.cpus
}

// share works out who moves what at a time.
func (c *carrier) share(t time.Time) {
	if c.valid && t.Equal(c.now) {
		return
	}
	c.now, c.valid = t, true
	c.order = c.order[:0]
	for _, v := range c.vms {
		v.ask(t)
		if _, open := v.vm.Holds(); !open {
			c.order = append(c.order, v)
		}
	}
	if c.path.Virtio > 0 {
		fill(c.order, c.path.Virtio, func(*carried) float64 { return 1 })
	}
	c.order = append(c.order[:0], c.vms...)
	if c.path.Gbit > 0 {
		fill(c.order, c.path.Gbit*1e9/8, func(v *carried) float64 { return v.size })
	}
}

// ask finds what the VM wants and what its own path lets through.
func (v *carried) ask(t time.Time) {
	pps, bytes, cpus := v.want.At(t)
	v.cpus, v.size = cpus, 0
	if pps > 0 {
		v.size = bytes / pps
	}
	limit := v.by.path.VirtioVM
	if _, open := v.vm.Holds(); open {
		limit = v.by.path.VFVM
	}
	v.got = pps
	if limit > 0 {
		v.got = min(pps, limit)
	}
}

// fill shares a capacity max-min: those that want least are served first, and what they
// leave is shared by the rest. cost is what one packet takes of the capacity.
func fill(vms []*carried, capacity float64, cost func(*carried) float64) {
	slices.SortStableFunc(vms, func(a, b *carried) int {
		x, y := a.got*cost(a), b.got*cost(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for i, v := range vms {
		share := capacity / float64(len(vms)-i)
		if need := v.got * cost(v); need > share {
			v.got = share / cost(v)
		}
		capacity -= v.got * cost(v)
	}
}
