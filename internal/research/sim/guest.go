package sim

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// guest is what a guest is about to do with one of its NICs, and the Steps that wait for it.
type guest struct {
	turn    int // number of the present plan; plans with an earlier number are cancelled
	at      time.Time
	do      func()
	waiting []*run
}

// whilePaused is the interval between checks of a guest that does not run.
const whilePaused = 100 * time.Millisecond

// soon makes the guest do something after a while instead of what it was about to do, or, if it does not run then, as soon as it runs.
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

// later postpones what the guest is about to do.
func (w *World) later(n *NIC, by time.Duration) {
	if n.guest.do != nil && by != 0 {
		w.soon(n, n.guest.at.Add(by).Sub(w.Now), n.guest.do)
	}
}

// cancel drops what the guest was about to do.
func (n *NIC) cancel() {
	n.guest.turn++
	n.guest.do = nil
}

// probe makes the guest's driver open the VM's VF if it pairs with the virtio NIC, that is if both have the same MAC.
func (w *World) probe(n *NIC) {
	id := n.hasVF
	w.soon(n, w.Timing.Guest+n.VM.Slow, func() {
		vf := w.vf(id)
		pairs := vf != nil && (vf.MAC == n.MAC || n.foreign) // bonds made by others ignore the MAC
		if pairs && !n.VM.NoDriver && !n.open && n.hasVF == id && !w.spoiled(n, model.StepWaitGuest) {
			n.open = true
			n.changed()
		}
	})
}

// eject makes the guest release its VF: the driver closes it, then the device is removed.
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

// spoiled reports whether a Step that waits for the guest is made to fail; the guest then does not do what it was about to do.
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

// changed makes the Steps that wait for the guest check again.
func (n *NIC) changed() {
	for _, r := range slices.Clone(n.guest.waiting) {
		r.look()
	}
}

// bootTime is how long a restarting guest receives nothing.
const bootTime = 2 * time.Second

// Reboot restarts the guest: pending unplugs are lost, and the driver opens the VFs some time after the guest is up again.
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

// LoadDriver loads the guest's VF driver, which opens the VFs present.
func (w *World) LoadDriver(v *VM) {
	v.NoDriver = false
	for _, n := range v.NICs {
		if n.hasVF != model.NoVF && !n.open && !v.booting {
			w.probe(n)
		}
	}
}

// UnloadDriver unloads the guest's VF driver; the guest falls back to virtio.
func (w *World) UnloadDriver(v *VM) {
	v.NoDriver = true
	for _, n := range v.NICs {
		n.open = false
	}
}
