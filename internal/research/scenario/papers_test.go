package scenario_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/research/report"
	"sluice/internal/research/scenario"
	"sluice/internal/tests/golden"
)

// runFile runs one of the scenarios that come with Sluice, once for all tests.
func runFile(t *testing.T, name string) *scenario.Result {
	t.Helper()
	s, err := scenario.Open(filepath.Join("..", "..", "..", "scenarios", name))
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

// The papers' scenarios give the tables that are known. Whether those agree with what is published is judged by package reproduce.
func TestPapers(t *testing.T) {
	for _, name := range []string{
		"flexvf-figure-7", "flexvf-figure-8", "vnraf-table-2", "vnraf-table-3",
		"vnraf-figure-7a", "vnraf-figure-7b", "vnraf-figure-7c", "vnraf-figure-7d",
	} {
		t.Run(name, func(t *testing.T) { runFile(t, name+".yaml") })
	}
}

// TestVNRAFTiers: every VM gets a tier that lets all of its load through, also after needs have changed, and only until then a tier that is
// too small holds the VM back.
func TestVNRAFTiers(t *testing.T) {
	r := runFile(t, "vnraf-tiers.yaml")
	free, tiers := outcome(t, r, "no tiers"), outcome(t, r, "vnraf")
	for n, ph := range tiers.Phases {
		for i, g := range ph.Groups {
			want := free.Phases[n].Groups[i]
			if share := g.Mbit / want.Mbit; share < 0.97 || share > 1.001 {
				t.Errorf("phase %d, %s: %.0f Mbit/s with tiers, %.0f without", n, g.Group, g.Mbit, want.Mbit)
			}
		}
	}
	if g := tiers.Phases[1].Groups[3]; g.Least > 0.5*g.Most {
		t.Errorf("VM4's tier did not hold it back when its load grew: at least %.0f packets/s", g.Least)
	}
}
