package bandwidth

import (
	"cmp"
	"math"
	"slices"
)

// usage is a sender's input to the division of one resource, in bits/s or packets/s.
type usage struct {
	sent      float64 // in the last period
	known     bool    // whether there is a reading
	wants     float64 // minimum demand, whatever is sent
	guarantee float64
	limit     float64 // +Inf: none
	weight    float64 // for the division of what guarantees leave
	priority  int
}

// stopped reports whether a guaranteed sender sends next to nothing of what it may.
func (c *usage) stopped(limit float64) bool { return c.sent < active*min(c.guarantee, limit) }

// filler divides an amount max-min fairly by water-filling. It reuses its memory between calls.
type filler struct {
	needs   []need
	classes []int
}

// need is a participant (a vessel) that demands level x weight.
type need struct {
	level, weight float64
	i             int
}

// guarantees gives each sender the part of its guarantee that it demands, at most amount in all: the highest class first, and
// in proportion to guarantees within a class that cannot be met in full. It returns what is left.
func (f *filler) guarantees(amount float64, usages []usage, demand, share []float64) float64 {
	sum := 0.0
	for i := range usages {
		if share[i] = 0; usages[i].guarantee > 0 {
			share[i] = min(usages[i].guarantee, demand[i], usages[i].limit)
			sum += share[i]
		}
	}
	if sum <= amount {
		return amount - sum
	}
	f.rank(usages, share)
	for len(f.classes) > 0 {
		class := usages[f.classes[0]].priority
		f.needs = f.needs[:0]
		for len(f.classes) > 0 && usages[f.classes[0]].priority == class {
			i := f.classes[0]
			f.needs = append(f.needs, need{share[i] / usages[i].guarantee, usages[i].guarantee, i})
			share[i] = 0
			f.classes = f.classes[1:]
		}
		amount = f.pour(amount, share)
	}
	return amount
}

// rank orders the senders with a nonzero share by class, the highest first.
func (f *filler) rank(usages []usage, share []float64) {
	f.classes = f.classes[:0]
	for i := range usages {
		if share[i] > 0 {
			f.classes = append(f.classes, i)
		}
	}
	slices.SortFunc(f.classes, func(a, b int) int {
		return cmp.Or(cmp.Compare(usages[b].priority, usages[a].priority), cmp.Compare(a, b))
	})
}

// rest distributes what is left by weight, up to what each demands, and returns the remainder.
func (f *filler) rest(amount float64, usages []usage, demand, share []float64) float64 {
	f.needs = f.needs[:0]
	for i := range usages {
		if more := min(demand[i], usages[i].limit) - share[i]; more > 0 {
			f.needs = append(f.needs, need{more / usages[i].weight, usages[i].weight, i})
		}
	}
	return f.pour(amount, share)
}

// pour raises the level until the amount is used up or all needs are met, and returns the remainder.
func (f *filler) pour(amount float64, share []float64) float64 {
	level, left := f.surface(amount)
	for _, n := range f.needs {
		share[n.i] += min(n.level, level) * n.weight
	}
	return left
}

// surface finds the level that the amount reaches, and what is left if it meets all needs. It uses quickselect, which halves
// the list each time: sorting a thousand needs would dominate the cost of a decision.
func (f *filler) surface(amount float64) (level, left float64) {
	rest, open := f.needs, 0.0 // open: the weight of needs known not to be met
	left = amount
	for len(rest) > 0 {
		at := pivot(rest)
		below, above := 0, len(rest)
		under, wide := 0.0, open // under: the needs below the pivot; wide: the weight of all others
		for i := 0; i < above; {
			switch n := rest[i]; {
			case n.level < at:
				under += n.level * n.weight
				rest[i], rest[below] = rest[below], n
				below++
				i++
			case n.level > at:
				above--
				rest[i], rest[above] = rest[above], n
				wide += n.weight
			default:
				wide += n.weight
				i++
			}
		}
		if under+at*wide >= left {
			rest, open = rest[:below], wide
			continue
		}
		for _, n := range rest[:above] {
			left -= n.level * n.weight
		}
		rest = rest[above:]
	}
	if open == 0 {
		return math.Inf(1), left
	}
	return max(0, left) / open, 0
}

// pivot is the median level of three vessels.
func pivot(list []need) float64 {
	a, b, c := list[0].level, list[len(list)/2].level, list[len(list)-1].level
	return max(min(a, b), min(max(a, b), c))
}
