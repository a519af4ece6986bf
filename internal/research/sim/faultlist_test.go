package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/model"
)

// fault is one thing that goes wrong.
type fault struct {
	name string
	// cut is how long the fault may leave a VM unreachable: 0 for everything that Sluice, libvirt and the host do; what the guest or the
	// operator did must be seen and repaired within this time.
	cut time.Duration
	// all: it may cut off any VM, not only its own.
	all bool
	// delay is how much later than usual Sluice may see and repair the effects of another fault; own: only on its own VM.
	delay time.Duration
	own   bool
	// unseen: Sluice does not see it before the Move of the VM has ended. keeps: the guest may keep its VF, so that the Move takes long.
	unseen, keeps bool
	// do causes the fault; heal removes lasting effects.
	do func(h *host, v *VM, r *rand.Rand) (heal func())
}

var errFault = errors.New("injected failure")

// upTo returns a random time in whole milliseconds.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(most.Milliseconds())) * time.Millisecond
}

// anyNIC returns a random NIC of the VM, without a draw if there is only one.
func anyNIC(v *VM, r *rand.Rand) *NIC {
	if len(v.NICs) == 1 {
		return v.NICs[0]
	}
	return v.NICs[r.IntN(len(v.NICs))]
}

// vanish takes the VFs of the first PF away, and brings as many back after a time or by what it returns; nil: there are none.
func (h *host) vanish(after time.Duration) (back func()) {
	p := h.World.PFs()[0]
	n := p.NumVFs
	if n == 0 {
		return nil
	}
	h.World.Vanish(p)
	back = func() {
		if p.NumVFs == 0 {
			p.SetNumVFs(n)
			for i := range p.VFs {
				p.VFs[i].Driver = ""
			}
		}
	}
	h.At(h.World.Now.Add(after), back)
	return back
}

// rename gives the representor of a VF of the first PF a name that none has had.
func (h *host) rename(i int, down bool) {
	if p := h.World.PFs()[0]; i < p.NumVFs {
		h.renamed++
		h.World.RenamePort(p, i, fmt.Sprintf("eth%d", h.renamed), down)
	}
}

// seen is how long it takes until a Snapshot shows what happened and a repair has ended: the VM may be in a move, and is checked only from
// the second Snapshot after it.
const seen = 3 * time.Second

// seenAtOnce is the same where no Move is under way for long, and nothing waits for a second Snapshot (every 1 s).
const seenAtOnce = 1500 * time.Millisecond

var faults = slices.Concat(daemonFaults, hangFaults, hostFaults, guestFaults)

// daemonFaults concern Sluice's own process and its Steps.
var daemonFaults = []fault{
	{name: "kill", delay: 6 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.Kill()
		h.At(h.World.Now.Add(upTo(r, 5*time.Second)), h.reboot)
		return nil
	}},
	{name: "kill at a step, which is lost", delay: 4 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.OnStep = func(model.Step) Verdict {
			h.OnStep = nil
			h.At(h.World.Now, func() { h.killNow(upTo(r, 3*time.Second)) })
			return Verdict{Lose: true}
		}
		return func() { h.OnStep = nil }
	}},
	{name: "kill inside a step", delay: 4 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.OnPart = func(model.Step, int) {
			h.OnPart = nil
			h.killNow(upTo(r, 3*time.Second))
		}
		return func() { h.OnPart = nil }
	}},
	{name: "stop", delay: 16 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.Stop(upTo(r, 10*time.Second))
		h.At(h.World.Now.Add(upTo(r, 15*time.Second)), h.reboot)
		return nil
	}},
	{name: "stop at a step", delay: 16 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.OnStep = func(model.Step) Verdict {
			h.OnStep = nil
			h.At(h.World.Now, func() { h.Stop(10 * time.Second) })
			h.At(h.World.Now.Add(upTo(r, 15*time.Second)), h.reboot)
			return Verdict{}
		}
		return func() { h.OnStep = nil }
	}},
	{name: "steps fail", delay: 40 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		kind := stepKinds[r.IntN(len(stepKinds))]
		h.World.Fail = func(s model.Step) error {
			if s.Kind == kind {
				return errFault
			}
			return nil
		}
		return func() { h.World.Fail = nil }
	}},
	{name: "steps fail half way", delay: 40 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.FailPart = func(model.Step, int) error {
			if r.IntN(8) == 0 {
				return errFault
			}
			return nil
		}
		return func() { h.World.FailPart = nil }
	}},
	{name: "limits fail", do: func(h *host, _ *VM, _ *rand.Rand) func() {
		h.World.FailLimit = func(model.Limit) error { return errFault }
		return func() { h.World.FailLimit = nil }
	}},
	{name: "steps are slow", delay: 8 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.Timing.Kernel = upTo(r, 900*time.Millisecond)
		return func() { h.World.Timing.Kernel = PaperTiming.Kernel }
	}},
}

