package sim

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice/internal/model"
)

var errLibvirt = errors.New("libvirt does not answer")

// Takes returns how long a Step takes when nothing goes wrong.
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

func gone(s model.Step) error { return fmt.Errorf("domain %s: %w", s.Subject.VMName, model.ErrGone) }

// checkVirtio fails unless the VM could run on its virtio NIC alone.
func (w *World) checkVirtio(s model.Step) error {
	n, err := w.nic(s)
	switch {
	case err != nil:
		return err
	case w.down:
		return errLibvirt
	case n.TapDown:
		return fmt.Errorf("the virtio path of %s is broken: %w", n, model.ErrPermanent)
	}
	return nil
}

// hotplug attaches a VF, or asks the guest to release it.
func (w *World) hotplug(s model.Step) error {
	n, err := w.nic(s)
	switch {
	case err != nil:
		return err
	case w.down:
		return errLibvirt
	case s.Kind == model.StepAttach:
		return w.attach(s, n)
	case n.hasVF == s.Device.VF && !n.foreign:
		n.asked = true
		if !n.VM.IgnoreUnplug && !n.VM.booting {
			w.eject(n)
		}
	}
	return nil
}

func (w *World) attach(s model.Step, n *NIC) error {
	switch {
	case w.vf(s.Device.VF) == nil:
		return fmt.Errorf("VF %s: %w", s.Device.VF, model.ErrGone)
	case n.hasVF == s.Device.VF:
		return nil
	case w.vf(s.Device.VF).Driver != "vfio-pci":
		return fmt.Errorf("VF %s is not bound to vfio-pci", s.Device.VF)
	case n.hasVF != model.NoVF:
		return fmt.Errorf("%s already has VF %s: %w", n, n.hasVF, model.ErrPermanent)
	case !n.VM.freePort():
		return fmt.Errorf("%s has no free root port: %w", n.VM.Name, model.ErrPermanent)
	}
	if err := w.unclaimed(s.Device.VF, n.VM.ID, n.MAC); err != nil {
		return err
	}
	n.hasVF, n.foreign, n.open, n.asked = s.Device.VF, false, false, false
	n.newCounters()
	if !n.VM.booting { // otherwise its driver finds the VF when it loads
		w.probe(n)
	}
	return nil
}

// unclaimed fails if anything but the VM's NIC with that MAC has the VF.
func (w *World) unclaimed(id model.VFID, vm model.VMID, mac model.MAC) error {
	if o := w.holder(id); o != nil && (o.VM.ID != vm || o.MAC != mac || o.foreign) {
		return fmt.Errorf("VF %s is in %s: %w", id, o, model.ErrPermanent)
	}
	return nil
}

// waited reports whether what a Step waits for has come true, or never will.
func (w *World) waited(s model.Step) (bool, error) {
	n, err := w.nic(s)
	switch {
	case err != nil:
		return true, err
	case s.Kind == model.StepWaitGuest && n.hasVF != s.Device.VF:
		return true, fmt.Errorf("%s does not have VF %s: %w", n, s.Device.VF, model.ErrGuest)
	case s.Kind == model.StepWaitGuest:
		return n.open, nil
	case w.down:
		return true, errLibvirt
	}
	return n.hasVF != s.Device.VF || n.foreign, nil
}

// host splits a Step on the kernel into its consecutive changes on the Step's Path. What they would change may have vanished with its VM
// or PF; then there is nothing to do.
func (w *World) host(s model.Step) []part {
	switch s.Kind {
	case model.StepBindVFIO, model.StepSetVF, model.StepSetMAC, model.StepClearVF:
		return w.setUp(s)
	}
	v, p := w.vm(s.Subject.VM), w.pf(s.Path.PF)
	pin := func(port string) part {
		return func() error {
			if v != nil && !v.gone {
				return w.send(entry(s), s.Path.Tap, port)
			}
			return nil
		}
	}
	switch s.Kind {
	case model.StepAddSelf:
		return []part{func() error { p.addSelf(s.Path.MAC); return nil }}
	case model.StepDelSelf:
		return []part{func() error { p.delSelf(s.Path.MAC); return nil }}
	case model.StepOpenDualPath:
		return w.openDualPath(s, v)
	case model.StepCloseDualPath:
		return []part{w.closeDualPath(s, v)}
	case model.StepFollowGuest:
		return w.followGuest(s)
	case model.StepRouteToVF:
		return []part{func() error {
			if err := w.join(s); err != nil {
				return err
			}
			return pin(s.Path.Port())()
		}}
	case model.StepRouteToTap:
		return []part{pin(s.Path.Tap)}
	}
	return []part{nothing} // announce
}

// entry is the bridge entry of a Step's frames, and dualPath the mirror that copies them.
func entry(s model.Step) address   { return address{s.Path.Network, s.Path.MAC} }
func dualPath(s model.Step) mirror { return mirror{s.Path.Tap, s.Path.MAC} }

func nothing() error { return nil }

func (p *PF) addSelf(mac model.MAC) {
	// It is not an error if the PF has no room for the filter: the VM does without.
	if p != nil && (p.SelfSlots == 0 || len(p.self) < p.SelfSlots) {
		p.self[mac] = true
	}
}

func (p *PF) delSelf(mac model.MAC) {
	if p != nil {
		delete(p.self, mac)
	}
}

