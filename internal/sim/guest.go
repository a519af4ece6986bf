package sim

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// guest is what a VM's guest is about to do by itself, and the Steps that wait for it.
type guest struct {
	turn    int // of what it is about to do; what was planned in an earlier turn is off
	at      time.Time
	do      func()
	waiting []*run
}

// whilePaused is how often a guest that does not run is looked at again.
const whilePaused = 100 * time.Millisecond

// soon makes the guest do something after a while, instead of what it was about to do. A
// guest that does not run then does it when it does.
func (w *World) soon(v *VM, after time.Duration, do func()) {
	g := &v.guest
	g.turn++
	g.at, g.do = w.Now.Add(max(0, after)), do
	turn := g.turn
	w.At(g.at, func() {
		switch {
		case v.gone || g.turn != turn:
		case v.State != model.VMRunning:
			w.soon(v, whilePaused, do)
		default:
			g.do = nil
			do()
		}
	})
}

// later puts off what the guest is about to do.
func (w *World) later(v *VM, by time.Duration) {
	if v.guest.do != nil && by != 0 {
		w.soon(v, v.guest.at.Add(by).Sub(w.Now), v.guest.do)
	}
}

// cancel makes the guest not do what it was about to do.
func (v *VM) cancel() {
	v.guest.turn++
	v.guest.do = nil
}

// probe makes the guest's driver take up the VF that is in the VM, if it pairs with the
// virtio NIC: by the MAC that the driver finds.
func (w *World) probe(v *VM) {
	id := v.hasVF
	w.soon(v, w.Timing.Guest+v.Slow, func() {
		vf := w.vf(id)
		pairs := vf != nil && (vf.MAC == v.MAC || v.foreign) // others make bonds that do not look at it
		if pairs && !v.NoDriver && !v.open && v.hasVF == id && !w.spoiled(v, model.StepWaitGuest) {
			v.open = true
			v.changed()
		}
	})
}

// eject makes the guest let go of its VF: its driver closes it, then the device is out.
func (w *World) eject(v *VM) {
	w.soon(v, w.Timing.Gone-w.Timing.Close+v.Slow, func() {
		if v.IgnoreUnplug || w.spoiled(v, model.StepWaitGone) {
			return
		}
		out := func() {
			v.hasVF, v.open, v.asked, v.foreign = model.NoVF, false, false, false
			v.changed()
		}
		if w.Timing.Close == 0 {
			out()
			return
		}
		v.open = false
		w.soon(v, w.Timing.Close, out)
	})
}

// spoiled says whether a Step that waits for what the guest is about to do is to fail, so
// that the guest does not do it.
func (w *World) spoiled(v *VM, k model.StepKind) bool {
	if w.Fail == nil {
		return false
	}
	spoiled := false
	for _, r := range slices.Clone(v.guest.waiting) {
		if r.step.Kind == k {
			if err := w.Fail(r.step); err != nil {
				spoiled = true
				r.finish(err)
			}
		}
	}
	return spoiled
}

// changed tells the Steps that wait for the guest.
func (v *VM) changed() {
	for _, r := range slices.Clone(v.guest.waiting) {
		r.look()
	}
}

// bootTime is how long a guest listens to nothing when it restarts.
const bootTime = 2 * time.Second

// Reboot restarts the guest: pending unplugs are lost, and a driver takes up the VF a while
// after the rest of the guest is there again.
func (w *World) Reboot(v *VM) {
	v.asked, v.open, v.booting = false, false, true
	w.soon(v, bootTime, func() {
		v.booting = false
		if v.hasVF != model.NoVF {
			w.probe(v)
		}
	})
}

// Restart ends a VM and starts it again at once, with a new tap and without a VF.
func (w *World) Restart(v *VM) {
	w.Destroy(v)
	n := w.AddVMAs(v.ID, 0, v.Name, v.Net, v.Load)
	n.MAC, n.VLAN, n.NUMA, n.VCPUs, n.Group, n.booting = v.MAC, v.VLAN, v.NUMA, v.VCPUs, v.Group, true
	w.soon(n, bootTime, func() {
		n.booting = false
		if n.hasVF != model.NoVF {
			w.probe(n)
		}
	})
}

// LoadDriver gives the guest its VF driver; it takes up a VF that is there.
func (w *World) LoadDriver(v *VM) {
	v.NoDriver = false
	if v.hasVF != model.NoVF && !v.open && !v.booting {
		w.probe(v)
	}
}

// UnloadDriver takes the VF driver out of a guest, which falls back to virtio.
func (w *World) UnloadDriver(v *VM) { v.NoDriver, v.open = true, false }
