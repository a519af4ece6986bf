package report

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/base/input"
	"sluice/internal/research/scenario"
)

// keptVerdict names the allocator that keeps the guarantees best, and among equals uses most of the link; "" if there is nothing to
// compare.
func keptVerdict(g *scenario.Guaranteed) string {
	if len(g.Allocators) < 2 {
		return ""
	}
	says := func(k *scenario.Kept) string {
		s := percent(k.Utilisation) + " of the link used"
		if g.Promised {
			s = "guarantees kept " + percent(k.Satisfied) + " of the time, " + s
		}
		return s
	}
	order := slices.Clone(g.Allocators)
	slices.SortStableFunc(order, func(a, b scenario.Kept) int {
		if g.Promised && percent(a.Satisfied) != percent(b.Satisfied) {
			return cmp.Compare(b.Satisfied, a.Satisfied)
		}
		return cmp.Compare(b.Utilisation, a.Utilisation)
	})
	best, next := &order[0], &order[1]
	if says(best) == says(next) {
		return input.Printable(best.Label) + " and " + input.Printable(next.Label) + " are level: " + says(best) + "."
	}
	return input.Printable(best.Label) + " does best here: " + says(best) +
		". Next is " + input.Printable(next.Label) + ": " + says(next) + "."
}

// verdict names the policies whose net score is printed as the largest, and the next one; "" if there is nothing to compare.
func verdict(r *scenario.Result) string {
	if r.Optimum == nil || len(r.Policies) < 2 {
		return ""
	}
	order := slices.Clone(r.Policies)
	slices.SortStableFunc(order, func(a, b scenario.Outcome) int { return cmp.Compare(b.Net, a.Net) })
	best := percent(order[0].Net)
	next := slices.IndexFunc(order, func(o scenario.Outcome) bool { return percent(o.Net) != best })
	if next < 0 {
		return "All policies are level: net " + best + " of the best placement."
	}
	first := make([]string, next)
	for i := range first {
		first[i] = input.Printable(order[i].Label)
	}
	s := first[0] + " is the best policy here: net "
	if next > 1 {
		s = strings.Join(first[:next-1], ", ") + " and " + first[next-1] + " are the best policies here, and level: net "
	}
	return s + best + " of the best placement. Next is " +
		input.Printable(order[next].Label) + " with " + percent(order[next].Net) + "."
}
