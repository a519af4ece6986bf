package server

import (
	"errors"
	"fmt"
	"net/netip"

	"sluice/api/v1"
	"sluice/internal/model"
)

// changePort applies the fields that the request sets.
func changePort(p *model.PortPolicy, c *api.PortChange) error {
	if err := changeAddresses(p, c); err != nil {
		return err
	}
	if c.VLAN != nil {
		if p.VLAN = *c.VLAN; p.VLAN < 0 || p.VLAN > model.MaxVLAN {
			return &api.Error{Text: fmt.Sprintf("there is no VLAN %d", p.VLAN), Remedy: "write one from 1 to 4094, or 0 for none"}
		}
	}
	if c.Trunk != nil {
		v, err := model.ParseVLANs(*c.Trunk)
		if err != nil {
			return badValue("trunk", err)
		}
		p.Trunk = v
	}
	if p.VLAN > 0 && len(p.Trunk) > 0 {
		return &api.Error{Text: "a VF cannot have both an access VLAN and a trunk", Remedy: `remove one: --vlan 0 or --trunk ""`}
	}
	if c.Link != nil {
		switch m := model.LinkMode(*c.Link); {
		case *c.Link == api.LinkAuto:
			p.Link = model.LinkAuto
		case m == model.LinkUp || m == model.LinkDown:
			p.Link = m
		default:
			return &api.Error{Text: fmt.Sprintf("a link cannot be %q", model.Shorten(*c.Link)), Remedy: "choose auto, up or down"}
		}
	}
	for _, f := range []struct {
		from *bool
		to   *bool
		not  bool
	}{{c.SpoofCheck, &p.NoSpoofCheck, true}, {c.CheckARP, &p.CheckARP, false}, {c.Isolated, &p.Isolated, false}} {
		if f.from != nil {
			*f.to = *f.from != f.not
		}
	}
	return changeSLA(&p.SLA, c)
}

// namedFields are the settings that the request names.
func namedFields(c *api.PortChange) (named model.PortFields) {
	for _, f := range []struct {
		named bool
		field model.PortFields
	}{
		{c.MACs != nil, model.PortMACs},
		{c.VLAN != nil || c.Trunk != nil, model.PortVLANs},
		{c.SpoofCheck != nil, model.PortSpoof},
		{c.CheckARP != nil, model.PortARP},
		{c.Addresses != nil, model.PortAddresses},
		{c.Isolated != nil, model.PortIsolated},
		{c.Guarantee != nil, model.PortGuarantee},
		{c.Limit != nil, model.PortLimit},
		{c.Receive != nil, model.PortReceive},
		{c.Weight != nil, model.PortWeight},
	} {
		if f.named {
			named |= f.field
		}
	}
	return named
}

func changeAddresses(p *model.PortPolicy, c *api.PortChange) error {
	if c.MACs != nil {
		p.MACs = nil
		for _, text := range *c.MACs {
			m, err := model.ParseMAC(text)
			if err != nil {
				return badValue("MAC", err)
			}
			p.MACs = append(p.MACs, m)
		}
	}
	if c.Addresses != nil {
		p.Addresses = nil
		for _, text := range *c.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil || a.Zone() != "" || a.Is4In6() {
				return &api.Error{Text: fmt.Sprintf("%q is not an IP address", model.Shorten(text)), Remedy: "write one such as 10.0.0.5 or fd00::5"}
			}
			p.Addresses = append(p.Addresses, a)
		}
	}
	if len(p.MACs) > model.MaxPortMACs-1 || len(p.Addresses) > model.MaxPortAddresses || len(p.Trunk) > model.MaxTrunkRanges {
		return &api.Error{
			Text: "that is more than the switch can hold for one port",
			Remedy: fmt.Sprintf("give at most %d additional MACs, %d addresses and %d VLAN ranges", model.MaxPortMACs-1, model.MaxPortAddresses,
				model.MaxTrunkRanges),
		}
	}
	return nil
}

// changeSLA applies the rates and the weight that the request sets; an empty rate clears one.
func changeSLA(s *model.SLA, c *api.PortChange) error {
	for _, r := range []struct {
		name string
		text *string
		to   *model.Rate
	}{{"guarantee", c.Guarantee, &s.Guarantee}, {"limit", c.Limit, &s.Limit}, {"receive", c.Receive, &s.Receive}} {
		if r.text == nil {
			continue
		}
		*r.to = model.Rate{}
		if *r.text != "" {
			rate, err := model.ParseRate(*r.text)
			if err != nil {
				return badValue(r.name, err)
			}
			*r.to = rate
		}
	}
	if c.Weight != nil {
		if s.Weight = *c.Weight; s.Weight != 0 && !(s.Weight >= 0.001 && s.Weight <= 1000) {
			return &api.Error{Text: "the weight is out of range", Remedy: "write a number from 0.001 to 1000, or 0 for the default"}
		}
	}
	if g, l := s.Guarantee, s.Limit; l.Bits > 0 && g.Bits > l.Bits || l.Packets > 0 && g.Packets > l.Packets {
		return &api.Error{
			Text:   fmt.Sprintf("the guarantee of %s is above the limit of %s", g, l),
			Remedy: "raise the limit or lower the guarantee",
		}
	}
	return nil
}

// badValue converts an error about unparsable text to an *api.Error.
func badValue(name string, err error) error {
	var bad *model.BadValue
	if errors.As(err, &bad) {
		return &api.Error{Text: name + ": " + bad.Text, Remedy: bad.Remedy}
	}
	return &api.Error{Text: name + ": " + err.Error(), Remedy: "correct it"}
}
