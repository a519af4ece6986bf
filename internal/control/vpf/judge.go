package vpf

import (
	"fmt"
	"net/netip"
	"path"
	"slices"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// judge makes of what a guest asks for a VF the grant that it may have: by what the host has set for the VF, and by host policy. It
// may always narrow what the VF may do.
func judge(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy) (model.VFGrant, error) {
	grant := model.VFGrant{Owner: a.Owner, Port: v.Port}
	if !g.Attach {
		return grant, denied("host policy lets this VM's guest ask for no VF", "the host's administrator may allow it: virtual_pfs.guests in sluice.yaml")
	}
	if v.Port.Link == model.LinkDown {
		return grant, denied("the host has set the link of this VF down", "ask the host's administrator, or take another VF")
	}
	for _, step := range []func(*channel.Attach, *model.VirtualVF, *model.GuestPolicy, *model.VFGrant) error{judgeMAC, judgeVLAN, judgeChecks, judgeAddresses, judgeRates} {
		if err := step(a, v, g, &grant); err != nil {
			return grant, err
		}
	}
	if err := CheckPort(&grant.Port); err != nil {
		return grant, invalid("%v", err)
	}
	return grant, nil
}

func judgeMAC(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if a.MAC == "" {
		return nil
	}
	mac, err := model.ParseMAC(a.MAC)
	if err == nil {
		err = checkMAC(mac)
	}
	if err != nil {
		return invalid("%.80s", err)
	}
	allowed := slices.ContainsFunc(g.MACs, func(pattern string) bool { ok, _ := path.Match(pattern, mac.String()); return ok })
	switch {
	case mac == v.MAC:
		return nil
	case !allowed && !slices.Contains(v.Port.MACs, mac):
		return denied(fmt.Sprintf("MAC %s is none that this VF may have", mac), "ask for none, or have the host allow it: macs in virtual_pfs.guests")
	}
	out.MAC = mac
	return nil
}

func judgeVLAN(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	trunk, err := model.ParseVLANs(a.Trunk)
	if err != nil {
		return invalid("trunk: %v", err)
	}
	if a.VLAN == 0 && len(trunk) == 0 {
		return nil
	}
	asked := trunk
	if a.VLAN != 0 {
		asked = append(slices.Clone(trunk), model.VLANRange{First: a.VLAN, Last: a.VLAN})
	}
	within := append(slices.Clone(g.VLANs), v.Port.Trunk...).Joined()
	if a.VLAN == v.Port.VLAN && len(trunk) == 0 {
		return nil
	}
	if !within.Contains(asked.Joined()) {
		return denied(fmt.Sprintf("VLANs %s are not all among those that this VF may be in (%s)", asked.Joined(), orNone(within)), "ask for others, or have the host allow them: vlans in virtual_pfs.guests")
	}
	out.Port.VLAN, out.Port.Trunk = a.VLAN, trunk
	return nil
}

func orNone(v model.VLANs) string {
	if len(v) == 0 {
		return "none"
	}
	return v.String()
}

func judgeChecks(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if a.SpoofChk != nil {
		if out.Port.NoSpoof = !*a.SpoofChk; out.Port.NoSpoof && !v.Port.NoSpoof && !g.NoSpoof {
			return denied("the spoof check may not be switched off", "the host may allow it: no_spoof in virtual_pfs.guests")
		}
	}
	if a.CheckARP != nil {
		if out.Port.CheckARP = *a.CheckARP; !*a.CheckARP && v.Port.CheckARP {
			return denied("the host checks ARP and ND of this VF", "leave check_arp out")
		}
	}
	if a.Isolated != nil {
		if out.Port.Isolated = *a.Isolated; !*a.Isolated && v.Port.Isolated {
			return denied("the host has isolated this VF", "leave isolated out")
		}
	}
	switch a.Link {
	case "", "auto", string(model.LinkUp): // up while it is attached is all that a guest may ask for
	case string(model.LinkDown):
		out.Port.Link = model.LinkDown
	default:
		return invalid("link is auto, up or down, not %q", model.Shorten(a.Link))
	}
	return nil
}

func judgeAddresses(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if len(a.Addresses) == 0 {
		return nil
	}
	if len(a.Addresses) > model.MaxPortAddresses {
		return invalid("%d addresses are more than %d", len(a.Addresses), model.MaxPortAddresses)
	}
	var list []netip.Addr
	for _, text := range a.Addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return invalid("%q is no IP address", model.Shorten(text))
		}
		host := len(v.Port.Addresses) == 0 || slices.Contains(v.Port.Addresses, addr)
		if policy := len(g.Addresses) == 0 || slices.ContainsFunc(g.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) }); !host || !policy {
			return denied(fmt.Sprintf("address %s is none that this VF may have", addr), "ask for another, or have the host allow it: addresses in virtual_pfs.guests")
		}
		list = append(list, addr)
	}
	out.Port.Addresses = list
	return nil
}

