package reproduce

import (
	"context"
	"fmt"
	"math"
	"strings"

	"sluice/internal/research/published"
	"sluice/internal/research/scenario"
)

// vnrafVFs tries other numbers of VFs, which the paper does not state.
func vnrafVFs(file, conclusion, measures string, judge func(none, vnraf series) (float64, bool)) Sweep {
	return Sweep{
		Open: "number of VFs", Ours: "4, as in table 3", Values: []float64{1, 2, 4, 8, 16, 32, 63}, Conclusion: conclusion, Measures: measures,
		Try: func(ctx context.Context, x float64) (float64, bool, error) {
			none, vnraf, err := twoSeries(ctx, file, func(s *scenario.Scenario) { s.PFs[0].VFs = int(x) })
			if err != nil {
				return 0, false, err
			}
			m, holds := judge(none, vnraf)
			return m, holds, nil
		},
	}
}

var vnraf = []Experiment{
	{Figure: "table-2", Run: vnrafTable2},
	{Figure: "table-3", Run: vnrafTable3, Sweeps: []Sweep{
		{
			Open: "threshold of io_degree", Ours: "65", Values: []float64{50, 55, 60, 61, 65, 70, 71, 75, 80},
			Conclusion: "the published VMs hold the VFs at every time", Measures: "times at which they do, of 4",
			Try: table3With(func(s *scenario.Scenario, x float64) { s.Policies[0].Params["io_threshold"] = x }),
		},
		{
			Open: "eps", Ours: "0.7", Values: []float64{0, 0.01, 0.3, 0.5, 0.7, 0.9, 0.99},
			Conclusion: "the published VMs hold the VFs at every time", Measures: "times at which they do, of 4",
			Try: table3With(func(s *scenario.Scenario, x float64) { s.Policies[0].Params["eps"] = x }),
		},
		{
			Open: "eps with normalize: 1, which counts bytes as a share of the largest of the round", Ours: "0.7, without",
			Values:     []float64{0, 0.01, 0.3, 0.5, 0.7, 0.9, 0.99},
			Conclusion: "the published VMs hold the VFs at every time", Measures: "times at which they do, of 4",
			Try: table3With(func(s *scenario.Scenario, x float64) {
				s.Policies[0].Params["eps"], s.Policies[0].Params["normalize"] = x, 1
			}),
		},
		{
			Open: "cores of which CPU use is a share (equation 1 says the host's)", Ours: "0: the VM's own, one", Values: []float64{0, 2, 4, 8, 20},
			Conclusion: "the published VMs hold the VFs at every time", Measures: "times at which they do, of 4",
			Try: table3With(func(s *scenario.Scenario, x float64) { s.Policies[0].Params["host_cores"] = x }),
		},
		{
			Open: "seed: when each VM's load begins to vary", Ours: "1", Values: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
			Conclusion: "the published VMs hold the VFs at every time", Measures: "times at which they do, of 4",
			Try: table3With(func(s *scenario.Scenario, x float64) { s.Seed = int(x) }),
		},
	}},
	{Figure: "tiers", Run: vnrafTiers},
	{Figure: "figure-7a", Run: vnrafFigure7a, Sweeps: []Sweep{vnrafVFs("vnraf-figure-7a.yaml",
		"VFs take at least 26 % off the delay from 32 VMs on", "least gain from 32 VMs on, %",
		func(none, vnraf series) (float64, bool) {
			least := math.Inf(1)
			for i, g := range gains(none, vnraf) {
				if none[i].VMs >= published.VNRAFFigure7.ManyVMs {
					least = min(least, g)
				}
			}
			return least, least >= 100*published.VNRAFFigure7.ManyLess-1
		})}},
	{Figure: "figure-7b", Run: vnrafFigure7b, Sweeps: []Sweep{vnrafVFs("vnraf-figure-7b.yaml",
		"VFs take 21 to 58 % off the delay above 100 requests/s", "most gain, %",
		func(none, vnraf series) (float64, bool) {
			low, high := math.Inf(1), 0.0
			for _, g := range gains(none, vnraf)[1:] {
				low, high = min(low, g), max(high, g)
			}
			return high, low >= 100*published.VNRAFFigure7.RateLeast-1 && high <= 100*published.VNRAFFigure7.RateMost+1
		})}},
	{Figure: "figure-7c", Run: vnrafFigure7c},
	{Figure: "figure-7d", Run: vnrafFigure7d, Sweeps: []Sweep{vnrafVFs("vnraf-figure-7d.yaml",
		"a copy takes less time with VFs for every number of VMs", "s for a copy by 48 VMs with VFs",
		func(none, vnraf series) (float64, bool) {
			holds := true
			for i := range none {
				holds = holds && vnraf[i].Files.Mean < none[i].Files.Mean
			}
			return vnraf[len(vnraf)-1].Files.Mean, holds
		})}},
}

