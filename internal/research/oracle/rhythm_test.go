package oracle

import (
	"strings"
	"sync"
	"testing"

	"sluice/internal/model"
	"sluice/internal/research/workload"
)

// TestRhythms holds adaptive to what it must reach on loads with a rhythm or a typical
// burst, in the fluid simulation: those it was tuned on and those it was not.
func TestRhythms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for set, named := range map[string][]workload.Named{"rhythms": workload.Rhythms(), "held-out": workload.HeldOut()} {
		cells := make([][3]summary, len(named)) // optimum, adaptive, rentbuy
		var wg sync.WaitGroup
		for i, n := range named {
			wg.Go(func() {
				for seed := uint64(11); seed < 13; seed++ {
					y := newYard(n, seed)
					cells[i][0].add(y.optimum())
					for k, policy := range []string{"adaptive", "rentbuy"} {
						f, err := Fluid(y.rates, model.Rules{Policy: policy}, y.w.VFs, y.charge, &workload.Sensor{Noise: 0.01, Seed: y.seed})
						if err != nil {
							t.Error(err)
							return
						}
						cells[i][k+1].add(f.Against(y.rates, &y.free, &y.charged))
					}
				}
			})
		}
		wg.Wait()
		total := 0.0
		for i, n := range named {
			best, a, r := cells[i][0].mean(), cells[i][1].mean(), cells[i][2].mean()
			total += a.Net / float64(len(named))
			t.Logf("%-18s adaptive %.1f %% and %.1f moves, rentbuy %.1f %%, optimum %.1f moves", n.Name, a.Net, a.MovesPerHour, r.Net, best.MovesPerHour)
			if strings.Contains(n.Name, "cycles") && (a.Net < 93 || a.MovesPerHour > 1.1*best.MovesPerHour+0.5) {
				t.Errorf("%s: net %.1f %% of the optimum with %.1f moves per hour and VM, want 93 with no more than about the optimum's %.1f", n.Name, a.Net, a.MovesPerHour, best.MovesPerHour)
			}
			if a.Net < 62 { // where bursts are heavy-tailed and last as long as a move costs, nobody reaches 78
				t.Errorf("%s: net %.1f %% of the optimum, want 62", n.Name, a.Net)
			}
			if a.Net < r.Net-0.5 {
				t.Errorf("%s: net %.1f %%, rent-or-buy that is told the charge reaches %.1f", n.Name, a.Net, r.Net)
			}
		}
		t.Logf("%s: a mean of %.1f %%", set, total)
		if total < 89 {
			t.Errorf("%s: a mean net of %.1f %%, want 89", set, total)
		}
	}
}
