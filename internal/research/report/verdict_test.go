package report

import (
	"testing"

	"sluice/internal/research/scenario"
)

func TestVerdictNamesTheWinner(t *testing.T) {
	policies := func(net ...float64) []scenario.Outcome {
		out := make([]scenario.Outcome, len(net))
		for i := range net {
			out[i] = scenario.Outcome{Label: string(rune('a' + i)), Net: net[i]}
		}
		return out
	}
	const of = " of the best placement."
	for name, c := range map[string]struct {
		r    scenario.Result
		want string
	}{
		"one wins": {
			scenario.Result{Policies: policies(-3, 97.21, 90), Optimum: &scenario.OptimumStat{}},
			"b is the best policy here: net 97.2 %" + of + " Next is c with 90.0 %.",
		},
		"two are printed alike": {
			scenario.Result{Policies: policies(97.21, 10, 97.19), Optimum: &scenario.OptimumStat{}},
			"a and c are the best policies here, and level: net 97.2 %" + of + " Next is b with 10.0 %.",
		},
		"three are printed alike": {
			scenario.Result{Policies: policies(5, 5, 5, 1), Optimum: &scenario.OptimumStat{}},
			"a, b and c are the best policies here, and level: net 5.0 %" + of + " Next is d with 1.0 %.",
		},
		"all are level": {
			scenario.Result{Policies: policies(50, 50), Optimum: &scenario.OptimumStat{}}, "All policies are level: net 50.0 %" + of,
		},
		"only one":   {scenario.Result{Policies: policies(50), Optimum: &scenario.OptimumStat{}}, ""},
		"not scored": {scenario.Result{Policies: policies(50, 60)}, ""},
	} {
		if got := verdict(&c.r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
