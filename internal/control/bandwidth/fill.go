package bandwidth

import (
	"cmp"
	"math"
	"slices"
)

// usage is what a sender brings to the sharing of one resource, bits/s or packets/s.
type usage struct {
	sent      float64 // in the last period
	known     bool    // whether that was read
	wants     float64 // at least, whatever is sent
	guarantee float64
	limit     float64 // +Inf: none
	weight    float64 // of what is left over guarantees
	priority  int
}

// filler shares an amount max-min fairly, as water fills vessels. It keeps its memory from call to call.
type filler struct {
	needs   []need
	classes []int
}

// need is a vessel: who wants level x weight.
type need struct {
	level, weight float64
	i             int
}

// guarantees gives each the part of its guarantee that it demands, at most amount in all: the highest class
// first, and in proportion to guarantees what a class cannot have whole. It says what is left.
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

// rank puts all that have something to share in the order of their classes, the highest first.
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

// rest adds what is left to the shares by weight, up to what each demands, and says what is left then.
func (f *filler) rest(amount float64, usages []usage, demand, share []float64) float64 {
	f.needs = f.needs[:0]
	for i := range usages {
		if more := min(demand[i], usages[i].limit) - share[i]; more > 0 {
			f.needs = append(f.needs, need{more / usages[i].weight, usages[i].weight, i})
		}
	}
	return f.pour(amount, share)
}

// pour raises the level until the amount is used up or every vessel is full, and says what is left.
func (f *filler) pour(amount float64, share []float64) float64 {
	level, left := f.surface(amount)
	for _, n := range f.needs {
		share[n.i] += min(n.level, level) * n.weight
	}
	return left
}

// surface finds how high the amount stands in the vessels, and what is left where it fills them all. It looks at them as quickselect
// does, at half of the rest each time: sorting a thousand would be most of what a decision costs.
func (f *filler) surface(amount float64) (level, left float64) {
	rest, open := f.needs, 0.0 // open: the weight of vessels that are known not to be filled
	left = amount
	for len(rest) > 0 {
		at := pivot(rest)
		below, above := 0, len(rest)
		under, wide := 0.0, open // what those below the pivot need; the weight of all others
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
