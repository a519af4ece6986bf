package observe

import (
	"context"
	"maps"
	"slices"
	"time"

	"sluice/internal/control/claim"
	"sluice/internal/model"
)

// claims collects what guests report of VFs that have no other counters, together with the host's own evidence, and has it judged by
// package claim.
//
// It assumes that a NIC's port counts what crosses the wire for PF and VFs alike, and that the counters of the PF's own link are those
// of its own queues, so that the difference is the VFs'. Traffic among VFs or between a VF and the PF stays inside the NIC and shows at
// no port: such a claim has no support, and the VM is judged by its proven traffic on virtio.
type claims struct {
	ledger *claim.Ledger
	byPF   map[string][]claimed // of the Snapshot being built
	ports  map[string]*port
	turn   int  // index of the VF whose interrupts were read last
	raised bool // the host has handled a VF's interrupts: its IOMMU does not post them directly to the guests
}

// claimed is a NIC whose VF has no counters on the host.
type claimed struct {
	nic    *model.NIC
	pair   *pair
	holder claim.Holder
	addr   model.PCIAddress
}

// port measures the traffic of a PF's port: in total, and of the PF itself.
type port struct {
	all, own meter
}

// interrupts measures the interrupt rate of one VF.
type interrupts struct {
	at    time.Time
	count uint64
	rate  claim.Figure
}

const (
	// irqBudget is the number of VFs whose interrupt counts are read per Snapshot.
	irqBudget = 8
	// irqRaised is the rate above which a VF's interrupts are certainly its guest's, 1/s.
	irqRaised = 100
)

func newClaims() claims {
	return claims{ledger: claim.New(), byPF: map[string][]claimed{}, ports: map[string]*port{}}
}

// add records what the guest reports of the VF behind a NIC.
func (c *claims) add(pf *model.PF, key claim.Key, nic *model.NIC, p *pair, said model.Traffic) {
	one := claimed{nic: nic, pair: p, holder: claim.Holder{Key: key, Claim: said, Virtio: nic.Virtio.RxPPS + nic.Virtio.TxPPS}}
	for i := range pf.VFs {
		if pf.VFs[i].ID == nic.VF {
			one.addr = pf.VFs[i].Address
		}
	}
	c.byPF[pf.Name] = append(c.byPF[pf.Name], one)
}

// judge sets VFPath in the Snapshot to the part of the claims that is believed.
func (s *Source) judge(ctx context.Context, snap *model.Snapshot) {
	s.readInterrupts(ctx)
	for name, list := range s.claims.byPF {
		holders := make([]claim.Holder, len(list))
		for i := range list {
			holders[i] = list[i].holder
			if s.claims.raised {
				holders[i].Interrupts = list[i].pair.irqs.rate
			}
		}
		for i, t := range s.claims.ledger.Judge(snap.Time, name, s.portRate(ctx, snap.FindPF(name)), holders) {
			t.Waiting = list[i].holder.Claim.Waiting // the current value, not that of the last believed figure
			list[i].nic.VFPath = t
		}
	}
	clear(s.claims.byPF)
}

// portRate returns what the PF's port carried for its VFs, packets/s.
func (s *Source) portRate(ctx context.Context, pf *model.PF) claim.Figure {
	all, err := s.kernel.PortCounters(ctx, pf.Name)
	own := s.join.links.ByName[pf.Name]
	if err != nil || own == nil {
		delete(s.claims.ports, pf.Name)
		return claim.Figure{}
	}
	p := s.claims.ports[pf.Name]
	if p == nil {
		p = &port{}
		s.claims.ports[pf.Name] = p
	}
	now, bound := time.Now(), limitOf(pf.Speed, pfSlack)
	a := p.all.add(sample{now, uint64(pf.Index), hostCounts(all)}, s.opt.gaps(), bound)
	o := p.own.add(sample{now, uint64(pf.Index), hostCounts(own.Counters)}, s.opt.gaps(), bound)
	return claim.Figure{Rate: max(0, a.RxPPS+a.TxPPS-o.RxPPS-o.TxPPS), Known: a.Known && o.Known}
}

// readInterrupts reads the interrupt counts of up to irqBudget VFs, round robin.
func (s *Source) readInterrupts(ctx context.Context) {
	var all []*claimed
	for _, name := range slices.Sorted(maps.Keys(s.claims.byPF)) {
		list := s.claims.byPF[name]
		for i := range list {
			all = append(all, &list[i])
		}
	}
	for range min(irqBudget, len(all)) {
		s.claims.turn = (s.claims.turn + 1) % len(all)
		c := all[s.claims.turn]
		n, err := s.kernel.Interrupts(ctx, c.addr)
		if err != nil {
			c.pair.irqs = interrupts{}
			continue
		}
		c.pair.irqs.add(time.Now(), n)
		s.claims.raised = s.claims.raised || c.pair.irqs.rate.Rate >= irqRaised
	}
}

// add takes a count and computes the rate since the previous one.
func (i *interrupts) add(now time.Time, n uint64) {
	dt := now.Sub(i.at)
	if dt < minGap && dt >= 0 && !i.at.IsZero() {
		return
	}
	rate := claim.Figure{}
	if !i.at.IsZero() && dt > 0 && n >= i.count {
		rate = claim.Figure{Rate: float64(n-i.count) / dt.Seconds(), Known: true}
	}
	*i = interrupts{at: now, count: n, rate: rate}
}

// forget drops the state of NICs and PFs that are gone.
func (c *claims) forget(pairs map[claim.Key]*pair, snap *model.Snapshot) {
	there := func(pf string) bool { return snap.FindPF(pf) != nil }
	c.ledger.Forget(func(k claim.Key) bool { return pairs[k] != nil }, there)
	maps.DeleteFunc(c.ports, func(pf string, _ *port) bool { return !there(pf) })
}
