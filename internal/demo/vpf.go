package demo

import (
	"context"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// virtualPFs are the virtual PFs of the host. They never change.
type virtualPFs []model.VirtualPFStatus

// node gives a VM a virtual PF like that of a Kubernetes node: two VFs held by pods, each with its SLA, and one that nobody
// holds.
func (h *host) node(v *sim.VM, network string, now time.Time) {
	const name = "vpf0"
	pods := []struct {
		owner string
		pps   float64
		sla   model.SLA
	}{
		{"shop-7d9f/net1", 30e3, model.SLA{Guarantee: model.Rate{Bits: 200e6}}},
		{"mail-5c44/net1", 20e3, model.SLA{Limit: model.Rate{Bits: 100e6}}},
		{"", 0, model.SLA{}},
	}
	var loads []sim.Load
	for _, p := range pods {
		loads = append(loads, steady(p.pps, packet))
	}
	nics := h.AddVirtualPF(v, name, network, loads...)
	pf := v.NICs[len(v.NICs)-len(nics)-1]
	v.SLAs = append(v.SLAs, model.NICSLA{
		NIC: pf.Alias,
		SLA: model.SLA{Guarantee: model.Rate{Bits: 300e6}, Limit: model.Rate{Bits: 400e6}, Source: "metadata of " + v.Name},
	})
	s := model.VirtualPFStatus{
		VirtualPF: model.VirtualPF{
			VM: v.ID, VMName: v.Name, Name: name, Model: model.VPFVirtio, Backend: model.BackendTap, Network: network, MAC: pf.MAC,
			Channel: true, Defined: now, By: "root",
		},
		Running:   true,
		Functions: []model.FunctionStatus{{VF: -1, Alias: pf.Alias, MAC: pf.MAC, Tap: pf.Tap(), Carrier: model.Yes, InForce: true}},
	}
	for i, n := range nics {
		p := &pods[i]
		n.Function.Inside, n.Function.NoCarrier = p.sla, p.owner == ""
		vf := model.VirtualVF{MAC: n.MAC, Port: model.PortPolicy{SLA: p.sla}}
		f := model.FunctionStatus{
			VF: i, Alias: n.Alias, MAC: n.MAC, Tap: n.Tap(), Carrier: model.TriOf(p.owner != ""), InForce: p.owner != "",
			Owner: p.owner,
		}
		if p.owner == "" {
			f.Why = "nobody in the guest has it"
		} else {
			vf.Grant = &model.VFGrant{Owner: p.owner, Port: vf.Port, Since: now}
		}
		s.VFs, s.Functions = append(s.VFs, vf), append(s.Functions, f)
	}
	h.virtual = append(h.virtual, s)
}

// List implements server.VirtualPFs.
func (l virtualPFs) List(context.Context) ([]model.VirtualPFStatus, error) {
	return slices.Clone(l), nil
}

var errFixed = &api.Error{
	Text:   "the virtual PFs of the simulated host cannot be changed",
	Remedy: "use a daemon on a real host: docs/virtual-pf.md",
}

// Define implements server.VirtualPFs.
func (virtualPFs) Define(_ context.Context, p model.VirtualPF) (model.VirtualPF, error) {
	return p, errFixed
}

// Undefine implements server.VirtualPFs.
func (virtualPFs) Undefine(context.Context, model.VMID, string) error { return errFixed }

// SetPorts implements server.VirtualPFs.
func (virtualPFs) SetPorts(context.Context, model.VMID, string, []int, model.PortFields, func(*model.PortPolicy) error) error {
	return errFixed
}
