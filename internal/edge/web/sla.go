package web

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"sluice/api/v1"
	"sluice/internal/model"
)

// SLAs lists the SLA that is in force for each NIC, by VM and NIC.
func SLAs(v *model.View) []api.NICSLA {
	out := []api.NICSLA{}
	x := newIndex(v)
	promised := map[model.NICID]model.Rate{}
	b := bandwidthOf(v)
	for _, n := range slices.Concat(b.NICs, b.VirtualPFs) { // the PF's own NIC stands for its virtual PF as a whole
		promised[n.NICID] = n.Promised
	}
	for i := range x.Snapshot.VMs {
		vm := &x.Snapshot.VMs[i]
		for k := range vm.NICs {
			out = append(out, x.nicSLA(vm, &vm.NICs[k], promised))
		}
	}
	slices.SortStableFunc(out, func(a, b api.NICSLA) int { return Natural(a.VM, b.VM) })
	return out
}

func (x *index) nicSLA(vm *model.VM, nic *model.NIC, promised map[model.NICID]model.Rate) api.NICSLA {
	s := x.Rules.SLA(vm, nic)
	if nic.Function > 0 { // the SLA is that of the virtual PF as a whole
		s = nic.Share
	}
	kept, known := promised[model.NICID{VM: vm.ID, NIC: nic.Alias}]
	if !known {
		kept = s.Guarantee
	}
	out := api.NICSLA{
		VM: vm.Name, ID: string(vm.ID), NIC: nic.Alias, Network: nic.Network,
		Guarantee: rateOf(s.Guarantee), Promised: rateOf(kept), Limit: rateOf(s.Limit), Receive: rateOf(s.Receive),
		Weight: s.Share(), Class: s.Class, Priority: s.Priority, Source: s.Source, Overrides: []*api.Override{},
	}
	for i := range x.Overrides {
		if o := &x.Overrides[i]; o.Kind == model.OverrideSLA && model.Matches(o.Rule().Match, vm.ID, vm.Name) && nic.Named(o.NIC) {
			one := overrideOf(o)
			out.Overrides = append(out.Overrides, &one)
		}
	}
	return out
}

// slaText is an SLA as a request has it; nil for none.
func slaText(s *model.SLA) *api.SLA {
	if *s == (model.SLA{}) {
		return nil
	}
	return &api.SLA{Guarantee: s.Guarantee.String(), Limit: s.Limit.String(), Receive: s.Receive.String(), Weight: s.Weight, Class: s.Class}
}

// readSLA takes what a request says of an SLA.
func readSLA(verb api.Verb, b *api.Request, c *Command) error {
	about := verb == api.VerbSetSLA || verb == api.VerbClearSLA
	if _, err := path.Match(b.NIC, ""); b.NIC != "" && (!about || err != nil || !shortText(b.NIC)) {
		return &api.Error{Text: "nic is no pattern that " + doing(verb) + " takes", Remedy: "write a NIC's alias, MAC or network, or leave it out for each NIC"}
	}
	c.NIC = b.NIC
	if verb != api.VerbSetSLA {
		if b.SLA != nil {
			return &api.Error{Text: doing(verb) + " takes no SLA", Remedy: "leave it out"}
		}
		return nil
	}
	if b.SLA == nil || *b.SLA == (api.SLA{}) {
		return &api.Error{Text: "the SLA says nothing", Remedy: "give a guarantee, a limit, a limit of what it receives, a weight or a class"}
	}
	return parseSLA(b.SLA, &c.SLA)
}

func parseSLA(in *api.SLA, out *model.SLA) error {
	for _, r := range []struct {
		name, text string
		to         *model.Rate
	}{{"guarantee", in.Guarantee, &out.Guarantee}, {"limit", in.Limit, &out.Limit}, {"receive", in.Receive, &out.Receive}} {
		if r.text == "" {
			continue
		}
		rate, err := model.ParseRate(r.text)
		if err != nil {
			return badValue(r.name, err)
		}
		*r.to = rate
	}
	out.Weight, out.Class = in.Weight, in.Class
	g, l := out.Guarantee, out.Limit
	switch {
	case l.Bits > 0 && g.Bits > l.Bits, l.Packets > 0 && g.Packets > l.Packets:
		return &api.Error{Text: fmt.Sprintf("the guarantee of %s is above the limit of %s", g, l), Remedy: "raise the limit or lower the guarantee"}
	case in.Weight != 0 && !(in.Weight >= 0.001 && in.Weight <= 1000):
		return &api.Error{Text: "the weight is out of range", Remedy: "write a number from 0.001 to 1000"}
	case in.Class != "" && !shortText(in.Class):
		return &api.Error{Text: "the class is no name", Remedy: "write one of classes in sluice.yaml"}
	}
	return nil
}

// shortText says whether text is a word that can be shown.
func shortText(text string) bool {
	return len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// doing is a verb in a sentence.
func doing(v api.Verb) string {
	switch v {
	case api.VerbSetSLA:
		return "set SLAs"
	case api.VerbClearSLA:
		return "clear SLAs"
	}
	return string(v)
}
