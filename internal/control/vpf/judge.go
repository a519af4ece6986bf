package vpf

import (
	"fmt"
	"net/netip"
	"path"
	"slices"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// ParseRequest parses a request. It rejects what is invalid under any host policy.
func ParseRequest(a *channel.Attach) (r model.VFRequest, err error) {
	r = model.VFRequest{VLAN: a.VLAN, SpoofChk: a.SpoofChk, CheckARP: a.CheckARP, Isolated: a.Isolated, Weight: a.Weight}
	if a.MAC != "" {
		if r.MAC, err = model.ParseMAC(a.MAC); err == nil {
			err = CheckMAC(r.MAC)
		}
		if err != nil {
			return r, Invalid("%.80s", err)
		}
	}
	if r.Trunk, err = model.ParseVLANs(a.Trunk); err != nil {
		return r, Invalid("trunk: %v", err)
	}
	if len(a.Addresses) > model.MaxPortAddresses {
		return r, Invalid("%d addresses are more than the maximum of %d", len(a.Addresses), model.MaxPortAddresses)
	}
	for _, text := range a.Addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return r, Invalid("%q is not an IP address", model.Shorten(text))
		}
		r.Addresses = append(r.Addresses, addr)
	}
	switch a.Link {
	case "", "auto", string(model.LinkUp): // a guest cannot ask for more than a link that is up while the VF is attached
	case string(model.LinkDown):
		r.Down = true
	default:
		return r, Invalid("link must be auto, up or down, not %q", model.Shorten(a.Link))
	}
	for _, f := range []struct {
		name, text string
		to         *model.Rate
	}{{"guarantee", a.Guarantee, &r.Guarantee}, {"limit", a.Limit, &r.Limit}, {"receive", a.Receive, &r.Receive}} {
		if f.text == "" {
			continue
		}
		if *f.to, err = model.ParseRate(f.text); err != nil {
			return r, Invalid("%s: %v", f.name, err)
		}
	}
	return r, nil
}

// Judge turns a guest's request for a VF into the grant that it may have, given the host's settings for the VF and the host policy. A
// guest may always restrict what the VF may do.
func Judge(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy) (model.VFGrant, error) {
	grant := model.VFGrant{Port: v.Port, Asked: *r}
	if !g.Attach {
		return grant, Denied("host policy does not let this VM's guest request VFs",
			"the host's administrator may allow it: virtual_pfs.guests in sluice.yaml")
	}
	if v.Port.Link == model.LinkDown {
		return grant, Denied("the host has set the link of this VF down", "ask the host's administrator, or take another VF")
	}
	for _, part := range parts {
		if err := part(r, v, g, &grant); err != nil {
			return grant, err
		}
	}
	if err := CheckPort(&grant.Port); err != nil {
		return grant, Invalid("%v", err)
	}
	return grant, nil
}

// parts each judge one part of a request. A part that is denied stays as the host has set it.
var parts = []func(*model.VFRequest, *model.VirtualVF, *model.GuestPolicy, *model.VFGrant) error{
	judgeMAC, judgeVLAN, judgeSpoof, judgeARP, judgeIsolated, judgeLink, judgeAddresses, judgeGuarantee, judgeLimit, judgeReceive, judgeWeight,
}

func judgeMAC(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if r.MAC.IsZero() || r.MAC == v.MAC {
		return nil
	}
	allowed := slices.ContainsFunc(g.MACs, func(pattern string) bool { ok, _ := path.Match(pattern, r.MAC.String()); return ok })
	if !allowed && !slices.Contains(v.Port.MACs, r.MAC) {
		return Denied(fmt.Sprintf("this VF may not have MAC %s", r.MAC),
			"ask for no MAC, or have the host allow it: macs in virtual_pfs.guests")
	}
	out.MAC = r.MAC
	return nil
}

func judgeVLAN(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if len(r.Trunk) == 0 && (r.VLAN == 0 || r.VLAN == v.Port.VLAN) {
		return nil
	}
	asked := slices.Clone(r.Trunk)
	if r.VLAN != 0 {
		asked = append(asked, model.VLANRange{First: r.VLAN, Last: r.VLAN})
	}
	within := append(slices.Clone(g.VLANs), v.Port.Trunk...).Joined()
	if !within.Contains(asked.Joined()) {
		return Denied(fmt.Sprintf("this VF may not be in all of VLANs %s (allowed: %s)", asked.Joined(), orNone(within)),
			"ask for others, or have the host allow them: vlans in virtual_pfs.guests")
	}
	out.Port.VLAN, out.Port.Trunk = r.VLAN, r.Trunk
	return nil
}

func orNone(v model.VLANs) string {
	if len(v) == 0 {
		return "none"
	}
	return v.String()
}

func judgeSpoof(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if r.SpoofChk == nil {
		return nil
	}
	if !*r.SpoofChk && !v.Port.NoSpoofCheck && !g.NoSpoofCheck {
		return Denied("the spoof check may not be switched off", "the host may allow it: no_spoof in virtual_pfs.guests")
	}
	out.Port.NoSpoofCheck = !*r.SpoofChk
	return nil
}

func judgeARP(r *model.VFRequest, v *model.VirtualVF, _ *model.GuestPolicy, out *model.VFGrant) error {
	return setRestriction(r.CheckARP, v.Port.CheckARP, &out.Port.CheckARP, "the host checks ARP and ND of this VF", "leave check_arp out")
}

