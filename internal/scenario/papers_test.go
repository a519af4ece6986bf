package scenario_test

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/golden"
	"sluice/internal/report"
	"sluice/internal/scenario"
)

// runFile runs one of the scenarios that come with Sluice, once for all tests.
func runFile(t *testing.T, name string) *scenario.Result {
	t.Helper()
	s, err := scenario.Open(filepath.Join("..", "..", "scenarios", name))
	if err != nil {
		t.Fatal(err)
	}
	if s.Assumes == "" {
		t.Errorf("%s does not say what its model assumes", name)
	}
	r, err := s.Run(context.Background(), scenario.RunOptions{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Table(&out, r); err != nil {
		t.Fatal(err)
	}
	golden.File(t, filepath.Join("testdata", strings.TrimSuffix(name, ".yaml")+".txt"), out.String())
	return r
}

func outcome(t *testing.T, r *scenario.Result, label string) *scenario.Outcome {
	t.Helper()
	for i := range r.Policies {
		if r.Policies[i].Label == label {
			return &r.Policies[i]
		}
	}
	t.Fatalf("no policy %s", label)
	return nil
}

// The published outcome: all on virtio is slowest everywhere; by lot and by turns every
// group has some of each; by activity the two busiest groups have all the VFs they can
// use, the quietest none, and only the second varies.
func TestFlexVFFigure7(t *testing.T) {
	r := runFile(t, "flexvf-figure-7.yaml")
	groups := func(label string) []scenario.GroupStat { return outcome(t, r, label).Phases[0].Groups }
	mean := func(g scenario.GroupStat) float64 { return float64(g.Latency[3]) }
	virtio, random, fair, activity := groups("all virtio"), groups("random"), groups("fair"), groups("activity")
	for i := range virtio {
		if virtio[i].OnVF != 0 || mean(virtio[i]) <= mean(random[i]) || mean(virtio[i]) <= mean(fair[i]) {
			t.Errorf("%s: virtio %v, random %v, fair %v us", virtio[i].Group, mean(virtio[i]), mean(random[i]), mean(fair[i]))
		}
		for _, g := range []scenario.GroupStat{random[i], fair[i]} {
			if g.OnVF < 0.3 || g.OnVF > 0.9 {
				t.Errorf("%s has a VF for %v of the time under random or fair", g.Group, g.OnVF)
			}
		}
		if fair[i].OnVF < 0.58 || fair[i].OnVF > 0.68 {
			t.Errorf("fair gives %s %v of the time, want 0.63", fair[i].Group, fair[i].OnVF)
		}
	}
	for i, want := range []float64{0, 13.0 / 25, 1, 1} {
		if got := activity[i].OnVF; got < want-0.01 || got > want+0.01 {
			t.Errorf("activity gives %s %v of the time, want %v", activity[i].Group, got, want)
		}
	}
}

// The published outcome: by activity the FTP server can lose up to 93 % of its
// throughput to busy neighbours, by turns it stays in the same range.
func TestFlexVFFigure8(t *testing.T) {
	r := runFile(t, "flexvf-figure-8.yaml")
	ftp := func(label string, phase int) float64 { return outcome(t, r, label).Phases[phase].Groups[0].Mbit }
	loss := func(label string) float64 { return 1 - ftp(label, 0)/ftp(label, 1) }
	if x := loss("activity"); x < 0.88 || x > 0.96 {
		t.Errorf("by activity it loses %.0f %%, published: up to 93 %%", 100*x)
	}
	if x := loss("fair"); x > 0.4 {
		t.Errorf("by turns it loses %.0f %%, published: stable", 100*x)
	}
}

// The published orders: network VMs are above CPU VMs in io_degree, which falls with
// the share of time at work; net_degree rises with it; CPU VMs have none.
func TestVNRAFTable2(t *testing.T) {
	r := runFile(t, "vnraf-table-2.yaml")
	s := r.Policies[0].Phases[0].Scores
	io := func(i int) float64 { return s[i-1].IODegree }
	net := func(i int) float64 { return s[i-1].Score }
	for i := 1; i <= 5; i++ {
		if io(i) <= io(6) || io(i) <= io(11) {
			t.Errorf("VM%d: io_degree %v is not above all VMs with CPU load", i, io(i))
		}
		if net(i+5) != 0 {
			t.Errorf("VM%d: net_degree %v without traffic", i+5, net(i+5))
		}
		if io(i+10) <= io(i+5) {
			t.Errorf("VM%d: io_degree %v is not above VM%d's %v", i+10, io(i+10), i+5, io(i+5))
		}
		if i == 5 {
			break
		}
		if io(i+6) >= io(i+5) || io(i+11) >= io(i+10) {
			t.Errorf("io_degree does not fall from VM%d or VM%d on", i+5, i+10)
		}
		if net(i+1) <= net(i) || net(i+11) <= net(i+10) {
			t.Errorf("net_degree does not rise from VM%d or VM%d on", i, i+10)
		}
	}
	for i := range s {
		if want := i < 5; s[i].Hold != want {
			t.Errorf("VM%d: holds %v, want %v", i+1, s[i].Hold, want)
		}
	}
}

// The published holders, for many seeds: they must not hang on one draw.
func TestVNRAFTable3(t *testing.T) {
	want := [][]string{{"VM1", "VM6", "VM7", "VM8"}, {"VM1", "VM3", "VM5", "VM6"}, {"VM1", "VM4", "VM5", "VM6"}, {"VM1", "VM4", "VM5", "VM6"}}
	check := func(r *scenario.Result) {
		for i, ph := range r.Policies[0].Phases {
			if !slices.Equal(ph.Holders, want[i]) {
				t.Errorf("seed %d, after %v: %v, published %v", r.Seed, ph.Until, ph.Holders, want[i])
			}
		}
	}
	check(runFile(t, "vnraf-table-3.yaml"))
	for seed := 2; seed <= 10; seed++ {
		s, err := scenario.Open("../../scenarios/vnraf-table-3.yaml")
		if err != nil {
			t.Fatal(err)
		}
		s.Seed = seed
		r, err := s.Run(context.Background(), scenario.RunOptions{Workers: 2, NoOptimum: true})
		if err != nil {
			t.Fatal(err)
		}
		check(r)
	}
}
