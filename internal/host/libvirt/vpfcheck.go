package libvirt

import (
	"context"
	"fmt"
	"slices"

	"sluice/internal/host/libvirt/vpfxml"
	"sluice/internal/model"
)

// CheckVPF returns how the VM's persistent XML differs from the virtual PF as it was defined and, if the VM runs, how QEMU's devices
// differ. It queries QEMU through its monitor, which libvirt records as a taint (custom-monitor).
func (c *Conn) CheckVPF(ctx context.Context, p *model.VirtualPF) (out []model.Problem, err error) {
	defer func() { err = fail("check virtual PF "+model.Shorten(p.Name)+" of", vpfSubject(p), err) }()
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	def, err := c.stored(ctx, s, p.VM, "")
	if isGone(err) {
		remedy := "define the VM again, or give up the virtual PF: " + undefineHint(p)
		return []model.Problem{vpfProblem(p, "libvirt no longer knows its VM", remedy)}, nil
	}
	if err != nil {
		return nil, err
	}
	if !def.stored {
		out = append(out, vpfProblem(p, "its VM is transient now: libvirt keeps no definition of it", "define the VM again: virsh define"))
	}
	diffs, err := vpfxml.Compare(def.xml, p)
	if err != nil {
		return nil, err
	}
	for _, text := range diffs {
		out = append(out, vpfProblem(p, "somebody changed the VM's definition: "+text,
			"correct it: virsh edit "+p.VMName+", or with the VM shut down: "+undefineHint(p)+", and define it again"))
	}
	if !def.active {
		return out, nil
	}
	running, err := c.checkRunning(ctx, s, p, diffs)
	return append(out, running...), err
}

// checkRunning checks the running VM. It does not repeat differences already known from the persistent XML.
func (c *Conn) checkRunning(ctx context.Context, s *session, p *model.VirtualPF, known []string) ([]model.Problem, error) {
	doc, err := liveXML(ctx, s, p.VM)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	diffs, has, err := vpfxml.CompareLive(doc, p)
	if err != nil {
		return nil, err
	}
	restart := "shut the VM down and start it (a reboot inside the guest is not enough)"
	remedy := restart
	if len(known) > 0 {
		remedy = "first correct its definition, then " + restart
	}
	if !has {
		return []model.Problem{vpfProblem(p, "its VM runs without it: it was started before the virtual PF was defined", restart)}, nil
	}
	if err := c.fit(ctx, s, p.VM); err != nil {
		return nil, err
	}
	made, err := vpfxml.Composed(p, s.monitor(ctx, p.VM))
	var out []model.Problem
	for _, text := range append(diffs, made...) {
		if !slices.Contains(known, text) {
			out = append(out, vpfProblem(p, "in the running VM: "+text, remedy))
		}
	}
	return out, err
}

func vpfProblem(p *model.VirtualPF, text, remedy string) model.Problem {
	return model.Problem{Subject: vpfSubject(p), Text: fmt.Sprintf("virtual PF %s: %s", p.Name, text), Remedy: remedy}
}

func undefineHint(p *model.VirtualPF) string {
	return "sluice vpf undefine " + p.VMName + " " + p.Name
}
