package scenario_test

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/research/report"
	"sluice/internal/research/scenario"
	"sluice/internal/tests/golden"
)

// compare runs one of the scenarios of guarantees that come with Sluice.
func compare(t *testing.T, name string, allocators ...string) map[string]*scenario.Kept {
	t.Helper()
	s, err := scenario.Open(filepath.Join("..", "..", "..", "scenarios", name))
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
		t.Logf("%-12s %5.1f %% satisfied, %6.3g bits short, %5.1f %% carried, %.2f changes/s, %s to recover", k.Label, k.Satisfied, k.Shortfall,
			k.Utilisation, k.Changes, k.Recovery)
		if k.Satisfied < 0 || k.Satisfied > 100 || k.Utilisation < 0 || k.Utilisation > 100.01 {
			t.Errorf("%s: %v %% satisfied, %v %% carried", k.Label, k.Satisfied, k.Utilisation)
		}
		addUp(t, k)
	}
	var table bytes.Buffer
	for _, write := range []func() error{
		func() error { return report.Table(&table, r) },
		func() error { return report.HTML(new(bytes.Buffer), r, report.About{}) },
		func() error { return report.CSV(new(bytes.Buffer), r) },
		func() error { return report.JSON(new(bytes.Buffer), r) },
	} {
		if err := write(); err != nil {
			t.Error(err)
		}
	}
	if len(allocators) == 0 {
		golden.File(t, filepath.Join("testdata", strings.TrimSuffix(name, ".yaml")+".txt"), table.String())
	}
	return out
}