func vnrafTable2(ctx context.Context) (*Measured, error) {
	r, err := play(ctx, "vnraf-table-2.yaml", nil)
	if err != nil {
		return nil, err
	}
	m := numbers(map[string]float64{})
	for i, s := range r.Policies[0].Phases[0].Scores {
		m.Values[fmt.Sprintf("VM%d io_degree", i+1)] = Value{Number: s.IODegree}
		m.Values[fmt.Sprintf("VM%d net_degree", i+1)] = Value{Number: s.Score / 1000}
	}
	return m, nil
}

func vnrafTable3(ctx context.Context) (*Measured, error) {
	r, err := play(ctx, "vnraf-table-3.yaml", nil)
	if err != nil {
		return nil, err
	}
	m := numbers(map[string]float64{})
	for i, ph := range r.Policies[0].Phases {
		m.Values[fmt.Sprintf("holders from %d min on", 10*i)] = Value{Words: strings.Join(ph.Holders, " ")}
	}
	return m, nil
}

// table3With counts the times at which the published VMs hold the VFs, in a changed scenario.
func table3With(change func(*scenario.Scenario, float64)) func(context.Context, float64) (float64, bool, error) {
	return func(ctx context.Context, x float64) (float64, bool, error) {
		r, err := play(ctx, "vnraf-table-3.yaml", func(s *scenario.Scenario) { change(s, x) })
		if err != nil {
			return 0, false, err
		}
		n := 0
		for i, ph := range r.Policies[0].Phases {
			if strings.Join(ph.Holders, " ") == published.VNRAFTable3[i].Holders {
				n++
			}
		}
		return float64(n), n == len(published.VNRAFTable3), nil
	}
}

// series is a policy's result for each number of VMs or rate of a figure.
type series []*scenario.GroupStat

// twoSeries returns the series without VFs and with VNRAF's.
func twoSeries(ctx context.Context, file string, change func(*scenario.Scenario)) (none, vnraf series, err error) {
	r, err := play(ctx, file, change)
	if err != nil {
		return nil, nil, err
	}
	for _, x := range []struct {
		label string
		out   *series
	}{{"none", &none}, {"vnraf", &vnraf}} {
		p, err := policy(r, x.label)
		if err != nil {
			return nil, nil, err
		}
		for i := range p.Phases {
			*x.out = append(*x.out, p.Phases[i].All)
		}
	}
	return none, vnraf, nil
}

// gains returns how much VFs take off the delay, in percent.
func gains(none, vnraf series) []float64 {
	out := make([]float64, len(none))
	for i := range none {
		out[i] = 100 * (1 - latency(vnraf[i])/latency(none[i]))
	}
	return out
}

// together returns the Mbit/s of all VMs.
func together(g *scenario.GroupStat) float64 { return g.Mbit * float64(g.VMs) }

// always says whether every two neighbours of a series are so.
func always(s series, are func(x, y *scenario.GroupStat) bool) Value {
	for i := range s[1:] {
		if !are(s[i], s[i+1]) {
			return Value{Words: "no"}
		}
	}
	return Value{Words: "yes"}
}

// drawn makes a curve of a series.
func drawn(name string, s series, y func(*scenario.GroupStat) float64) Curve {
	c := Curve{Series: name}
	for _, g := range s {
		c.X, c.Y = append(c.X, float64(g.VMs)), append(c.Y, y(g))
	}
	return c
}

