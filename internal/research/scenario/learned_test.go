package scenario_test

import (
	"context"
	"math"
	"testing"

	"sluice/internal/config"
	"sluice/internal/research/scenario"
)

const bursty = `
duration: 40m
pfs: [{name: pf0, vfs: 3}]
vms:
  - {name: cycle, count: 4, load: {shape: duty, pps: 40000, low: 1000, on: 48s, off: 110s, stagger: 30s}}
  - {name: late, count: 2, from: 30m, load: {shape: duty, pps: 20000, low: 100, on: 20s, off: 40s}}
  - {name: gone, until: 10m, load: {shape: duty, pps: 20000, low: 100, on: 20s, off: 40s}}
  - {name: calm, count: 3, load: {pps: 9000}}
timeline:
  - {at: 20m, vms: calm, load: {pps: 9500}}
policies: [{name: adaptive}, {name: activity}]
`

// At the end of each phase the report has what the policy knew about groups with VMs that are present and were seen to burst, and about no
// others; and nothing for policies that do not learn.
func TestLearned(t *testing.T) {
	s, err := scenario.Parse(config.Document{Name: "t.yaml", Data: []byte(bursty)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(context.Background(), scenario.RunOptions{Workers: 2, NoOptimum: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, ph := range outcome(t, r, "activity").Phases {
		if len(ph.Learned) > 0 {
			t.Errorf("activity learned %+v by the end of phase %d", ph.Learned, i)
		}
	}
	phases := outcome(t, r, "adaptive").Phases
	if len(phases) != 2 {
		t.Fatalf("%d phases, want 2", len(phases))
	}
	groups := func(ph *scenario.Phase) map[string]scenario.LearnedStat {
		out := map[string]scenario.LearnedStat{}
		for _, l := range ph.Learned {
			out[l.Group] = l
		}
		return out
	}
	check := func(when string, l scenario.LearnedStat, vms int, burst, between float64, least, most int) {
		if l.VMs != vms || l.Known != vms || math.Abs(l.Burst-burst) > 1 || math.Abs(l.Between-between) > 1 || l.Seen < least || l.Seen > most {
			t.Errorf("%s: %+v, want %d VMs, bursts of %v s, %v s between, %d to %d seen", when, l, vms, burst, between, least, most)
		}
	}
	half, whole := groups(&phases[0]), groups(&phases[1])
	if len(half) != 1 || len(whole) != 2 {
		t.Errorf("learned of %+v, then %+v; want cycle, then late too", half, whole)
	}
	check("half way", half["cycle"], 4, 48, 110, 24, 32) // 7.6 cycles of 158 s each
	check("at the end", whole["cycle"], 4, 48, 110, 56, 64)
	check("at the end", whole["late"], 2, 20, 40, 16, 20)
}
