package sim

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/model"
)

var errLibvirt = errors.New("libvirt does not answer")

// Takes is how long a Step takes when nothing goes wrong.
func (t Timing) Takes(k model.StepKind) time.Duration {
	switch k {
	case model.StepAttach:
		return t.Attach
	case model.StepWaitGuest:
		return t.Guest
	case model.StepDetach:
		return t.Detach
	case model.StepWaitGone:
		return t.Gone
	}
	return t.Kernel
}

// Begin says how long the Step will take: its time, or its whole deadline when what it
// waits for will not happen.
func (w *World) Begin(s model.Step) time.Duration {
	v := w.vm(s.Subject.VM)
	hang := v != nil && ((s.Kind == model.StepWaitGuest && !v.canOpen()) || (s.Kind == model.StepWaitGone && v.asked && !v.canLetGo()))
	if hang {
		return s.Timeout
	}
	return w.Timing.Takes(s.Kind)
}

func (v *VM) canOpen() bool  { return !v.NoDriver && v.State == model.VMRunning }
func (v *VM) canLetGo() bool { return !v.IgnoreUnplug && v.State == model.VMRunning }

// Apply makes the Step true, or says why not. It is idempotent, as real actuation is.
func (w *World) Apply(s model.Step) error {
	if w.Fail != nil {
		if err := w.Fail(s); err != nil {
			return err
		}
	}
	v := w.vm(s.Subject.VM)
	switch s.Kind {
	case model.StepCheckVirtio, model.StepAttach, model.StepDetach, model.StepWaitGone, model.StepWaitGuest:
		if v == nil {
			return fmt.Errorf("domain %s: %w", s.Subject.VMName, model.ErrGone)
		}
		return w.applyVM(s, v)
	}
	return w.applyHost(s, v)
}

// applyVM does the Steps that go through libvirt and the guest.
func (w *World) applyVM(s model.Step, v *VM) error {
	if w.down {
		return errLibvirt
	}
	switch s.Kind {
	case model.StepCheckVirtio:
		if v.TapDown {
			return fmt.Errorf("the virtio path of %s is broken: %w", v.Name, model.ErrPermanent)
		}
	case model.StepAttach:
		return w.attach(s, v)
	case model.StepWaitGuest:
		if v.hasVF != s.Device.VF || !v.canOpen() {
			return fmt.Errorf("no driver of %s opened the VF: %w", v.Name, model.ErrGuest)
		}
		v.open = true
	case model.StepDetach:
		v.asked = v.hasVF == s.Device.VF && !v.foreign
	case model.StepWaitGone:
		if v.hasVF != s.Device.VF || v.foreign {
			return nil
		}
		if !v.asked || !v.canLetGo() {
			return fmt.Errorf("%s did not let go of the VF: %w", v.Name, model.ErrGuest)
		}
		v.hasVF, v.open, v.asked = model.NoVF, false, false
	}
	return nil
}

func (w *World) attach(s model.Step, v *VM) error {
	switch {
	case w.vf(s.Device.VF) == nil:
		return fmt.Errorf("VF %s: %w", s.Device.VF, model.ErrGone)
	case v.hasVF == s.Device.VF:
		return nil
	case v.hasVF != model.NoVF:
		return fmt.Errorf("%s has VF %s already: %w", v.Name, v.hasVF, model.ErrPermanent)
	case v.NoPort:
		return fmt.Errorf("%s has no free root port: %w", v.Name, model.ErrPermanent)
	}
	for _, o := range w.vms {
		if o.hasVF == s.Device.VF {
			return fmt.Errorf("VF %s is in %s: %w", s.Device.VF, o.Name, model.ErrPermanent)
		}
	}
	v.hasVF, v.foreign, v.open = s.Device.VF, false, false
	return nil
}

// applyHost does the Steps that go through the kernel. What they would change may have
// vanished with its VM or PF: then there is nothing to do.
func (w *World) applyHost(s model.Step, v *VM) error {
	if w.fdb == nil {
		w.fdb, w.mirrors = map[model.MAC]string{}, map[model.MAC]bool{}
	}
	p, vf := w.pf(s.Path.PF), w.vf(s.VF.ID)
	switch s.Kind {
	case model.StepBindVFIO, model.StepSetVF, model.StepSetMAC:
		if vf == nil {
			return fmt.Errorf("VF %s: %w", s.VF.ID, model.ErrGone)
		}
	}
	switch s.Kind {
	case model.StepBindVFIO:
		vf.Driver = "vfio-pci"
	case model.StepSetVF:
		vf.VLAN, vf.MaxTxRate, vf.SpoofCheck, vf.Trust = s.VF.VLAN, model.WholeMbit(s.VF.MaxTxRate), model.Yes, model.No
	case model.StepSetMAC:
		vf.MAC = s.VF.MAC
	case model.StepClearVF:
		if vf != nil {
			vf.MAC, vf.VLAN, vf.MaxTxRate, vf.MinTxRate, vf.Trust = model.MAC{}, 0, 0, 0, model.No
		}
	case model.StepAddSelf:
		p.self[s.Path.MAC] = true
	case model.StepDelSelf:
		delete(p.self, s.Path.MAC)
	case model.StepOpenWindow:
		if v != nil {
			w.fdb[s.Path.MAC], w.mirrors[s.Path.MAC] = tap(v), true
		}
	case model.StepCloseWindow:
		delete(w.mirrors, s.Path.MAC)
	case model.StepFDBToVF:
		w.fdb[s.Path.MAC] = p.Name
	case model.StepFDBToTap:
		if v != nil {
			w.fdb[s.Path.MAC] = tap(v)
		}
	}
	return nil
}

func tap(v *VM) string {
	if v.tap == "" {
		v.tap = "tap-" + v.Name
	}
	return v.tap
}

// Reach says whether a frame for the VM reaches the path that its guest listens on: from
// the wire, and from another port of the bridge. It is what "nobody is ever cut off"
// means: a guest with an open VF hears that alone, any other hears its tap.
func (w *World) Reach(v *VM) (wire, local bool) {
	toVF, toTap := w.deliver(v, true)
	wire = toVF && v.open || toTap && !v.open
	toVF, toTap = w.deliver(v, false)
	local = toVF && v.open || toTap && !v.open
	return wire, local
}

// deliver follows a frame for v's MAC to the VF that v has and to its tap.
func (w *World) deliver(v *VM, fromWire bool) (toVF, toTap bool) {
	port := w.fdb[v.MAC]
	if port == "" {
		port = tap(v)
	}
	p := w.network(v.Net)
	if p == nil {
		return false, !v.TapDown
	}
	filtered, mine := false, false
	for i := range p.VFs {
		if p.VFs[i].MAC == v.MAC {
			filtered = true
			mine = mine || p.VFs[i].ID == v.hasVF
		}
	}
	if fromWire {
		reachesPF := !filtered || p.self[v.MAC]
		return mine, reachesPF && port == tap(v) && !v.TapDown
	}
	if port == tap(v) {
		return mine && w.mirrors[v.MAC], !v.TapDown
	}
	return mine && port == p.Name, false
}

// network is the PF of a VM's network; the holder's own when there are several.
func (w *World) network(name string) *PF {
	for _, p := range w.pfs {
		if p.Network == name {
			return p
		}
	}
	return nil
}