// setUp splits a Step that sets up a VF. A VF inside somebody else's guest is not touched.
func (w *World) setUp(s model.Step) []part {
	ready := func() (*model.VF, error) {
		vf := w.vf(s.VF.ID)
		if vf == nil && s.Kind != model.StepClearVF {
			return nil, fmt.Errorf("VF %s: %w", s.VF.ID, model.ErrGone)
		}
		if s.Kind == model.StepClearVF {
			if o := w.holder(s.VF.ID); o != nil {
				return nil, fmt.Errorf("%s still has VF %s", o, s.VF.ID)
			}
			return vf, nil
		}
		return vf, w.unclaimed(s.VF.ID, s.Subject.VM, s.VF.MAC)
	}
	change := func(f func(*model.VF)) part {
		return func() error {
			vf, err := ready()
			if err == nil && vf != nil {
				f(vf)
			}
			return err
		}
	}
	switch s.Kind {
	case model.StepBindVFIO:
		return []part{change(func(vf *model.VF) { vf.Driver = "vfio-pci" })}
	case model.StepSetMAC:
		return []part{change(func(vf *model.VF) { vf.MAC = s.VF.MAC })}
	case model.StepSetVF:
		return []part{
			change(func(vf *model.VF) { vf.VLAN = s.VF.VLAN }),
			change(func(vf *model.VF) { vf.SpoofCheck, vf.Trust = model.Yes, model.No }),
			change(func(vf *model.VF) { vf.MaxTxRate = model.WholeMbit(s.VF.MaxTxRate) }),
			change(func(vf *model.VF) { vf.MaxPackets = s.VF.MaxPackets }),
		}
	}
	return []part{ // clear-vf
		change(func(vf *model.VF) { vf.MAC = model.MAC{} }),
		change(func(vf *model.VF) { vf.VLAN = 0 }),
		change(func(vf *model.VF) { vf.MaxTxRate, vf.MinTxRate, vf.Trust = 0, 0, model.No }),
		change(func(vf *model.VF) { vf.MaxPackets = 0 }),
	}
}

// openDualPath returns the parts: the PF's port, then the mirror, then the bridge entry.
func (w *World) openDualPath(s model.Step, v *VM) []part {
	if v == nil {
		return []part{func() error { return gone(s) }}
	}
	parts := []part{func() error { return w.join(s) }} // or turns off learning at the PF's port
	for _, h := range w.halves(s) {
		parts = append(parts, w.startMirror(h, v))
	}
	return append(parts, func() error { // without a mirror the entry stays where the guest listens
		if v.gone {
			return gone(s)
		}
		if at := entry(s); w.mirrors[dualPath(s)] != "" || w.fdb[at] == "" {
			return w.send(at, s.Path.Tap, s.Path.Tap)
		}
		return nil
	})
}

// startMirror starts one half of a dual path.
func (w *World) startMirror(h half, v *VM) part {
	return func() error {
		if !w.NoMirror && !v.gone {
			w.mirrors[h.mirror] = h.to
		}
		return nil
	}
}

var errSides = errors.New("the guest changed sides meanwhile")

// followGuest leads frames to the path on which the guest listens and ends the mirror, or feeds both paths while the guest has a VF that
// it does not use.
func (w *World) followGuest(s model.Step) []part {
	n, err := w.nic(s)
	if errors.Is(err, model.ErrGone) {
		return []part{w.closeDualPath(s, nil)}
	} else if err != nil {
		return []part{func() error { return err }}
	}
	var open, has bool
	p := w.pf(s.Path.PF)
	pin := func(port string) error {
		if port == "" || !n.VM.gone {
			return w.send(entry(s), s.Path.Tap, port)
		}
		return nil
	}
	look := func() error {
		has = n.hasVF == s.Device.VF && n.hasVF != model.NoVF
		open = has && n.open
		return nil
	}
	feed := func() error {
		if err := w.join(s); err != nil {
			return err
		}
		for _, h := range w.halves(s) {
			_ = w.startMirror(h, n.VM)() // it cannot fail
		}
		return nil
	}
	parts := []part{look}
	if s.Device.Port != "" { // a guest that sends nothing through its VF yet is fed on both paths first
		ifOpen := func(do part) part {
			return func() error {
				if open {
					return do()
				}
				return nil
			}
		}
		parts = append(parts, ifOpen(feed), ifOpen(func() error { return pin(s.Path.Tap) }), look)
	}
	return append(
		parts,
		func() error {
			switch {
			case open:
				if err := w.join(s); err != nil {
					return err
				}
				return pin(s.Path.Port())
			case !s.Path.Representor:
				p.addSelf(s.Path.MAC)
			}
			return nil
		},
		func() error {
			switch {
			case open:
				p.delSelf(s.Path.MAC)
			case has:
				return feed()
			default:
				return pin(s.Path.VirtioRoute)
			}
			return nil
		},
		func() error {
			switch {
			case open != (has && n.open):
				return errSides
			case has && !open:
				return pin(s.Path.Tap)
			}
			return w.closeDualPath(s, n.VM)()
		},
	)
}

// closeDualPath ends the mirror. What the tap of a VM that is gone copied went with it; then the entry is removed if it still points to
// the PF or the VF.
func (w *World) closeDualPath(s model.Step, v *VM) part {
	return func() error {
		maps.DeleteFunc(w.mirrors, func(m mirror, to string) bool {
			return m.mac == s.Path.MAC && (m.tap == s.Path.Tap || to == s.Path.Tap)
		})
		if (v == nil || v.gone) && w.fdb[entry(s)] == s.Path.Port() {
			if err := w.answers(s.Path.Network); err != nil {
				return err
			}
			delete(w.fdb, entry(s))
		}
		return nil
	}
}
