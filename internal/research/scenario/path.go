package scenario

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/research/sim"
)

// carrier shares the capacity of the virtio path and the link, and turns what VMs want to send into what they move. Policies see what is
// moved, as on a real host: a VM that is slowed down looks less busy than it would be otherwise.
type carrier struct {
	path  Path
	vms   []*carried
	now   time.Time
	valid bool
	order []*carried
	busy  float64 // utilisation of the virtio path; 0 if its capacity is not stated
	// copied is called with each complete copy and how long it took.
	copied func(vm *sim.VM, seconds float64)
}

// carried is one VM's load behind a carrier. It is a sim.Load.
type carried struct {
	by   *carrier
	vm   *sim.VM
	want *vmLoad

	size, cpus, got float64

	copy  *part     // the part of the load that is a copy
	began time.Time // start of the copy
	left  float64   // bytes left; 0: complete
}

// on reports whether the scenario limits any path.
func (p *Path) on() bool { return p.Virtio+p.VirtioVM+p.VFVM+p.Gbit > 0 }

// copies reports whether any load is a copy of limited size.
func (s *Scenario) copies() bool {
	return slices.ContainsFunc(s.VMs, func(g Group) bool { return g.Load.CopyMB > 0 }) ||
		slices.ContainsFunc(s.Timeline, func(c Change) bool { return c.Load.CopyMB > 0 })
}

// At implements sim.Load.
func (c *carried) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	c.by.share(t)
	return c.got, c.got * c.size, c.cpus
}

// share computes who moves what at a time.
func (c *carrier) share(t time.Time) {
	if c.valid && t.Equal(c.now) {
		return
	}
	for _, v := range c.vms {
		v.carry(c.now, t)
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
		room := max(0, c.path.Virtio-c.path.Overhead*float64(len(c.order)))
		fill(c.order, room, func(*carried) float64 { return 1 })
	}
	virtio := len(c.order)
	c.order = append(c.order[:0], c.vms...)
	if c.path.Gbit > 0 {
		fill(c.order, c.path.Gbit*1e9/8, func(v *carried) float64 { return v.size })
	}
	c.measure(virtio)
}

// measure computes the utilisation of the virtio path, with so many VMs on it.
func (c *carrier) measure(vms int) {
	if c.path.Virtio == 0 {
		return
	}
	sum := c.path.Overhead * float64(vms)
	for _, v := range c.vms {
		if _, open := v.vm.Holds(); !open {
			sum += v.got
		}
	}
	c.busy = min(1, sum/c.path.Virtio)
}

// carry subtracts from the copy what was carried between two times.
func (v *carried) carry(from, to time.Time) {
	if v.left == 0 || !to.After(from) {
		return
	}
	rate := v.got * v.size
	if done := rate * to.Sub(from).Seconds(); done < v.left {
		v.left -= done
		return
	}
	if v.by.copied != nil {
		v.by.copied(v.vm, from.Sub(v.began).Seconds()+v.left/rate)
	}
	v.left = 0
}

// ask computes what the VM wants and what its own path allows.
func (v *carried) ask(t time.Time) {
	pps, bytes, cpus := v.want.At(t)
	if p := v.want.at(t.Sub(v.want.start)); p.copy > 0 {
		if v.copy != p {
			v.copy, v.began, v.left = p, t, p.copy
		}
		if v.left == 0 && pps > 0 {
			pps, bytes, cpus = 0, 0, cpus-p.cpu
		}
	}
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

// fill shares a capacity max-min fairly: those that want least are served first, and the rest share what they leave. cost is what one
// packet takes of the capacity.
func fill(vms []*carried, capacity float64, cost func(*carried) float64) {
	slices.SortStableFunc(vms, func(a, b *carried) int { return cmp.Compare(a.got*cost(a), b.got*cost(b)) })
	for i, v := range vms {
		share := capacity / float64(len(vms)-i)
		if need := v.got * cost(v); need > share {
			v.got = share / cost(v)
		}
		capacity -= v.got * cost(v)
	}
}
