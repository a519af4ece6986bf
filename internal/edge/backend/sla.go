package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/control/bandwidth"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// setSLA sets what a VM's NICs are guaranteed and allowed, if admission control accepts it.
func (b *Backend) setSLA(ctx context.Context, c server.Command) (api.Result, error) {
	o := b.override(c)
	res := api.Result{Text: fmt.Sprintf("%s: %s, until %s", slaSubject(&o), slaWords(&o.SLA), ending(&o, "`sluice sla clear`"))}
	err := b.change(ctx, c, func(list []model.Override) ([]model.Override, error) {
		next := append(without(list, c), o)
		if i := slices.IndexFunc(list, func(old model.Override) bool { return concerns(&old, c) }); i >= 0 && list[i].SLA != o.SLA {
			res.Details = append(res.Details, "this replaces all that was set before: "+slaWords(&list[i].SLA))
		}
		notes, err := b.admit(&o, list, next)
		res.Details = append(res.Details, notes...)
		return next, err
	})
	return b.observing(res, limitedNothing), err
}

// clearSLA withdraws what was set for a VM, or for those of its NICs that match a pattern.
func (b *Backend) clearSLA(ctx context.Context, c server.Command) (api.Result, error) {
	subject := slaSubject(&model.Override{VMName: c.VMName, NIC: c.NIC})
	if !slices.ContainsFunc(b.overrides.List(), func(o model.Override) bool { return concerns(&o, c) }) {
		return api.Result{Text: subject + ": no SLA was set at run time: there is nothing to undo"}, nil
	}
	err := b.change(ctx, c, func(list []model.Override) ([]model.Override, error) { return without(list, c), nil })
	return b.observing(api.Result{Text: subject + ": its SLA again comes from metadata, rules and class"}, limitedNothing), err
}

// admit rejects an SLA that cannot be kept, or returns notes for the user.
func (b *Backend) admit(o *model.Override, before, after []model.Override) (notes []string, err error) {
	v, _ := b.View()
	rules := b.rules()
	rules.Claims, rules.Ports = b.overrides.Claims(), b.overrides.Ports()
	vm := v.Snapshot.FindVM(o.VM)
	if vm == nil {
		return nil, &api.Error{Text: o.VMName + " is no longer on this host", Remedy: "`sluice vms` lists the VMs"}
	}
	if len(vm.NICs) > 0 && !slices.ContainsFunc(vm.NICs, func(nic model.NIC) bool { return nic.Named(o.NIC) }) {
		var nics []string
		for i := range vm.NICs {
			nics = append(nics, fmt.Sprintf("%s (%s, %s)", vm.NICs[i].Alias, vm.NICs[i].MAC, vm.NICs[i].Network))
		}
		return nil, &api.Error{Text: fmt.Sprintf("%s has no NIC %q", vm.Name, o.NIC), Remedy: "it has " + strings.Join(nics, ", ")}
	}
	if class := o.SLA.Class; class != "" && len(rules.Classes) == 0 { // where there are some, an unknown one is a problem
		notes = append(notes, fmt.Sprintf("class %q has no effect until it is among classes in sluice.yaml, which has none",
			model.Shorten(class)))
	}
	was, is := admission(v.Snapshot, rules, before), admission(v.Snapshot, rules, after)
	for _, p := range is.Problems {
		switch {
		case p.Subject != vm.Name && (p.Subject != "" || !p.Info) || slices.Contains(was.Problems, p):
		case p.Info: // of the VM, or of the host
			notes = append(notes, p.Text+"; "+p.Remedy)
		default:
			return nil, &api.Error{Text: p.Text, Remedy: p.Remedy}
		}
	}
	if why := is.Worse(&was); why != "" {
		if !rules.Overcommit {
			return nil, &api.Error{Text: why, Remedy: "ask for less, lower another guarantee, or set bandwidth.overcommit: allow in sluice.yaml"}
		}
		notes = append(notes, why)
	}
	if why := displaced(v.Snapshot, rules, before, after); why != "" {
		if !rules.Overcommit {
			return nil, &api.Error{Text: why, Remedy: "ask for less, end the claim with `sluice fleet release`, change the port's QoS policy, or " +
				"set bandwidth.overcommit: allow in sluice.yaml"}
		}
		notes = append(notes, why)
	}
	if !rules.KeepSLAs {
		return append(notes, "bandwidth.enabled is false in sluice.yaml: no SLA is enforced"), nil
	}
	if g := o.SLA.Guarantee; g.Packets > 0 && rules.HostPackets == 0 {
		notes = append(notes, fmt.Sprintf("on virtio %s are not kept while nothing says how many the host carries; "+
			"set bandwidth.packets in sluice.yaml", model.Rate{Packets: g.Packets}))
	}
	return slices.Concat(notes, withoutVF(&o.SLA, vm, v.Snapshot), onForeignVF(o, vm, v.Snapshot)), nil
}

