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
	Need    float64
	Tier    uint64
	Sum     float64 // of what it sent at each decision since its need was last updated
	Samples int
}

func (t *tiers) copy() *tiers {
	c := *t
	c.Held = maps.Clone(t.Held)
	return &c
}

// caps gives every holder a tier, on each PF in the order of their needs. A holder needs what it sent on average in the last period.
func (t *tiers) caps(now time.Time, links []link) {
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
		sizes := t.sizes(l)
		held := make([]heldTier, len(l.holders))
		order := make([]int, len(l.holders))
		for k, h := range l.holders {
			was, known := old[h.id]
			was.Sum += h.load
			was.Samples++
			if due || !known {
				was.measure(sizes)
			}
			held[k], order[k] = was, k
		}
		share(sizes, held, order)
		for k := range l.holders {
			l.holders[k].rate = held[k].Tier
			t.Held[l.holders[k].id] = held[k]
		}
	}
}

// measure updates the need from the samples. A holder that fills its tier may need more than it can show behind it: it is taken to need
// the next larger tier, which then shows whether it does.
func (h *heldTier) measure(sizes []uint64) {
	h.Need = h.Sum / float64(h.Samples)
	if h.Tier > 0 && !fits(h.Need, h.Tier) {
		for _, size := range sizes {
			if size > h.Tier {
				h.Need = max(h.Need, float64(size)/tierMargin)
				break
			}
		}
	}
	h.Sum, h.Samples = 0, 0
}

// tierMargin is the factor by which a tier must exceed a need to fit it, a fit must be closer for a holder to move to a smaller tier, and a
// need must exceed another's to get a larger tier, so that noise does not exchange rates in every round.
const tierMargin = 1.1

// fits reports whether a holder that needs this much, in bits/s, does not fill a tier.
func fits(need float64, tier uint64) bool { return tierMargin*need <= float64(tier)*(1+1e-9) }

// share gives the holders of one PF their tiers, of which there is one per VF: each the smallest that fits, and nobody a larger one than a
// holder that needs more. sizes ascend.
func share(sizes []uint64, held []heldTier, order []int) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(held[a].Tier, held[b].Tier) })
	for end := len(order) - 1; end > 0; end-- { // a bubble sort: it swaps nobody past an equal
		for i := range end {
			if a, b := held[order[i]], held[order[i+1]]; a.Need > tierMargin*b.Need || (a.Tier == 0 && a.Need > b.Need) {
				order[i], order[i+1] = order[i+1], order[i]
			}
		}
	}
	next := 0
	for i, k := range order {
		h := &held[k]
		need := h.Need
		if h.Tier > 0 && fits(need, h.Tier) {
			need = min(need*tierMargin, float64(h.Tier)/tierMargin)
		}
		rest := len(sizes) - (len(order) - i) // the others need one each
		for next < rest && !fits(need, sizes[next]) {
			next++
		}
		h.Tier = sizes[next]
		next++
	}
}

// sizes returns the tiers of a PF in ascending order, one per VF.
func (t *tiers) sizes(l *link) []uint64 {
	vfs := max(l.vfs, len(l.holders))
	first, step := t.fit(float64(vfs), cmp.Or(t.link, l.speed))
	out := make([]uint64, vfs)
	for n := range out {
		const mbit = 1e6 // the kernel takes whole Mbit/s
		out[n] = max(1, uint64((first+float64(n)*step)/mbit)) * mbit
	}
	return out
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
