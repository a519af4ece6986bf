package scenario_test

import (
	"context"
	"path/filepath"
	"testing"

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