// addUp checks that what functions of a virtual PF have adds up to what their VM has.
func addUp(t *testing.T, k *scenario.Kept) {
	t.Helper()
	for i := range k.VMs {
		sum := k.VMs[i]
		for _, f := range k.VMs[i+1:] {
			if f.Function == "" || sum.Function != "" {
				break
			}
			sum.Sent, sum.Wanted, sum.Ideal, sum.Packets = sum.Sent-f.Sent, sum.Wanted-f.Wanted, sum.Ideal-f.Ideal, sum.Packets-f.Packets
		}
		v := &k.VMs[i]
		if has := i+1 < len(k.VMs) && k.VMs[i+1].Function != "" && v.Function == ""; has &&
			max(math.Abs(sum.Sent), math.Abs(sum.Wanted), math.Abs(sum.Ideal), math.Abs(sum.Packets)) > 1e-6*v.Wanted {
			t.Errorf("%s: functions of %s do not add up: %+v is left of %+v", k.Label, v.VM, sum, *v)
		}
	}
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

// A link that silently carries a third less takes it all from the guaranteed VM, which no reading distinguishes from a VM that wants less:
// waterfill finds out within two seconds.
func TestCapacityFalls(t *testing.T) {
	r := compare(t, "capacity-falls-30.yaml", "waterfill", "waterfill 40ms", "none")
	for label, least := range map[string]float64{"waterfill": 95, "waterfill 40ms": 98} {
		if k := r[label]; k.Satisfied < least || k.Utilisation < 99 || k.Changes > 2 {
			t.Errorf("%s: %.1f %% satisfied, want %.0f %%; %.1f %% carried; %.2f changes/s", label, k.Satisfied, least, k.Utilisation, k.Changes)
		}
	}
	if k := r["none"]; k.Satisfied > 5 {
		t.Errorf("without control the guarantee is kept for %.1f %% of the time", k.Satisfied)
	}
}

// reaches checks an allocator's figures in %.
func reaches(t *testing.T, r map[string]*scenario.Kept, label string, satisfied, used float64) {
	t.Helper()
	if k := r[label]; k.Satisfied < satisfied || k.Utilisation < used {
		t.Errorf("%s: %.1f %% satisfied, want %.0f; %.1f %% carried, want %.0f", label, k.Satisfied, satisfied, k.Utilisation, used)
	}
}

// misses checks that an allocator satisfies at most so many %.
func misses(t *testing.T, r map[string]*scenario.Kept, label string, satisfied float64) {
	t.Helper()
	if k := r[label]; k.Satisfied > satisfied {
		t.Errorf("%s: %.1f %% satisfied, want at most %.0f: the scenario shows nothing", label, k.Satisfied, satisfied)
	}
}

// A link that carries a tenth less than its speed from the start: waterfill finds it within three seconds. Limits set once, and DAQS, go by
// the speed.
func TestColdLink(t *testing.T) {
	r := compare(t, "cold-link.yaml", "waterfill", "waterfill 40ms", "static", "daqs")
	reaches(t, r, "waterfill", 84, 99)
	reaches(t, r, "waterfill 40ms", 84, 99)
	misses(t, r, "static", 5)
	misses(t, r, "daqs", 5)
}

// Senders without a guarantee that go up and down after their limits take neither the guarantee away nor the use of the link.
func TestAttackers(t *testing.T) {
	r := compare(t, "attackers.yaml", "waterfill", "waterfill 40ms", "none", "daqs")
	reaches(t, r, "waterfill", 97, 95)
	reaches(t, r, "waterfill 40ms", 97, 95)
	misses(t, r, "none", 5)
	misses(t, r, "daqs", 70)
}

func TestAttackersOnAColdLink(t *testing.T) {
	r := compare(t, "attackers-cold-link.yaml", "waterfill", "waterfill 40ms", "none", "dbavm")
	reaches(t, r, "waterfill", 93, 90)
	reaches(t, r, "waterfill 40ms", 97, 90)
	misses(t, r, "none", 5)
	misses(t, r, "dbavm", 75)
}

// A guarantee that is used for a tenth of the time is paid for with use of the link, not with the guarantee of another.
func TestGuaranteedBursts(t *testing.T) {
	r := compare(t, "guaranteed-bursts.yaml", "waterfill", "waterfill 40ms", "none")
	reaches(t, r, "waterfill", 97, 80)
	reaches(t, r, "waterfill 40ms", 97, 77)
	misses(t, r, "none", 40)
}

// Each function of a virtual PF gets its guarantee, and together they get the VM's, against other VMs; without control they do not, and
// equal shares and DBA-VM waste what some leave.
func TestVirtualPF(t *testing.T) {
	r := compare(t, "virtual-pf.yaml")
	fill := r["waterfill"]
	for label, k := range r {
		if label != "waterfill" && (k.Satisfied > fill.Satisfied-20 || k.Shortfall < 10*fill.Shortfall) {
			t.Errorf("%s: %v %% satisfied, %v bits short; waterfill: %v %% and %v", label, k.Satisfied, k.Shortfall, fill.Satisfied, fill.Shortfall)
		}
	}
	if r["none"].VMs[0].Satisfied > 1 {
		t.Errorf("without control: %+v", r["none"].VMs[0])
	}
	if fill.Satisfied < 98 || fill.Utilisation < 98.5 || fill.Never > 0 || fill.Recovery > time.Second {
		t.Errorf("waterfill: %+v", fill)
	}
	for i, v := range fill.VMs {
		if v.Sent < 0.96*v.Ideal || v.Sent > 1.05*v.Ideal {
			t.Errorf("row %d, %s: %v bits, and ideally %v", i, v.Name(), v.Sent, v.Ideal)
		}
		if v.Guarantee > 0 && v.Satisfied < 97 {
			t.Errorf("%s has what it is guaranteed in %v %% of the windows", v.Name(), v.Satisfied)
		}
	}
	names := []string{fill.VMs[0].Name(), fill.VMs[1].Name(), fill.VMs[4].Name(), fill.VMs[5].Name()}
	if !slices.Equal(names, []string{"node1", "node1/vf0", "node1/vf3", "node2"}) {
		t.Errorf("rows %v", names)
	}
	if got := fill.VMs[3]; got.Sent > 60*2e9 {
		t.Errorf("%s sends %v bits in a minute, and its limit is 2 Gbit/s", got.Name(), got.Sent)
	}
}

// Without limits, what is promised inside virtual PFs is still promised, and missed.
func TestNativeLiftsWhatFunctionsHave(t *testing.T) {
	k := compare(t, "virtual-pf.yaml", "native")["native"]
	if vf0, vf2 := k.VMs[1], k.VMs[3]; vf0.Guarantee == 0 || vf0.Satisfied > 1 || vf2.Sent < 60*1.5e9 {
		t.Errorf("%+v, %+v", vf0, vf2)
	}
	if f, g := k.VMs[2], k.VMs[3]; math.Abs(f.Sent-g.Sent) > 0.001*f.Sent { // one flow each
		t.Errorf("%s sends %v, %s sends %v", f.Name(), f.Sent, g.Name(), g.Sent)
	}
}

func TestFunctionsAreChecked(t *testing.T) {
	for text, want := range map[string][]string{
		"vms: [{name: a, guarantee: 2Gbit, load: {send: 1Gbit}, " +
			"functions: [{from: 5s, until: 4s, guarantee: 3Gbit, limit: 1Gbit, load: {shape: duty, pps: 1}}]}]": {
			"vms[0].functions: functions share links", "vms[0].functions: are guaranteed 3Gbit", "functions[0].until: is not after",
			"functions[0].guarantee: is above its limit",
			"vms[0].load: a VM with functions", `needs "on"`,
		},
		"vms: [{name: a, count: 2, functions: [{weight: 2}]}]\ntimeline: [{at: 2s, vms: a2, load: {send: 1Gbit}}]\n" +
			"bandwidth: {allocators: [{name: none}]}": {"timeline[0].vms: a2 sends through functions"},
	} {
		err := parse(t, filepath.Join(t.TempDir(), "x.yaml"), "duration: 10s\npfs: [{name: pf0, vfs: 1}]\n"+text)
		for _, want := range want {
			if !strings.Contains(err, want) {
				t.Errorf("%q is not in:\n%s", want, err)
			}
		}
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