// onForeignVF says through which VFs the VM sends as it likes: Sluice does not limit those that somebody else attached.
func onForeignVF(o *model.Override, vm *model.VM, snap *model.Snapshot) (notes []string) {
	for _, vf := range snap.ForeignVFs(vm.ID) {
		i := slices.IndexFunc(vm.NICs, func(n model.NIC) bool { return n.VF == vf.ID })
		if i >= 0 && vm.NICs[i].Named(o.NIC) || i < 0 && o.NIC == "" {
			notes = append(notes, fmt.Sprintf("%s has VF %s, which somebody else attached: Sluice does not limit it there; detach it if its guest "+
				"can go on over virtio", vm.Name, vf.ID))
		}
	}
	return notes
}

// withoutVF says which parts of an SLA can be kept only on virtio: the VM then gets no VF.
func withoutVF(s *model.SLA, vm *model.VM, snap *model.Snapshot) (notes []string) {
	const kept = ", so the VM can neither get nor keep a VF while this is set"
	if !s.Receive.IsZero() {
		notes = append(notes, "nothing can limit what a VF receives"+kept)
	}
	onVF := func(n model.NIC) bool { return snap.PolicesVFs(n.Network) == model.Yes }
	if s.Limit.Packets > 0 && vm.InGuest != model.Yes && !slices.ContainsFunc(vm.NICs, onVF) {
		notes = append(notes, "only its guest could limit packets/s on a VF"+kept)
	}
	return notes
}

func admission(snap *model.Snapshot, rules model.Rules, list []model.Override) bandwidth.Admission {
	rules = over(list, rules)
	return bandwidth.Admit(bandwidth.AskedOf(snap, &rules), rules.HostPackets)
}

// displaced says which claim of the fleet or port of Neutron has no room any more; "" if none.
func displaced(snap *model.Snapshot, rules model.Rules, before, after []model.Override) string {
	with := func(list []model.Override) (bandwidth.FittedPorts, bandwidth.FittedClaims) {
		r := over(list, rules)
		ports, claims, _ := bandwidth.Fit(snap, &r)
		return ports, claims
	}
	had, was := with(before)
	have, is := with(after)
	for i := range have {
		if have[i].Why != "" && had[i].Why == "" {
			return fmt.Sprintf("that would leave no room for the %s of Neutron's port %s (%s): %s", have[i].SLA.Guarantee, have[i].ID,
				have[i].VM.Name, have[i].Why)
		}
	}
	for i := range is {
		if is[i].Why != "" && was[i].Why == "" {
			return fmt.Sprintf("that would leave no room for the claim of %s for %s: %s", is[i].Guarantee, is[i].VMName, is[i].Why)
		}
	}
	return ""
}

// slaSubject names the VM or NIC that an SLA applies to.
func slaSubject(o *model.Override) string {
	if o.NIC != "" {
		return o.VMName + " " + o.NIC
	}
	return o.VMName
}

// slaWords formats an SLA.
func slaWords(s *model.SLA) string {
	var list []string
	for _, r := range []struct {
		name string
		rate model.Rate
	}{{"guarantee", s.Guarantee}, {"limit", s.Limit}, {"receive", s.Receive}} {
		if !r.rate.IsZero() {
			list = append(list, r.name+" "+r.rate.String())
		}
	}
	if s.Weight > 0 {
		list = append(list, fmt.Sprintf("weight %g", s.Weight))
	}
	if s.Class != "" {
		list = append(list, "class "+s.Class)
	}
	return strings.Join(list, ", ")
}

// ending says when an override ends, or which command ends it.
func ending(o *model.Override, undo string) string {
	if o.Until.IsZero() {
		return undo
	}
	return o.Until.Format(time.DateTime + " MST")
}
