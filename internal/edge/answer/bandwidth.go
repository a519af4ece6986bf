package answer

import (
	"cmp"
	"slices"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Bandwidth answers what each link and NIC is promised, allowed and sends.
func Bandwidth(v *model.View) api.Bandwidth {
	b, x := BandwidthOf(v), NewIndex(v)
	out := api.Bandwidth{
		Mode: string(x.Mode), Observed: b.At, Period: b.Period.Seconds(), Allocator: b.Allocator, Links: convert(b.Links, x.link),
		NICs: convert(b.NICs, nicShare), VirtualPFs: convert(b.VirtualPFs, nicShare),
		Problems: Problems(b.Problems), Changes: b.Changes, Late: b.Late, Took: b.Took.Seconds(),
	}
	byVM := func(a, b api.NICShare) int { return cmp.Or(Natural(a.VM, b.VM), Natural(a.NIC, b.NIC)) }
	slices.SortStableFunc(out.NICs, byVM)
	slices.SortStableFunc(out.VirtualPFs, byVM)
	return out
}

// BandwidthOf returns the bandwidth part of a View, empty if there is none yet.
func BandwidthOf(v *model.View) *model.Bandwidth {
	if v == nil || v.Bandwidth == nil {
		return &model.Bandwidth{}
	}
	return v.Bandwidth
}

func (x *Index) link(l *model.LinkState) api.Link {
	return api.Link{
		PF: l.PF, Speed: float64(l.Speed), Capacity: l.Capacity, Carries: capacityOf(l.Carries), Packets: float64(l.Packets), Sent: x.Carried(l),
		Guaranteed: rateOf(l.Guaranteed), Overcommitted: l.Over, Shortage: shortageOf(l.Shortage),
	}
}

func shortageOf(s *model.Shortage) *api.Shortage {
	if s == nil {
		return nil
	}
	return &api.Shortage{
		Bits: float64(s.Bits), For: s.For.Seconds(), Text: s.Text, Remedy: s.Remedy,
		Takers: convert(s.Takers, func(t *model.Taker) api.Taker {
			return api.Taker{
				VM: t.VMName, ID: string(t.VM), NIC: t.NIC, Path: string(t.Path), Sent: t.Sent, Beyond: float64(t.Beyond), Limit: float64(t.Limit),
				Remedy: t.Remedy,
			}
		}),
	}
}

func capacityOf(c model.Capacity) api.Capacity {
	return api.Capacity{Bits: float64(c.Bits), Speed: float64(c.Speed), Source: string(c.Source), Why: c.String()}
}

func rateOf(r model.Rate) api.Rate {
	return api.Rate{Bits: float64(r.Bits), Packets: float64(r.Packets)}
}

func nicShare(n *model.NICBandwidth) api.NICShare {
	return api.NICShare{
		VM: n.VMName, ID: string(n.VM), NIC: n.NIC, VirtualPF: n.VirtualPF, PF: n.PF, Path: string(n.Path),
		Class: n.SLA.Class, Source: n.SLA.Source,
		Guarantee: rateOf(n.SLA.Guarantee), Promised: rateOf(n.Promised), Limit: rateOf(n.SLA.Limit), Receive: rateOf(n.SLA.Receive),
		Weight: n.SLA.Share(), Allowed: rateOf(n.Allowed), SentProof: string(n.Sent.Proof),
		Sent:     api.Rate{Bits: n.Sent.Bits, Packets: n.Sent.Packets},
		Received: api.Rate{Bits: n.Received.Bits, Packets: n.Received.Packets},
		Dropped:  api.Dropped{Tx: n.Dropped.Tx + n.DroppedVF.Tx, Rx: n.Dropped.Rx + n.DroppedVF.Rx},
		Short:    float64(n.Short), ShortFor: n.ShortFor.Seconds(), WouldSend: float64(n.WouldSend), Takes: float64(n.Takes),
		Enforced: convert(n.Enforcer, func(e *model.Enforcement) api.EnforcedLimit {
			return api.EnforcedLimit{
				By: e.By, Path: string(e.Path), Direction: string(e.Dir), Rate: rateOf(e.Rate), Contract: rateOf(e.Contract), Error: e.Error,
			}
		}),
		Code: string(n.Code), Why: n.Why, Remedy: n.Remedy,
	}
}

// shares lists the shares of a VM's NICs or virtual PFs.
func shares(all []model.NICBandwidth, id model.VMID) (list []api.NICShare) {
	for i := range all {
		if all[i].VM == id {
			list = append(list, nicShare(&all[i]))
		}
	}
	slices.SortStableFunc(list, func(a, b api.NICShare) int { return Natural(a.NIC, b.NIC) })
	return list
}

// linksOf lists the links that NICs share.
func (x *Index) linksOf(nics []api.NICShare) (list []api.Link) {
	b := BandwidthOf(x.View)
	for i := range b.Links {
		if slices.ContainsFunc(nics, func(n api.NICShare) bool { return n.PF == b.Links[i].PF }) {
			list = append(list, x.link(&b.Links[i]))
		}
	}
	return list
}

func shareCounts(b *model.Bandwidth) (c api.ShareCounts) {
	for i := range b.VirtualPFs {
		c.Guaranteed += one(!b.VirtualPFs[i].SLA.Guarantee.IsZero())
		c.Short += one(b.VirtualPFs[i].Short > 0)
	}
	for i := range b.NICs {
		n := &b.NICs[i]
		c.Guaranteed += one(!n.SLA.Guarantee.IsZero())
		c.Short += one(n.Short > 0)
		c.Limited += one(!n.Allowed.IsZero())
	}
	most := uint64(0)
	for i := range b.Links {
		c.Links += one(b.Links[i].Over)
		if s := b.Links[i].Shortage; s != nil && len(s.Takers) > 0 && s.Takers[0].Beyond > most {
			c.Taker, most = s.Takers[0].VMName, s.Takers[0].Beyond
		}
	}
	return c
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
