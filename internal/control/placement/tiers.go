package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// tiers are VNRAF's bandwidth tiers of VFs, equation 7: VF_n = VF_0 + (n-1) delta, whose sum over all VFs of a PF must not
// exceed its link. All are in bits/s; with first 0 there are no tiers.
type tiers struct {
	first, step float64
	link        float64 // 0: each PF's own link speed
	period      time.Duration

	Next time.Time                // when needs are next updated
	Held map[model.NICID]heldTier // of the holders of a VF
}

// heldTier is what a holder needs, in bits/s, and the tier it was given for that.
type heldTier struct {
	Need float64
	Tier uint64
}

func (t *tiers) copy() *tiers {
	c := *t
	c.Held = maps.Clone(t.Held)
	return &c
}

// caps gives every holder a tier, on each PF in the order of their needs. need is what the policy knows of a NIC, in bits/s;
// the need of other NICs is what they currently transfer.
func (t *tiers) caps(now time.Time, links []link, need func(model.NICID) (float64, bool)) {
	if t.first <= 0 {
		return
	}
	due := !now.Before(t.Next)
	if due {
		t.Next = now.Add(t.period)
	}
	old := t.Held
	t.Held = make(map[model.NICID]heldTier, len(old))
	for i := range links {
		l := &links[i]
		held := make([]heldTier, len(l.holders))
		order := make([]int, len(l.holders))
		for k, h := range l.holders {
			was, known := old[h.id]
			if due || !known {
				was.Need = h.load
				if x, ok := need(h.id); ok {
					was.Need = x
				}
			}
			held[k], order[k] = was, k
		}
		t.share(l, held, order)
		for k := range l.holders {
			l.holders[k].rate = held[k].Tier
			t.Held[l.holders[k].id] = held[k]
		}
	}
}

// tierMargin is the factor by which a holder's need must exceed another's to take its larger tier, so that noise does not
// exchange rates in every round.
const tierMargin = 1.1

// share gives the holders of one PF their tiers. There is one tier per VF, chosen in the order of need: nobody has a larger
// tier than a NIC that needs more. With fewer holders than VFs the smallest tiers remain unused.
func (t *tiers) share(l *link, held []heldTier, order []int) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(held[b].Tier, held[a].Tier) })
	for end := len(order) - 1; end > 0; end-- { // a bubble sort: it swaps nobody past an equal
		for i := range end {
			if a, b := held[order[i]], held[order[i+1]]; b.Need > tierMargin*a.Need || (b.Tier == 0 && b.Need > a.Need) {
				order[i], order[i+1] = order[i+1], order[i]
			}
		}
	}
	vfs := max(l.vfs, len(order))
	first, step := t.fit(float64(vfs), cmp.Or(t.link, l.speed))
	for n, k := range order {
		const mbit = 1e6 // the kernel takes whole Mbit/s
		held[k].Tier = max(1, uint64((first+float64(vfs-1-n)*step)/mbit)) * mbit
	}
}

// fit reduces first the step and then the first tier until the tiers of n VFs fit the link.
func (t *tiers) fit(n, link float64) (first, step float64) {
	sum := n*t.first + t.step*n*(n-1)/2
	switch {
	case link <= 0 || sum <= link:
		return t.first, t.step
	case n*t.first <= link && n > 1:
		return t.first, (link - n*t.first) / (n * (n - 1) / 2)
	}
	return link / n, 0
}
