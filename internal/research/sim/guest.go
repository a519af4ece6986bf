package sim

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// guest is what a guest is about to do by itself with one of its NICs, and the Steps that wait for it.
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
func (w *World) soon(n *NIC, after time.Duration, do func()) {
	v, g := n.VM, &n.guest
	g.turn++
	g.at, g.do = w.Now.Add(max(0, after)), do
	turn := g.turn
	w.At(g.at, func() {
		switch {
		case v.gone || g.turn != turn:
		case v.State != model.VMRunning:
			w.soon(n, whilePaused, do)
		default:
			g.do = nil
			do()
		}
	})
}

// later puts off what the guest is about to do.
func (w *World) later(n *NIC, by time.Duration) {
	if n.guest.do != nil && by != 0 {
		w.soon(n, n.guest.at.Add(by).Sub(w.Now), n.guest.do)
	}
}

// cancel makes the guest not do what it was about to do.
func (n *NIC) cancel() {
	n.guest.turn++
	n.guest.do = nil
}

// probe makes the guest's driver take up the VF that is in the VM, if it pairs with the
// virtio NIC: by the MAC that the driver finds.
func (w *World) probe(n *NIC) {
	id := n.hasVF
	w.soon(n, w.Timing.Guest+n.VM.Slow, func() {
		vf := w.vf(id)
		pairs := vf != nil && (vf.MAC == n.MAC || n.foreign) // others make bonds that do not look at it
		if pairs && !n.VM.NoDriver && !n.open && n.hasVF == id && !w.spoiled(n, model.StepWaitGuest) {
			n.open = true
			n.changed()
		}
	})
}

// eject makes the guest let go of its VF: its driver closes it, then the device is out.
func (w *World) eject(n *NIC) {
	w.soon(n, w.Timing.Gone-w.Timing.Close+n.VM.Slow, func() {
		if n.VM.IgnoreUnplug || w.spoiled(n, model.StepWaitGone) {
			return
		}
		out := func() {
			n.hasVF, n.open, n.asked, n.foreign = model.NoVF, false, false, false
			n.changed()
		}
		if w.Timing.Close == 0 {
			out()
			return
		}
		n.open = false
		w.soon(n, w.Timing.Close, out)
	})
}

// spoiled says whether a Step that waits for what the guest is about to do is to fail, so
// that the guest does not do it.
func (w *World) spoiled(n *NIC, k model.StepKind) bool {
	if w.Fail == nil {
		return false
	}
	spoiled := false
	for _, r := range slices.Clone(n.guest.waiting) {
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
func (n *NIC) changed() {
	for _, r := range slices.Clone(n.guest.waiting) {
		r.look()
	}
}

// bootTime is how long a guest listens to nothing when it restarts.
const bootTime = 2 * time.Second

// Reboot restarts the guest: pending unplugs are lost, and a driver takes up the VFs a while
// after the rest of the guest is there again.
func (w *World) Reboot(v *VM) {
	v.booting = true
	w.forget(v, true)
	for _, n := range v.NICs {
		n.asked, n.open = false, false
		w.soon(n, bootTime, func() {
			v.booting = false
			if n.hasVF != model.NoVF {
				w.probe(n)
			}
		})
	}
}

// Restart ends a VM and starts it again at once, with new taps and without a VF.
func (w *World) Restart(v *VM) {
	w.Destroy(v)
	again := w.AddVMAs(v.ID, 0, v.Name, v.NICs[0].Net, v.Load)
	again.NUMA, again.VCPUs, again.Group, again.Ports = v.NUMA, v.VCPUs, v.Group, v.Ports
	again.NICs = nil
	for _, n := range v.NICs {
		again.NICs = append(again.NICs, &NIC{VM: again, Alias: n.Alias, MAC: n.MAC, Net: n.Net, VLAN: n.VLAN, Share: n.Share, tap: n.tap})
	}
	w.Reboot(again)
}

// LoadDriver gives the guest its VF driver; it takes up VFs that are there.
func (w *World) LoadDriver(v *VM) {
	v.NoDriver = false
	for _, n := range v.NICs {
		if n.hasVF != model.NoVF && !n.open && !v.booting {
			w.probe(n)
		}
	}
}

// UnloadDriver takes the VF driver out of a guest, which falls back to virtio.
func (w *World) UnloadDriver(v *VM) {
	v.NoDriver = true
	for _, n := range v.NICs {
		n.open = false
	}
}
