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
		share[i] = min(usages[i].guarantee, demand[i], usages[i].limit)
		sum += share[i]
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
	slices.SortFunc(f.needs, func(a, b need) int { return cmp.Compare(a.level, b.level) })
	weights := 0.0
	for _, n := range f.needs {
		weights += n.weight
	}
	level := math.Inf(1)
	left := amount
	for _, n := range f.needs {
		if n.level*weights >= left { // nobody from here on is filled
			level = max(0, left) / weights
			left = 0
			break
		}
		left -= n.level * n.weight
		weights -= n.weight
	}
	for _, n := range f.needs {
		share[n.i] += min(n.level, level) * n.weight
	}
	return left
}
