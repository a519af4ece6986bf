package scenario_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/report"
	"sluice/internal/scenario"
)

// compare runs one of the scenarios of guarantees that come with Sluice.
func compare(t *testing.T, name string, allocators ...string) map[string]*scenario.Kept {
	t.Helper()
	s, err := scenario.Open(filepath.Join("..", "..", "scenarios", name))
	if err != nil {
		t.Fatal(err)
	}
	if s.Assumes == "" {
		t.Errorf("%s does not say what its model assumes", name)
	}
	if len(allocators) > 0 {
		s.SetAllocators(allocators)
	}
	r, err := s.Run(context.Background(), scenario.RunOptions{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*scenario.Kept{}
	for i := range r.Guaranteed.Allocators {
		k := &r.Guaranteed.Allocators[i]
		out[k.Label] = k
		t.Logf("%-12s %5.1f %% satisfied, %6.3g bits short, %5.1f %% carried, %.2f changes/s, %s to recover", k.Label, k.Satisfied, k.Shortfall, k.Utilisation, k.Changes, k.Recovery)
		if k.Satisfied < 0 || k.Satisfied > 100 || k.Utilisation < 0 || k.Utilisation > 100.01 {
			t.Errorf("%s: %v %% satisfied, %v %% carried", k.Label, k.Satisfied, k.Utilisation)
		}
	}
	for _, write := range []func() error{
		func() error { return report.Table(new(bytes.Buffer), r) },
		func() error { return report.HTML(new(bytes.Buffer), r) },
		func() error { return report.CSV(new(bytes.Buffer), r) },
		func() error { return report.JSON(new(bytes.Buffer), r) },
	} {
		if err := write(); err != nil {
			t.Error(err)
		}
	}
	return out
}

// DAQS's first experiment: without control one flow has a sixth of the link; limits set once keep the guarantee and waste
// what the guaranteed VM leaves; DAQS's own law wastes nothing and breaks the guarantee for long.
func TestOneAgainstFive(t *testing.T) {
	r := compare(t, "daqs-one-against-five-37.yaml", "none", "static", "daqs", "dbavm")
	none, fixed, daqs, dbavm := r["none"], r["static"], r["daqs"], r["dbavm"]
	if none.Satisfied > 5 || none.Utilisation < 99.9 || none.Never == 0 {
		t.Errorf("without control: %+v", none)
	}
	if fixed.Satisfied < 99 || fixed.Utilisation > 95 {
		t.Errorf("limits set once: %+v", fixed)
	}
	if daqs.Satisfied < none.Satisfied+10 || daqs.Satisfied > 95 || daqs.Recovery < 2*time.Second || daqs.Utilisation < 99 {
		t.Errorf("DAQS: %+v", daqs)
	}
	if dbavm.Satisfied < 99 || dbavm.Utilisation > 95 {
		t.Errorf("DBA-VM: %+v", dbavm)
	}
	if sent := none.VMs[0].Sent / 30; sent < 6.5e9 || sent > 6.8e9 {
		t.Errorf("one flow of six sends %v bits/s while it is on", sent)
	}
}

func TestAllocatorsAreChecked(t *testing.T) {
	dir := t.TempDir()
	err := parse(t, filepath.Join(dir, "x.yaml"), strings.Join([]string{
		"duration: 10s", "pfs: [{name: pf0, vfs: 1}]", "vms: [{name: a, guarantee: 5Gbit, limit: 1Gbit, load: {send: 1Gbit}}]",
		"bandwidth:", "  allocators: [{name: dasq}, {name: none}, {name: none}]", "  capacity: [{pf: pf1, gbit: 3}]",
	}, "\n"))
	for _, want := range []string{`unknown allocator "dasq"`, "daqs", `two allocators are called "none"`, `no PF "pf1"`, "above its limit"} {
		if !strings.Contains(err, want) {
			t.Errorf("%q is not in:\n%s", want, err)
		}
	}
}

func parse(t *testing.T, name, text string) string {
	t.Helper()
	_, err := scenario.Parse(config.Document{Name: name, Data: []byte(text)})
	if err == nil {
		return ""
	}
	return err.Error()
}