// hangFaults make Steps exceed their deadlines and still take effect.
var hangFaults = []fault{
	{name: "kernel hangs", delay: 40 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.Timing.Kernel = 800*time.Millisecond + upTo(r, 3*time.Second)
		return func() { h.World.Timing.Kernel = PaperTiming.Kernel }
	}},
	// What it does after the Move was undone, it does without a dual path.
	{name: "libvirt hangs", cut: seen, all: true, delay: 40 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.Timing.Attach, h.World.Timing.Detach = upTo(r, 15*time.Second), upTo(r, 15*time.Second)
		return func() { h.World.Timing.Attach, h.World.Timing.Detach = PaperTiming.Attach, PaperTiming.Detach }
	}},
}

var stepKinds = []model.StepKind{
	model.StepCheckVirtio, model.StepBindVFIO, model.StepSetVF, model.StepAddSelf, model.StepOpenDualPath, model.StepSetMAC, model.StepAttach,
	model.StepWaitGuest, model.StepRouteToVF, model.StepDelSelf, model.StepCloseDualPath, model.StepAnnounce, model.StepDetach,
	model.StepWaitGone,
	model.StepRouteToTap, model.StepClearVF,
}

// hostFaults concern libvirt, the kernel and what they report.
var hostFaults = []fault{
	{name: "libvirtd restart", delay: 9 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.LibvirtDown(true)
		h.At(h.World.Now.Add(upTo(r, 8*time.Second)), func() { h.World.LibvirtDown(false) })
		return nil
	}},
	{name: "settings shown late", delay: 6 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.Lag = upTo(r, 5*time.Second)
		return func() { h.World.Lag = 0 }
	}},
	{name: "use of a VF shown late", delay: time.Second, do: func(h *host, _ *VM, _ *rand.Rand) func() {
		h.World.LagInGuest = true
		return func() { h.World.LagInGuest = false }
	}},
	{name: "driver closes before libvirt says gone", delay: 4 * time.Second, do: func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.Timing.Gone = 2 * time.Second
		h.World.Timing.Close = upTo(r, 2*time.Second)
		return func() { h.World.Timing.Gone, h.World.Timing.Close = PaperTiming.Gone, 0 }
	}},
	{name: "destroy", do: func(h *host, v *VM, _ *rand.Rand) func() {
		h.destroy(v)
		return nil
	}},
	{name: "pause", cut: seen, do: func(_ *host, v *VM, _ *rand.Rand) func() {
		v.State = model.VMPaused
		return func() { v.State = model.VMRunning }
	}},
	// Until it has ended, nothing is done about a VF that its guest uses: libvirt takes none away, though its PF has lost its link.
	{name: "migrate", delay: 5 * time.Second, own: true, do: func(h *host, v *VM, r *rand.Rand) func() {
		v.State = model.VMMigrating
		h.At(h.World.Now.Add(upTo(r, 5*time.Second)), func() {
			if r.IntN(2) == 0 && !v.gone {
				h.destroy(v) // it went
			}
			v.State = model.VMRunning
		})
		return func() { v.State = model.VMRunning }
	}},
	// Until it migrates or is cancelled, a Move of the VM waits in vain.
	{name: "gives its VF up to migrate", cut: seen, delay: 30 * time.Second, keeps: true, do: func(h *host, v *VM, r *rand.Rand) func() {
		if v.NoDriver {
			return nil
		}
		v.State = model.VMMigrating
		h.World.UnloadDriver(v) // as QEMU has the guest do; the VM has the device still
		back := func() {
			v.State = model.VMRunning
			h.World.LoadDriver(v)
		}
		h.At(h.World.Now.Add(upTo(r, 30*time.Second)), func() {
			if r.IntN(2) == 0 && !v.gone {
				h.destroy(v) // it went
			}
			back()
		})
		return back
	}},
	{name: "numvfs changed", do: func(h *host, _ *VM, r *rand.Rand) func() {
		p := h.World.PFs()[0]
		used := false
		for n := range h.World.nics() {
			used = used || n.hasVF.PF == p.Name
		}
		if !used { // the kernel refuses it while VFs are assigned
			p.SetNumVFs(r.IntN(4))
			for i := range p.VFs {
				p.VFs[i].Driver = "" // libvirt does not attach it until a Step binds it
			}
		}
		return func() {
			if p.NumVFs == 0 {
				p.SetNumVFs(2)
			}
		}
	}},
	// Frames go to the PF, or to a representor that is gone, until Sluice's next look.
	{name: "sriov_numvfs to 0", cut: seenAtOnce, all: true, do: func(h *host, _ *VM, r *rand.Rand) func() {
		return h.vanish(upTo(r, 10*time.Second))
	}},
	// OVN knows it by its name, and a port that is down passes nothing, until Sluice's next look.
	{name: "representor renamed", cut: seenAtOnce, all: true, unseen: true, do: func(h *host, v *VM, r *rand.Rand) func() {
		p := h.World.PFs()[0]
		if !p.kind.representors || p.NumVFs == 0 {
			return nil
		}
		i := r.IntN(p.NumVFs)
		for _, n := range v.NICs {
			if n.hasVF.PF == p.Name {
				i = n.hasVF.Index
			}
		}
		h.rename(i, r.IntN(2) == 0)
		return nil
	}},
	{name: "foreign attach", do: func(h *host, v *VM, r *rand.Rand) func() {
		p, n := h.World.PFs()[0], anyNIC(v, r)
		if n.hasVF != model.NoVF || p.NumVFs == 0 || n.Net != p.Network || !v.freePort() {
			return nil
		}
		if id := p.VFs[r.IntN(p.NumVFs)].ID; h.World.holder(id) == nil {
			n.AttachForeign(id)
		}
		return nil
	}},
}