// vnrafTiers tries steps between tiers, and counts what four VMs with VFs move, as a share of what they move without tiers.
func vnrafTiers(ctx context.Context) (*Measured, error) {
	m, c := numbers(nil), Curve{Series: "carried"}
	for _, step := range []float64{0, 250, 500, 750, 1000, 1500, 2000, 3000} {
		r, err := play(ctx, "vnraf-tiers.yaml", func(s *scenario.Scenario) { s.Policies[1].Params["delta_mbit"] = step })
		if err != nil {
			return nil, err
		}
		const holders = 4
		moved := func(p *scenario.Outcome) (sum float64) {
			for _, ph := range p.Phases {
				for _, g := range ph.Groups[:holders] {
					sum += g.Mbit
				}
			}
			return sum
		}
		carried := 100 * moved(&r.Policies[1]) / moved(&r.Policies[0])
		c.X, c.Y = append(c.X, step), append(c.Y, carried)
		if step == 250 || step == 1000 || step == 3000 {
			m.Values[fmt.Sprintf("step of %.0f Mbit/s", step)] = Value{Number: carried}
		}
	}
	m.Curves = []Curve{c}
	return m, nil
}

func vnrafFigure7a(ctx context.Context) (*Measured, error) {
	none, vnraf, err := twoSeries(ctx, "vnraf-figure-7a.yaml", nil)
	if err != nil {
		return nil, err
	}
	many, any, full := math.Inf(1), math.Inf(1), math.NaN()
	c := Curve{Series: "less delay", Y: gains(none, vnraf)}
	for i, g := range c.Y {
		vms := none[i].VMs
		c.X = append(c.X, float64(vms))
		any = min(any, g)
		if vms >= published.VNRAFFigure7.ManyVMs {
			many = min(many, g)
		}
		if vms == published.VNRAFFigure7.FullVMs {
			full = g
		}
	}
	m := numbers(map[string]float64{"least gain from 32 VMs on": many, "gain with 48 VMs": full, "least gain with any number": any})
	m.Values["without VFs it grows with each VM"] = always(none, func(x, y *scenario.GroupStat) bool { return latency(y) > latency(x) })
	m.Curves = []Curve{c}
	return m, nil
}

func vnrafFigure7b(ctx context.Context) (*Measured, error) {
	none, vnraf, err := twoSeries(ctx, "vnraf-figure-7b.yaml", nil)
	if err != nil {
		return nil, err
	}
	c := Curve{Series: "less delay", Y: gains(none, vnraf)}
	low, high := math.Inf(1), 0.0
	for i, g := range c.Y {
		c.X = append(c.X, float64(100*(i+1)))
		if i > 0 {
			low, high = min(low, g), max(high, g)
		}
	}
	m := numbers(map[string]float64{"least gain above 100 requests/s": low, "most gain": high})
	m.Curves = []Curve{c}
	return m, nil
}

func vnrafFigure7c(ctx context.Context) (*Measured, error) {
	none, vnraf, err := twoSeries(ctx, "vnraf-figure-7c.yaml", nil)
	if err != nil {
		return nil, err
	}
	before, after := drawn("without VFs", none, together), drawn("with VFs", vnraf, together)
	least := math.Inf(1)
	for _, y := range after.Y {
		least = min(least, y)
	}
	last := len(none) - 1
	m := numbers(map[string]float64{
		"63 VMs without VFs": before.Y[last], "63 VMs with VFs": after.Y[last], "least with VFs, any number": least,
	})
	m.Values["without VFs it falls with each VM"] = always(none, func(x, y *scenario.GroupStat) bool { return together(y) < together(x) })
	m.Curves = []Curve{before, after}
	return m, nil
}

func vnrafFigure7d(ctx context.Context) (*Measured, error) {
	none, vnraf, err := twoSeries(ctx, "vnraf-figure-7d.yaml", nil)
	if err != nil {
		return nil, err
	}
	mean := func(g *scenario.GroupStat) float64 { return g.Files.Mean }
	before, after := drawn("without VFs", none, mean), drawn("with VFs", vnraf, mean)
	least := math.Inf(1)
	for i := range none {
		if a, b := none[i].Files.Done, vnraf[i].Files.Done; a != none[i].VMs || b != none[i].VMs {
			return nil, fmt.Errorf("of %d copies %d end without VFs and %d with them", none[i].VMs, a, b)
		}
		least = min(least, 100*(1-after.Y[i]/before.Y[i]))
	}
	last := len(none) - 1
	m := numbers(map[string]float64{
		"48 VMs without VFs": before.Y[last], "48 VMs with VFs": after.Y[last], "least gain, any number": least,
	})
	m.Values["with more VMs it takes no less"] = always(none, func(x, y *scenario.GroupStat) bool { return mean(y) >= mean(x) })
	m.Curves = []Curve{before, after}
	return m, nil
}
