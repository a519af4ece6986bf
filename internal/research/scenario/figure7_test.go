package scenario_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"sluice/internal/research/published"
	"sluice/internal/research/scenario"
)

// curve is a policy's result in a figure's scenario for each number of VMs or rate.
type curve []*scenario.GroupStat

func curveOf(t *testing.T, r *scenario.Result, label string) (out curve) {
	t.Helper()
	for i := range outcome(t, r, label).Phases {
		out = append(out, outcome(t, r, label).Phases[i].All)
	}
	return out
}

func delay(g *scenario.GroupStat) float64    { return float64(g.Latency[3]) }
func mbit(g *scenario.GroupStat) float64     { return g.Mbit * float64(g.VMs) }
func copyTime(g *scenario.GroupStat) float64 { return g.Files.Mean }

// less returns the share by which y is below x.
func less(x, y float64) float64 { return 1 - y/x }

// at returns the point with this number of VMs.
func (c curve) at(t *testing.T, vms int) *scenario.GroupStat {
	t.Helper()
	for _, g := range c {
		if g.VMs == vms {
			return g
		}
	}
	t.Fatalf("nothing is measured with %d VMs", vms)
	return nil
}

// near checks that a figure is close to the published one.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.4g, published %.4g", what, got, want)
	}
}

// The published outcome: the delay grows with the VMs, is less with VFs for every number of them, by 26 % and more from 32
// on, and by 94 % at 48. Tolerance: 1 % of the delay.
func TestVNRAFFigure7a(t *testing.T) {
	const tolerance = 0.01
	r, want := runFile(t, "vnraf-figure-7a.yaml"), published.VNRAFFigure7
	none, vnraf := curveOf(t, r, "none"), curveOf(t, r, "vnraf")
	for i := range none {
		gain := less(delay(none[i]), delay(vnraf[i]))
		if gain <= 0 || none[i].VMs >= want.ManyVMs && gain < want.ManyLess-tolerance {
			t.Errorf("%d VMs: VFs take %.0f %% off the delay", none[i].VMs, 100*gain)
		}
		if i > 0 && delay(none[i]) <= delay(none[i-1]) {
			t.Errorf("the delay without VFs falls between %d and %d VMs", none[i-1].VMs, none[i].VMs)
		}
	}
	near(t, "delay less with VFs", less(delay(none.at(t, want.FullVMs)), delay(vnraf.at(t, want.FullVMs))), want.FullLess, tolerance)
}

// The published outcome: VFs take 21 to 58 % off the delay of 32 VMs above 100 requests/s. That they take off more at higher rates follows
// from the model. Tolerance: 1 % of the delay.
func TestVNRAFFigure7b(t *testing.T) {
	const tolerance = 0.01
	r, want := runFile(t, "vnraf-figure-7b.yaml"), published.VNRAFFigure7
	none, vnraf := curveOf(t, r, "none"), curveOf(t, r, "vnraf")
	if none[0].VMs != want.RateVMs {
		t.Errorf("%d VMs, published with %d", none[0].VMs, want.RateVMs)
	}
	last := 0.0
	for i := range none {
		gain := less(delay(none[i]), delay(vnraf[i]))
		if i > 0 && (gain < want.RateLeast-tolerance || gain > want.RateMost+tolerance) || gain <= last {
			t.Errorf("%.0f packets/s: VFs take %.1f %% off the delay, %.1f %% at the rate below", none[i].PPS, 100*gain, 100*last)
		}
		last = gain
	}
}

// The published outcome: without VFs the throughput falls as VMs are added, with VFs it stays at its most. Tolerance: 0.2 %.
func TestVNRAFFigure7c(t *testing.T) {
	const tolerance = 0.002
	r, want := runFile(t, "vnraf-figure-7c.yaml"), published.VNRAFFigure7
	none, vnraf := curveOf(t, r, "none"), curveOf(t, r, "vnraf")
	for i := range none {
		if mbit(vnraf[i]) < (1-tolerance)*want.After {
			t.Errorf("%d VMs: %.0f Mbit/s with VFs, most is %.0f", vnraf[i].VMs, mbit(vnraf[i]), want.After)
		}
		if i > 0 && (mbit(none[i]) >= mbit(none[i-1]) || mbit(none[i]) >= mbit(vnraf[i])) {
			t.Errorf("%d VMs: %.0f Mbit/s without VFs, %.0f with VFs, %.0f without for fewer VMs",
				none[i].VMs, mbit(none[i]), mbit(vnraf[i]), mbit(none[i-1]))
		}
	}
	near(t, "Mbit/s without VFs", mbit(none.at(t, want.SendVMs)), want.Before, tolerance*want.Before)
	near(t, "Mbit/s with VFs", mbit(vnraf.at(t, want.SendVMs)), want.After, tolerance*want.After)
}

// The published outcome: copies take longer the more VMs there are, and less time with VFs for every number of VMs. Tolerance: 1 %.
func TestVNRAFFigure7d(t *testing.T) {
	const tolerance = 0.01
	r, want := runFile(t, "vnraf-figure-7d.yaml"), published.VNRAFFigure7
	none, vnraf := curveOf(t, r, "none"), curveOf(t, r, "vnraf")
	for i := range none {
		if none[i].Files.Done != none[i].VMs || vnraf[i].Files.Done != none[i].VMs {
			t.Errorf("%d VMs: %d copies end without VFs, %d with VFs", none[i].VMs, none[i].Files.Done, vnraf[i].Files.Done)
		}
		if copyTime(vnraf[i]) >= copyTime(none[i]) {
			t.Errorf("%d VMs: a copy takes %.1f s with VFs, %.1f s without", none[i].VMs, copyTime(vnraf[i]), copyTime(none[i]))
		}
		if i > 0 && (copyTime(none[i]) < copyTime(none[i-1]) || copyTime(vnraf[i]) < copyTime(vnraf[i-1])) {
			t.Errorf("%d VMs: a copy takes less time than with fewer VMs", none[i].VMs)
		}
	}
	near(t, "s without VFs", copyTime(none.at(t, want.CopyVMs)), want.Slow, tolerance*want.Slow)
	near(t, "s with VFs", copyTime(vnraf.at(t, want.CopyVMs)), want.Fast, tolerance*want.Fast)
}

// The paper does not state its number of VFs. Whatever the number and the seed, VFs make nothing worse.
func TestVNRAFFigure7WithOtherVFs(t *testing.T) {
	for name, figure := range map[string]struct {
		of   func(*scenario.GroupStat) float64
		sign float64 // 1: more is worse
	}{"7a": {delay, 1}, "7b": {delay, 1}, "7c": {mbit, -1}, "7d": {copyTime, 1}} {
		for _, vfs := range []int{1, 2, 8, 16, 63} {
			s, err := scenario.Open(filepath.Join("..", "..", "..", "scenarios", "vnraf-figure-"+name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			s.Seed = vfs
			if err := s.SetVFs(vfs); err != nil {
				t.Fatal(err)
			}
			r, err := s.Run(context.Background(), scenario.RunOptions{Workers: 2, NoOptimum: true})
			if err != nil {
				t.Fatal(err)
			}
			none, vnraf := curveOf(t, r, "none"), curveOf(t, r, "vnraf")
			for i := range none {
				if x, y := figure.of(none[i]), figure.of(vnraf[i]); figure.sign*(y-x) > 1e-3*x {
					t.Errorf("figure %s, %d VFs, %d VMs: %.4g without VFs, %.4g with them", name, vfs, none[i].VMs, x, y)
				}
			}
		}
	}
}
