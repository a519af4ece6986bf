package scenario

import (
	"context"
	"strings"
	"testing"

	"sluice/internal/config"
)

func parse(t testing.TB, text string) *Scenario {
	t.Helper()
	s, err := Parse(config.Document{Name: "s.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, s *Scenario) *Result {
	t.Helper()
	r, err := s.Run(context.Background(), RunOptions{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const small = `
duration: 10m
pfs:
  - {name: pf0, vfs: 4}
vms:
  - name: web
    count: 12
    load: {shape: on-off, pps: 50000, low: 500, on: 30s, off: 60s}
telemetry: {noise: 0.01}
policies:
  - {name: activity, interval: 10s}
  - {name: fair, interval: 60s}
  - {name: random}
  - {name: none}
`

func TestRunScoresPolicies(t *testing.T) {
	r := run(t, parse(t, small))
	byName := map[string]Outcome{}
	for _, o := range r.Policies {
		byName[o.Policy] = o
		if o.Gross > 100.01 || o.Net > 100.01 {
			t.Errorf("%s scores %v gross and %v net: more than the optimum", o.Policy, o.Gross, o.Net)
		}
		t.Logf("%-8s gross %.1f net %.1f moves %d on %.2f worst %+v", o.Policy, o.Gross, o.Net, o.Moves, o.OnVF, o.Worst)
	}
	if a, f, x := byName["activity"].Gross, byName["fair"].Gross, byName["random"].Gross; a <= f || a <= x || f < 20 {
		t.Errorf("gross of activity %v, fair %v, random %v: activity must see where the load is", a, f, x)
	}
	if n := byName["none"]; n.Gross != 0 || n.Plugs != 0 || n.OnVF != 0 {
		t.Errorf("none holds something: %+v", n)
	}
	if x := byName["random"]; x.Moves != 0 || x.Plugs != 4 {
		t.Errorf("random moves: %d plugs", x.Plugs)
	}
	if o := r.Optimum; o.Charged.Value > o.Free.Value || o.Free.Benefit > o.Free.Value*1.01 || o.Free.Benefit < o.Free.Value*0.99 {
		t.Errorf("optimum %+v", *o)
	}
}

func TestRunsAreDeterministic(t *testing.T) {
	s := parse(t, small+"timing: {spread: 0.3}\nfailures: {step: 0.01, plug: 0.05}\n")
	a, b := run(t, s), run(t, s)
	for i := range a.Policies {
		x, y := a.Policies[i].Decisions, b.Policies[i].Decisions
		if len(x) != len(y) {
			t.Fatalf("%s: %d decisions, then %d", a.Policies[i].Label, len(x), len(y))
		}
		for k := range x {
			if x[k] != y[k] {
				t.Fatalf("%s: decision %d is %+v, then %+v", a.Policies[i].Label, k, x[k], y[k])
			}
		}
	}
	if a.Policies[0].Failed == 0 {
		t.Error("nothing failed")
	}
	s.Seed = 2
	if c := run(t, s); c.Policies[0].Benefit == a.Policies[0].Benefit {
		t.Error("another seed gives the same run")
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := parse(t, strings.Replace(small, "10m", "240h", 1))
	_, err := s.Run(ctx, RunOptions{Workers: 1, Progress: func(float64, string) { cancel() }})
	if err == nil || ctx.Err() == nil {
		t.Fatal("it ran to the end")
	}
}
