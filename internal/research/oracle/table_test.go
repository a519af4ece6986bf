package oracle

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/workload"
)

var (
	table = flag.Bool("table", false, "print the table of all policies, in the full loop")
	seeds = flag.Int("seeds", 5, "seeds for the table")
	first = flag.Uint64("first", 1, "the first seed")
	only  = flag.String("only", "", "only workloads whose name contains this")
	set   = flag.String("set", "ten", "which workloads: ten, adversaries, rhythms or held-out")
	which = flag.String("columns", "", "only policies whose name contains this")
)

// columns are the policies of the published table.
var columns = []struct {
	name  string
	rules model.Rules
}{
	{"activity 300s", model.Rules{Policy: "activity", Interval: 300 * time.Second}},
	{"activity 10s", model.Rules{Policy: "activity", Interval: 10 * time.Second}},
	{"activity 1s", model.Rules{Policy: "activity", Interval: time.Second}},
	{"fair 300s", model.Rules{Policy: "fair", Interval: 300 * time.Second}},
	{"vnraf 10s", model.Rules{Policy: "vnraf", Interval: 10 * time.Second}},
	{"rentbuy", model.Rules{Policy: "rentbuy"}},
	{"adaptive", model.Rules{Policy: "adaptive"}},
}

// yard is a workload with one seed, and its optimum.
type yard struct {
	w             *Workload
	seed          uint64
	rates         *Rates
	charge        Charge
	free, charged Best
}

func newYard(n Named, seed uint64) *yard {
	y := &yard{w: n.Make(seed), seed: seed}
	y.rates = Sample(y.w, time.Second, y.w.For)
	y.charge = y.rates.TableCharge()
	y.free = Optimum(y.rates, y.w.VFs, Charge{Swap: y.charge.Swap})
	y.charged = Optimum(y.rates, y.w.VFs, y.charge)
	return y
}

// play runs a policy in the full loop: 1 s samples that lag one sample and have 1 % noise.
func (y *yard) play(t testing.TB, rules model.Rules) Score {
	t.Helper()
	run := Run{Workload: y.w, Rules: rules, Sensor: &workload.Sensor{Noise: 0.01, Seed: y.seed}}
	log, err := run.Do(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	f := Measure(y.rates, log, y.w.VFs, y.charge)
	return f.Against(y.rates, &y.free, &y.charged)
}

// optimum scores the optimum with the risk as if it were a policy.
func (y *yard) optimum() Score {
	b := y.charged
	f := Figures{Benefit: b.Value + y.charge.Risk*float64(b.Moves), Net: b.Value, Moves: b.Moves}
	return f.Against(y.rates, &y.free, &y.charged)
}

// summary gathers Scores of one workload over seeds, or of one policy over everything.
type summary struct {
	sum   Score
	worst float64 // least net
	most  float64 // most moves
	n     int
}

func (s *summary) add(x Score) {
	if s.n == 0 || x.Net < s.worst {
		s.worst = x.Net
	}
	s.most = max(s.most, x.MovesPerHour)
	s.sum.Gross += x.Gross
	s.sum.Net += x.Net
	s.sum.MovesPerHour += x.MovesPerHour
	s.n++
}

func (s *summary) mean() Score {
	n := float64(max(1, s.n))
	return Score{Gross: s.sum.Gross / n, Net: s.sum.Net / n, MovesPerHour: s.sum.MovesPerHour / n}
}

func (s *summary) String() string {
	m := s.mean()
	return fmt.Sprintf("%.1f/%.1f/%.1f", m.Gross, m.Net, m.MovesPerHour)
}

// TestTable reruns the published table (-table): gross % / net % / moves per hour and VM, means over the seeds. Without -table it only
// checks adaptive's goals, on one seed.
func TestTable(t *testing.T) {
	named := chosen(t)
	n := *seeds
	if !*table {
		n = 1
	}
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	cells := make([][]summary, len(named))
	var wg sync.WaitGroup
	for i, w := range named {
		cells[i] = make([]summary, len(columns)+1)
		if !strings.Contains(w.Name, *only) {
			continue
		}
		wg.Go(func() {
			for seed := range n {
				y := newYard(w, *first+uint64(seed))
				cells[i][0].add(y.optimum())
				for k, c := range columns {
					if !strings.Contains(c.name, *which) {
						continue
					}
					if *table || c.name == "adaptive" || c.name == "rentbuy" {
						cells[i][k+1].add(y.play(t, c.rules))
					}
				}
			}
		})
	}
	wg.Wait()
	totals := sums(cells)
	if *table {
		printTable(named, cells, totals)
	}
	if *set == "ten" && *only == "" && *which == "" {
		goals(t, named, cells, totals)
	}
}

// chosen returns the set of workloads that -set names.
func chosen(t *testing.T) []Named {
	t.Helper()
	sets := map[string]func() []Named{
		"ten": Ten, "adversaries": Adversaries, "rhythms": Rhythms, "held-out": HeldOut,
	}
	named, ok := sets[*set]
	if !ok {
		t.Fatalf("-set %s: want ten, adversaries, rhythms or held-out", *set)
	}
	return named()
}

// goals checks what adaptive must reach.
func goals(t *testing.T, named []Named, cells [][]summary, totals []summary) {
	t.Helper()
	a, r := totals[len(columns)], totals[len(columns)-1]
	mean := func(s summary) float64 { return s.sum.Net / float64(s.n) }
	if mean(a) < 95 || a.worst < 80 || a.most > 6 {
		t.Errorf("adaptive: mean net %.1f %%, worst %.1f %%, at most %.1f moves per hour and VM; want 95, 80, 6", mean(a), a.worst, a.most)
	}
	if mean(a) < mean(r)+1 || a.worst < r.worst+1 {
		t.Errorf("adaptive (%.1f %%, worst %.1f %%) does not beat rent-or-buy (%.1f %%, worst %.1f %%) by a point",
			mean(a), a.worst, mean(r), r.worst)
	}
	for i, w := range named {
		if s := cells[i][len(columns)]; (w.Name == "ties" || w.Name == "constant") && s.most > 0 {
			t.Errorf("%s: adaptive makes %.2f moves per hour and VM, want none", w.Name, s.most)
		}
	}
}

func sums(cells [][]summary) []summary {
	out := make([]summary, len(columns)+1)
	for _, row := range cells {
		for k, s := range row {
			if s.n == 0 {
				continue
			}
			x := &out[k]
			if x.n == 0 || s.worst < x.worst {
				x.worst = s.worst
			}
			x.most = max(x.most, s.most)
			x.sum.Net += s.sum.Net
			x.n += s.n
		}
	}
	return out
}

func printTable(named []Named, cells [][]summary, totals []summary) {
	fmt.Print("| workload | optimum |")
	for _, c := range columns {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Print("\n|", strings.Repeat(" --- |", len(columns)+2), "\n")
	for i, w := range named {
		if cells[i][0].n == 0 {
			continue
		}
		fmt.Printf("| %s |", w.Name)
		for k := range cells[i] {
			fmt.Printf(" %s |", &cells[i][k])
		}
		fmt.Println()
	}
	fmt.Print("| mean net / lowest net / most moves |")
	for _, s := range totals {
		fmt.Printf(" %.1f/%.1f/%.1f |", s.sum.Net/float64(max(1, s.n)), s.worst, s.most)
	}
	fmt.Println()
}
