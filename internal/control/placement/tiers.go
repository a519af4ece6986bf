package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// tiers are VNRAF's bandwidth tiers of VFs, equation 7: VF_n = VF_0 + (n-1) delta, with a
// sum over all VFs of a PF that must not exceed its link. In bits/s; without a first one there are none.
type tiers struct {
	first, step float64
	link        float64 // 0: each PF's own
	period      time.Duration

	Next time.Time                // when needs are looked at again
	Held map[model.NICID]heldTier // of those who hold a VF
}

// heldTier is what a holder needs, in bits/s, and was given for it.
type heldTier struct {
	Need float64
	Tier uint64
}

func (t *tiers) copy() *tiers {
	c := *t
	c.Held = maps.Clone(t.Held)
	return &c
}

// caps gives every holder a tier, on each PF in the order of their needs. need is what
// the policy knows of a NIC, in bits/s; the others' is what they move now.
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

// tierMargin is by how much a holder's need must exceed another's to take its larger
// tier: noise must not make rates change places at every round.
const tierMargin = 1.1

// share gives the holders of one PF their tiers. There is one per VF, so they choose in the
// order of their need: nobody has a larger tier than a NIC that needs more. When there
// are fewer holders than VFs the smallest tiers are left over.
func (t *tiers) share(l *link, held []heldTier, order []int) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(held[b].Tier, held[a].Tier) })
	for end := len(order) - 1; end > 0; end-- { // a bubble sort: it moves nobody past an equal
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

// fit shrinks first the step and then the first tier until those of n VFs fit the link.
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
