package sim

import "sluice/internal/model"

// Function makes a NIC a function of a virtual PF, with a load of its own.
type Function struct {
	VirtualPF string
	Number    int       // 0: the PF itself; n: its VF n-1
	Inside    model.SLA // its share of what the virtual PF has
	Load      Load      // nil: it sends nothing
	NoCarrier bool      // QEMU passes nothing
}

// AddVirtualPF gives a VM a virtual PF with one VF for each load, and returns the NICs of the VFs.
func (w *World) AddVirtualPF(v *VM, name, network string, loads ...Load) []*NIC {
	for i := range len(loads) + 1 {
		n := w.AddNIC(v, network, 0)
		n.Alias, n.Function = model.VPFAlias(name, i-1), &Function{VirtualPF: name, Number: i}
		if i > 0 {
			n.Function.Load = loads[i-1]
		}
	}
	return v.NICs[len(v.NICs)-len(loads):]
}

// moves returns what the NIC wants to send: its share of the VM's load, or its function's own load.
func (n *NIC) moves(w *World, pps, bytes float64) (float64, float64) {
	f := n.Function
	switch {
	case f == nil:
		return n.Share * pps, n.Share * bytes
	case f.Load == nil || f.NoCarrier || !n.VM.listens():
		return 0, 0
	}
	pps, bytes, _ = f.Load.At(w.Now)
	return pps, bytes
}

// picture describes the function in a Snapshot's NIC, which never has a VF.
func (f *Function) picture(out *model.NIC) {
	out.VirtualPF, out.Function, out.Share = f.VirtualPF, f.Number, f.Inside
	out.Carrier, out.Failover, out.FreePort = model.TriOf(!f.NoCarrier), model.FailoverNone, model.No
}