func judgeRates(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	guarantee, err := parseRate(a.Guarantee)
	if err != nil {
		return invalid("guarantee: %v", err)
	}
	limit, err := parseRate(a.Limit)
	if err != nil {
		return invalid("limit: %v", err)
	}
	sla := &out.Port.SLA
	if !guarantee.IsZero() {
		if guarantee.Bits > max(g.Guarantee.Bits, v.Port.SLA.Guarantee.Bits) || guarantee.Packets > max(g.Guarantee.Packets, v.Port.SLA.Guarantee.Packets) {
			return denied(fmt.Sprintf("a guarantee of %s is more than a VF of this VM may have (%s)", guarantee, rateOrNone(g.Guarantee)), "ask for less, or have the host allow it: guarantee in virtual_pfs.guests")
		}
		sla.Guarantee = guarantee
	}
	most := tighter(g.Limit, v.Port.SLA.Limit)
	if over := above(limit, most); over != "" {
		return denied("the limit is too high: "+over, "ask for less, or have the host allow it: limit in virtual_pfs.guests")
	}
	sla.Limit = tighter(limit, most)
	receive, err := parseRate(a.Receive)
	if err != nil {
		return invalid("receive: %v", err)
	}
	if over := above(receive, v.Port.SLA.Receive); over != "" {
		return denied("the limit of what it receives is too high: "+over, "ask for less, or for none")
	}
	sla.Receive = tighter(receive, v.Port.SLA.Receive)
	if a.Weight != 0 {
		if most := max(1, g.Weight, v.Port.SLA.Weight); a.Weight < 0 || a.Weight > most {
			return denied(fmt.Sprintf("weight %g is not in 0-%g", a.Weight, most), "the host may allow more: weight in virtual_pfs.guests")
		}
		sla.Weight = a.Weight
	}
	if guarantee != (model.Rate{}) || !limit.IsZero() || !receive.IsZero() || a.Weight != 0 {
		sla.Source = "asked for by the guest"
	}
	return nil
}

func parseRate(text string) (model.Rate, error) {
	if text == "" {
		return model.Rate{}, nil
	}
	return model.ParseRate(text)
}

func rateOrNone(r model.Rate) string {
	if r.IsZero() {
		return "nothing"
	}
	return r.String()
}

// tighter is the lower of two limits, of which 0 is none.
func tighter(a, b model.Rate) model.Rate {
	l := model.Limit{Rate: a, Contract: b}
	return l.Tightest()
}

// admit refuses a guarantee that, with those of the other VFs, is more than the virtual PF is promised. One that is no more than
// the host has set for the VF is the host's affair.
func admit(p *model.VirtualPF, vf int, asked model.Rate, whole model.Rate) error {
	if own := p.VFs[vf].Port.SLA.Guarantee; asked.Bits <= own.Bits && asked.Packets <= own.Packets {
		return nil
	}
	var others model.Rate
	for i := range p.VFs {
		if i != vf {
			g := p.VFs[i].Effective().SLA.Guarantee
			others.Bits, others.Packets = others.Bits+g.Bits, others.Packets+g.Packets
		}
	}
	for _, part := range []struct{ asked, others, whole model.Rate }{
		{model.Rate{Bits: asked.Bits}, model.Rate{Bits: others.Bits}, model.Rate{Bits: whole.Bits}},
		{model.Rate{Packets: asked.Packets}, model.Rate{Packets: others.Packets}, model.Rate{Packets: whole.Packets}},
	} {
		if part.asked.Bits+part.others.Bits > part.whole.Bits || part.asked.Packets+part.others.Packets > part.whole.Packets {
			if part.asked.IsZero() {
				continue // the others have too much, not this one
			}
			return denied(fmt.Sprintf("asked %s + %s that other VFs have, virtual PF %s is guaranteed %s", part.asked, rateOrNone(part.others), p.Name, rateOrNone(part.whole)),
				"ask for less, give another VF back, or have the host guarantee the VM more")
		}
	}
	return nil
}

func denied(text, remedy string) error {
	return &channel.Error{Code: channel.CodeDenied, Text: text, Remedy: remedy}
}

func invalid(format string, args ...any) error {
	return &channel.Error{Code: channel.CodeInvalid, Text: fmt.Sprintf(format, args...)}
}
