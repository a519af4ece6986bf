package scenario_test

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"testing"

	"sluice/internal/config"
	"sluice/internal/research/scenario"
)

// onVF is the time on a VF by group, under a policy.
func onVF(t *testing.T, r *scenario.Result, policy string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, g := range outcome(t, r, policy).Phases[0].Groups {
		out[g.Group] = g.OnVF
	}
	return out
}

// With values the frontends have VFs whenever they are busy, which is half the time, and storage has the rest; without values the same
// loads leave the frontends none.
func TestValue(t *testing.T) {
	r := runFile(t, "value.yaml")
	for _, policy := range []string{"adaptive", "activity"} {
		got := onVF(t, r, policy)
		if got["web"] < 0.48 || got["web"] > 0.52 || got["storage"] < 0.82 || got["backup"]+got["sensors"] > 0.01 {
			t.Errorf("%s by value: %v", policy, got)
		}
	}
	if o := outcome(t, r, "adaptive"); o.Net < 99 || !r.Worth {
		t.Errorf("adaptive has %.1f %% of the value, want 99", o.Net)
	}
	fair := onVF(t, r, "fair") // time in proportion to the values by latency: 3, 1/3, 1, 1
	if fair["web"] < 2*fair["storage"] || fair["backup"] > fair["storage"]/2 {
		t.Errorf("fair by value: %v", fair)
	}

	text, err := os.ReadFile("../../../scenarios/value.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`latency_sensitivity: \w+, `).ReplaceAll(text, nil)
	text = regexp.MustCompile(`\nworth: .*`).ReplaceAll(text, nil)
	if bytes.Contains(text, []byte("latency_s")) || bytes.Contains(text, []byte("_cpu")) {
		t.Fatal("some settings of worth are left")
	}
	s, err := scenario.Parse(config.Document{Name: "value.yaml", Data: text})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = s.Run(context.Background(), scenario.RunOptions{Workers: 2, NoOptimum: true}); err != nil {
		t.Fatal(err)
	}
	if got := onVF(t, r, "adaptive"); got["web"] > 0.01 || got["backup"] < 0.99 || got["storage"] > 0.01 || r.Worth {
		t.Errorf("adaptive by packets: %v", got)
	}
}
