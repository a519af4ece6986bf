package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/workload"
)

// ceiling is what a policy gains that knows the process of each VM but not its future, in percent of the optimum, which knows both.
type ceiling struct {
	certain           bool  // the loads have no randomness, so the optimum is no better informed
	optimum           Score // the clairvoyant one
	least, most       Score // what the index reaches, and what no policy exceeds on average
	adaptive, rentbuy Score
}

// learn learns the processes of a workload's VMs; certainly is true if none of them has any randomness.
func learn(w *Workload, r *Rates) (all []known, certainly bool) {
	kinds := map[string]*likely{}
	for i, v := range w.VMs {
		pps := make([]float64, len(r.PPS))
		for t := range pps {
			pps[t] = r.PPS[t][i]
		}
		if again(v.PPS, 0) == nil {
			if j, ok := v.PPS.(workload.Jitter); ok { // its variation is not known beforehand
				for t := range pps {
					pps[t] = j.Shape.Level(time.Duration(t) * r.Step)
				}
			}
			all = append(all, &certain{vm: i, pps: pps})
			continue
		}
		name := kind(v.PPS)
		l := kinds[name]
		if l == nil {
			l = &likely{process: watch(v.PPS)}
			kinds[name], all = l, append(all, l)
		}
		l.vms, l.at = append(l.vms, i), append(l.at, l.follow(pps))
	}
	return all, len(kinds) == 0
}

// ceilingOf measures a workload's ceiling on one seed, in the fluid simulation.
func ceilingOf(t *testing.T, n Named, seed uint64) ceiling {
	t.Helper()
	y := newYard(n, seed)
	all, certainly := learn(y.w, y.rates)
	vfs := y.w.VFs
	m := lookAhead(all, len(y.w.VMs), len(y.rates.PPS), vfs, y.charge, y.rates.highest())
	score := func(f Figures) Score { return f.Against(y.rates, &y.free, &y.charged) }
	fluid := func(policy string) Score {
		f, err := Fluid(y.rates, model.Rules{Policy: policy}, y.w.VFs, y.charge, &workload.Sensor{Noise: 0.01, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return score(f)
	}
	x := ceiling{
		certain: certainly, optimum: y.optimum(),
		least: score(m.byIndex(y.rates, vfs, y.charge)), most: score(m.usual.byItself(y.rates, vfs, y.charge)),
		adaptive: fluid("adaptive"), rentbuy: fluid("rentbuy"),
	}
	if upper := 100 * y.charged.Upper / y.charged.Value; x.least.Net > upper*(1+1e-9) {
		t.Errorf("%s, seed %d: the index gains %.2f %%, but no placement gains more than %.2f %%", n.Name, seed, x.least.Net, upper)
	}
	return x
}

func (r *Rates) highest() float64 {
	x := 0.0
	for _, row := range r.PPS {
		x = max(x, slices.Max(row))
	}
	return x
}

// TestCeiling prints how much of the clairvoyant optimum is within reach of a policy that knows each VM's process but not its future
// (-table). Without -table it checks on a few workloads that no policy exceeds the ceiling, and that the ceiling is narrowly bounded.
func TestCeiling(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	named := slices.Concat(Rhythms(), HeldOut(), Ten(), Adversaries())
	n := *seeds
	if !*table {
		n = 2
		named = slices.DeleteFunc(named, func(w Named) bool {
			return !slices.Contains([]string{"memoryless", "tails-seconds", "short-7s", "cycles-90s"}, w.Name)
		})
	}
	named = slices.DeleteFunc(named, func(w Named) bool { return !strings.Contains(w.Name, *only) })
	cells := make([]ceiling, len(named))
	var wg sync.WaitGroup
	for i, w := range named {
		wg.Go(func() {
			for seed := range n {
				cells[i].add(ceilingOf(t, w, *first+uint64(seed)), n)
			}
		})
	}
	wg.Wait()
	if *table {
		printCeiling(named, cells)
	}
	for i, x := range cells {
		x.check(t, named[i].Name)
	}
}

// add adds one of n seeds to the means.
func (c *ceiling) add(x ceiling, n int) {
	c.certain = x.certain
	add := func(to *Score, s Score) {
		to.Net += s.Net / float64(n)
		to.MovesPerHour += s.MovesPerHour / float64(n)
	}
	add(&c.optimum, x.optimum)
	add(&c.least, x.least)
	add(&c.most, x.most)
	add(&c.adaptive, x.adaptive)
	add(&c.rentbuy, x.rentbuy)
}

// upper returns the most that a policy without knowledge of the future reaches on average.
func (c *ceiling) upper() float64 {
	if c.certain {
		return 100
	}
	return min(100, c.most.Net)
}

// check compares the figures with each other.
func (c *ceiling) check(t *testing.T, name string) {
	t.Helper()
	const noise = 0.5 // of a few seeds
	for who, net := range map[string]float64{"the index": c.least.Net, "adaptive": c.adaptive.Net, "rentbuy": c.rentbuy.Net} {
		if net > c.upper()+noise {
			t.Errorf("%s: %s gains %.1f %%, which is above the ceiling of %.1f %%", name, who, net, c.upper())
		}
	}
	if c.least.Net < c.rentbuy.Net-noise {
		t.Errorf("%s: with known processes the index gains %.1f %%; rent-or-buy, which does not know them, %.1f %%",
			name, c.least.Net, c.rentbuy.Net)
	}
	if c.least.Net < c.upper()-7 {
		t.Errorf("%s: the ceiling is anywhere between %.1f %% and %.1f %%", name, c.least.Net, c.upper())
	}
}

func printCeiling(named []Named, cells []ceiling) {
	fmt.Println("| workload | optimum's moves | ceiling, at least | its moves | at most | adaptive | its moves | rentbuy |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, c := range cells {
		fmt.Printf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n", named[i].Name,
			c.optimum.MovesPerHour, c.least.Net, c.least.MovesPerHour, c.upper(), c.adaptive.Net, c.adaptive.MovesPerHour, c.rentbuy.Net)
	}
}