func judgeIsolated(r *model.VFRequest, v *model.VirtualVF, _ *model.GuestPolicy, out *model.VFGrant) error {
	return setRestriction(r.Isolated, v.Port.Isolated, &out.Port.Isolated, "the host has isolated this VF", "leave isolated out")
}

// setRestriction sets a restriction as asked, if anything is. A guest may not lift that of the host.
func setRestriction(asked *bool, host bool, to *bool, denied, remedy string) error {
	if asked == nil {
		return nil
	}
	if !*asked && host {
		return Denied(denied, remedy)
	}
	*to = *asked
	return nil
}

func judgeLink(r *model.VFRequest, _ *model.VirtualVF, _ *model.GuestPolicy, out *model.VFGrant) error {
	if r.Down {
		out.Port.Link = model.LinkDown
	}
	return nil
}

func judgeAddresses(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	for _, addr := range r.Addresses {
		host := len(v.Port.Addresses) == 0 || slices.Contains(v.Port.Addresses, addr)
		if policy := len(g.Addresses) == 0 || slices.ContainsFunc(g.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) }); !host ||
			!policy {
			return Denied(fmt.Sprintf("this VF may not have address %s", addr),
				"ask for another, or have the host allow it: addresses in virtual_pfs.guests")
		}
	}
	if len(r.Addresses) > 0 {
		out.Port.Addresses = r.Addresses
	}
	return nil
}

// byGuest is the source of an SLA that the guest has changed.
const byGuest = "asked for by the guest"

func judgeGuarantee(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if r.Guarantee.IsZero() {
		return nil
	}
	if own := v.Port.SLA.Guarantee; r.Guarantee.Bits > max(g.Guarantee.Bits, own.Bits) ||
		r.Guarantee.Packets > max(g.Guarantee.Packets, own.Packets) {
		return Denied(fmt.Sprintf("a guarantee of %s is more than a VF of this VM may have (%s)", r.Guarantee, rateOrNone(g.Guarantee)),
			"ask for less, or have the host allow it: guarantee in virtual_pfs.guests")
	}
	out.Port.SLA.Guarantee, out.Port.SLA.Source = r.Guarantee, byGuest
	return nil
}

func judgeLimit(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	most := Tighter(g.Limit, v.Port.SLA.Limit)
	out.Port.SLA.Limit = Tighter(r.Limit, most)
	if over := above(r.Limit, most); over != "" {
		return Denied("the limit is too high: "+over, "ask for less, or have the host allow it: limit in virtual_pfs.guests")
	}
	if !r.Limit.IsZero() {
		out.Port.SLA.Source = byGuest
	}
	return nil
}

func judgeReceive(r *model.VFRequest, v *model.VirtualVF, _ *model.GuestPolicy, out *model.VFGrant) error {
	if over := above(r.Receive, v.Port.SLA.Receive); over != "" {
		return Denied("the limit of what it receives is too high: "+over, "ask for less, or for none")
	}
	if !r.Receive.IsZero() {
		out.Port.SLA.Receive, out.Port.SLA.Source = Tighter(r.Receive, v.Port.SLA.Receive), byGuest
	}
	return nil
}

func judgeWeight(r *model.VFRequest, v *model.VirtualVF, g *model.GuestPolicy, out *model.VFGrant) error {
	if r.Weight == 0 {
		return nil
	}
	if most := max(g.Weight, v.Port.SLA.Share()); r.Weight < 0 || r.Weight > most {
		return Denied(fmt.Sprintf("weight %g is not in 0-%g", r.Weight, most), "the host may allow more: weight in virtual_pfs.guests")
	}
	out.Port.SLA.Weight, out.Port.SLA.Source = r.Weight, byGuest
	return nil
}

func rateOrNone(r model.Rate) string {
	if r.IsZero() {
		return "nothing"
	}
	return r.String()
}

// Tighter returns the lower of two limits, where 0 means unlimited.
func Tighter(a, b model.Rate) model.Rate {
	l := model.Limit{Rate: a, Contract: b}
	return l.Tightest()
}

// Admit denies a guarantee that, together with those of the other VFs, exceeds what the virtual PF is guaranteed. It always admits a
// guarantee up to the one that the host has set for the VF: overcommitment by the host is the administrator's decision.
func Admit(p *model.VirtualPF, vf int, asked model.Rate, whole model.Rate) error {
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
				continue // the other VFs exceed the guarantee, not this one
			}
			return Denied(fmt.Sprintf("asked: %s; other VFs have: %s; virtual PF %s is guaranteed: %s", part.asked, rateOrNone(part.others),
				p.Name, rateOrNone(part.whole)),
				"ask for less, give another VF back, or have the host guarantee the VM more")
		}
	}
	return nil
}

// Denied returns the refusal of a request that host policy forbids.
func Denied(text, remedy string) error {
	return &channel.Error{Code: channel.CodeDenied, Text: text, Remedy: remedy}
}

// Invalid returns the refusal of a malformed request.
func Invalid(format string, args ...any) error {
	return &channel.Error{Code: channel.CodeInvalid, Text: fmt.Sprintf(format, args...)}
}
