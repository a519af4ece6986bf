package observe

import (
	"context"
	"maps"
	"slices"
	"time"

	"sluice/internal/control/claim"
	"sluice/internal/model"
)

// claims gathers what guests say of VFs that nothing else counts, with what the host can
// hold against it, and has it judged.
//
// Assumed of the NIC: its port counts what crosses the wire for PF and VFs alike, and the
// counters of the PF's own link are those of its own queues, so that the difference is
// the VFs'. What VFs send each other or the PF stays inside the NIC and shows at no port:
// such a claim is not supported, and lives on what its VM proves on virtio.
type claims struct {
	ledger *claim.Ledger
	byPF   map[string][]claimed // of the Snapshot in the making
	ports  map[string]*port
	turn   int  // whose interrupts are read next
	raised bool // the host was seen to take a VF's interrupts: its IOMMU does not post them to the guests
}

// claimed is one NIC whose VF nothing counts.
type claimed struct {
	nic    *model.NIC
	pair   *pair
	holder claim.Holder
	addr   model.PCIAddress
}

// port measures what a PF's port carried in all, and what for the PF itself.
type port struct {
	all, own meter
}

// interrupts measures the interrupts of one VF.
type interrupts struct {
	at    time.Time
	count uint64
	rate  claim.Figure
}

const (
	// irqBudget is the number of VFs whose interrupts are read for one Snapshot.
	irqBudget = 8
	// irqRaised is the rate at which a VF's interrupts are certainly its guest's, 1/s.
	irqRaised = 100
)

func newClaims() claims {
	return claims{ledger: claim.New(), byPF: map[string][]claimed{}, ports: map[string]*port{}}
}

// add notes what the guest said of the VF behind a NIC.
func (c *claims) add(pf *model.PF, key claim.Key, nic *model.NIC, p *pair, said model.Traffic) {
	one := claimed{nic: nic, pair: p, holder: claim.Holder{Key: key, Claim: said, Virtio: nic.Virtio.RxPPS + nic.Virtio.TxPPS}}
	for i := range pf.VFs {
		if pf.VFs[i].ID == nic.VF {
			one.addr = pf.VFs[i].Address
		}
	}
	c.byPF[pf.Name] = append(c.byPF[pf.Name], one)
}

// judge puts what is believed of the claims into the Snapshot.
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
			t.Waiting = list[i].holder.Claim.Waiting // now, not when it was last believed
			list[i].nic.VFPath = t
		}
	}
	clear(s.claims.byPF)
}

// portRate is what the PF's port carried for VFs, packets/s.
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

// readInterrupts reads those of a few VFs, each in its turn.
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

// add takes a count and keeps the rate since the last one.
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

// forget drops what is remembered of NICs and PFs that are gone.
func (c *claims) forget(pairs map[claim.Key]*pair, snap *model.Snapshot) {
	there := func(pf string) bool { return snap.FindPF(pf) != nil }
	c.ledger.Forget(func(k claim.Key) bool { return pairs[k] != nil }, there)
	maps.DeleteFunc(c.ports, func(pf string, _ *port) bool { return !there(pf) })
}
