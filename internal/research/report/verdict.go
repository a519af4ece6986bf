package report

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/base/input"
	"sluice/internal/research/scenario"
)

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
