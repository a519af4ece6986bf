package web

import (
	"slices"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Bandwidth shows who is promised, allowed and sends what.
func Bandwidth(v *model.View) api.Bandwidth {
	b := bandwidthOf(v)
	out := api.Bandwidth{
		Mode: string(orEmpty(v).Mode), Observed: b.At, Period: b.Period.Seconds(), Allocator: b.Allocator, Links: []api.Link{}, NICs: []api.NICShare{},
		Problems: problemsOf(b.Problems), Changes: b.Changes, Late: b.Late, Took: b.Took.Seconds(),
	}
	for i := range b.Links {
		out.Links = append(out.Links, linkOf(&b.Links[i]))
	}
	for i := range b.NICs {
		out.NICs = append(out.NICs, nicShare(&b.NICs[i]))
	}
	slices.SortStableFunc(out.NICs, func(a, b api.NICShare) int { return Natural(a.VM, b.VM) })
	return out
}

// bandwidthOf is the controller's part of a View, empty where there is none yet.
func bandwidthOf(v *model.View) *model.Bandwidth {
	if v == nil || v.Bandwidth == nil {
		return &model.Bandwidth{}
	}
	return v.Bandwidth
}

func linkOf(l *model.LinkState) api.Link {
	return api.Link{
		PF: l.PF, Speed: float64(l.Speed), Capacity: l.Capacity, Packets: float64(l.Packets), Sent: l.Carried,
		Guaranteed: rateOf(l.Guaranteed), Overcommitted: l.Over,
	}
}

func rateOf(r model.Rate) api.Rate {
	return api.Rate{Bits: float64(r.Bits), Packets: float64(r.Packets)}
}

func nicShare(n *model.NICBandwidth) api.NICShare {
	s := api.NICShare{
		VM: n.VMName, ID: string(n.VM), NIC: n.NIC, PF: n.PF, Path: string(n.Path), Class: n.SLA.Class, Source: n.SLA.Source,
		Guarantee: rateOf(n.SLA.Guarantee), Promised: rateOf(n.Promised), Limit: rateOf(n.SLA.Limit), Receive: rateOf(n.SLA.Receive),
		Weight: n.SLA.Share(), Allowed: rateOf(n.Allowed), SentProof: string(n.Sent.Proof),
		Sent:     api.Rate{Bits: n.Sent.Bits, Packets: n.Sent.Packets},
		Received: api.Rate{Bits: n.Received.Bits, Packets: n.Received.Packets},
		Dropped:  api.Dropped{Tx: n.Dropped.Tx, Rx: n.Dropped.Rx},
		Short:    float64(n.Short), ShortFor: n.ShortFor.Seconds(), WouldSend: float64(n.WouldSend), Enforced: []api.EnforcedLimit{}, Code: string(n.Code), Why: n.Why,
	}
	for i := range n.Enforcer {
		e := &n.Enforcer[i]
		s.Enforced = append(s.Enforced, api.EnforcedLimit{
			By: e.By, Path: string(e.Path), Direction: string(e.Dir), Rate: rateOf(e.Rate), Contract: rateOf(e.Contract), Error: e.Error,
		})
	}
	return s
}

// shares lists the shares of a VM's NICs.
func shares(v *model.View, id model.VMID) (list []api.NICShare) {
	b := bandwidthOf(v)
	for i := range b.NICs {
		if b.NICs[i].VM == id {
			list = append(list, nicShare(&b.NICs[i]))
		}
	}
	return list
}

func shareCounts(b *model.Bandwidth) (c api.ShareCounts) {
	for i := range b.NICs {
		n := &b.NICs[i]
		c.Guaranteed += one(!n.SLA.Guarantee.IsZero())
		c.Short += one(n.Short > 0)
		c.Limited += one(!n.Allowed.IsZero())
	}
	for i := range b.Links {
		c.Links += one(b.Links[i].Over)
	}
	return c
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
