package sim

import (
	"fmt"
	"iter"

	"sluice/internal/model"
)

// NIC is a virtio NIC of a VM, with the VF behind it if there is one.
type NIC struct {
	VM    *VM
	Alias string
	MAC   model.MAC
	Net   string
	VLAN  int     // of its network, 0: none
	Share float64 // of the VM's load, 0..1

	TapDown bool // its virtio path is broken

	Function *Function // of a virtual PF; nil: it is of none

	Flows      float64 // its flows, which share a full link with those of others; 0: 1
	Blast      bool    // it sends regardless of loss; its share of a full link is proportional to what it sends
	LimitShare float64 // the part of its limit that it sends while its Load is nothing

	hasVF   model.VFID // in the domain
	foreign bool       // attached by somebody else
	open    bool       // the guest's driver has it open
	asked   bool       // an unplug is pending in the guest
	tap     string
	guest   guest
	seen    watched // its state at the last Snapshot

	sent                [2]counter // by path: virtio, VF
	device              int        // number of the VF's counters: each plug has new ones
	noise               float64    // of the counters until the next Reading, as a share
	link                *PF        // that carries what it sends now
	want, rate, allowed float64    // bits/s on the wire now
	size                float64    // bits of its packets
}

type watched struct {
	vf   model.VFID
	open bool
}

// AddNIC gives a VM another NIC, which takes over a share (0..1) of the load from the first.
func (w *World) AddNIC(v *VM, network string, share float64) *NIC {
	i, first := len(v.NICs), v.NICs[0]
	n := &NIC{VM: v, Alias: fmt.Sprintf("ua-net%d", i), MAC: first.MAC, Net: network, Share: share, tap: fmt.Sprintf("%s-%d", first.tap, i)}
	n.MAC[1] += byte(i)
	first.Share -= share
	v.NICs = append(v.NICs, n)
	return n
}

// AttachForeign attaches a VF as somebody other than Sluice does.
func (n *NIC) AttachForeign(id model.VFID) {
	n.hasVF, n.foreign, n.open = id, true, true
	n.newCounters()
	n.changed()
}

// Holds returns the NIC's VF and whether the guest uses it.
func (n *NIC) Holds() (id model.VFID, open bool) { return n.hasVF, n.open }

// Holds returns the VF of the VM's first NIC that has one, and whether the guest uses it.
func (v *VM) Holds() (id model.VFID, open bool) {
	for _, n := range v.NICs {
		if n.hasVF != model.NoVF {
			return n.Holds()
		}
	}
	return model.NoVF, false
}

// Tap returns the name of the NIC's tap.
func (n *NIC) Tap() string { return n.tap }

// String names the NIC, for people.
func (n *NIC) String() string { return n.VM.Name + "/" + n.Alias }

func (n *NIC) address() address { return address{n.Net, n.MAC} }
func (n *NIC) mirror() mirror   { return mirror{n.tap, n.MAC} }

// nics iterates over the NICs of all VMs in order of VM.
func (w *World) nics() iter.Seq[*NIC] {
	return func(yield func(*NIC) bool) {
		for _, v := range w.vms {
			for _, n := range v.NICs {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// freePort reports whether another VF could be plugged into the VM.
func (v *VM) freePort() bool { return !v.NoPort && (v.Ports == 0 || v.freePorts() > 0) }

// freePorts counts the free root ports of a VM with a fixed number of them.
func (v *VM) freePorts() int {
	free := v.Ports
	for _, n := range v.NICs {
		if n.hasVF != model.NoVF {
			free--
		}
	}
	return max(0, free)
}

// holder returns the NIC that has the VF, or nil.
func (w *World) holder(id model.VFID) *NIC {
	for n := range w.nics() {
		if n.hasVF == id {
			return n
		}
	}
	return nil
}

// nic returns the NIC that a Step is about.
func (w *World) nic(s model.Step) (*NIC, error) {
	v := w.vm(s.Subject.VM)
	if v == nil {
		return nil, gone(s)
	}
	for _, n := range v.NICs {
		if n.Alias == s.Device.NIC && n.MAC == s.Device.MAC {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s has no NIC %s with MAC %s: %w", v.Name, s.Device.NIC, s.Device.MAC, model.ErrPermanent)
}