// guestFaults are what guests do, and what operators do to them.
var guestFaults = []fault{
	{name: "reboot", cut: seen, do: func(h *host, v *VM, _ *rand.Rand) func() {
		h.World.Reboot(v)
		return nil
	}},
	{name: "ended and started again", cut: seen, do: func(h *host, v *VM, _ *rand.Rand) func() {
		if !v.gone {
			h.World.Restart(v)
			h.lost, h.unseen = true, h.unseen || h.Core == nil || h.Core.View().Snapshot == nil
		}
		return nil
	}},
	{name: "ignores unplug", keeps: true, do: func(_ *host, v *VM, _ *rand.Rand) func() {
		v.IgnoreUnplug = true
		return func() { v.IgnoreUnplug = false }
	}},
	{name: "slow to open and to let go", cut: seen, keeps: true, do: func(_ *host, v *VM, r *rand.Rand) func() {
		v.Slow = upTo(r, 12*time.Second)
		return func() { v.Slow = 0 }
	}},
	{name: "no driver", do: func(h *host, v *VM, _ *rand.Rand) func() {
		v.NoDriver = true
		return func() { h.World.LoadDriver(v) }
	}},
	{name: "driver unloaded", cut: seen, do: func(h *host, v *VM, _ *rand.Rand) func() {
		h.World.UnloadDriver(v)
		return func() { h.World.LoadDriver(v) }
	}},
	{name: "agent hangs", do: func(_ *host, v *VM, _ *rand.Rand) func() {
		v.Blind = true
		return func() { v.Blind = false }
	}},
	{name: "virtio path broken", do: func(_ *host, v *VM, r *rand.Rand) func() {
		n := anyNIC(v, r)
		n.TapDown = true
		return func() { n.TapDown = false }
	}},
	{name: "link down", cut: seen, all: true, do: func(h *host, _ *VM, _ *rand.Rand) func() {
		h.World.PFs()[0].LinkUp = false
		return func() { h.World.PFs()[0].LinkUp = true }
	}},
}
