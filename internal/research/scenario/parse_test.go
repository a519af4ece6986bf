package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
)

func TestComplaintsNamePlaceAndRemedy(t *testing.T) {
	const rest = "\nduration: 1h\npfs: [{name: pf0, vfs: 2}]\n"
	for text, want := range map[string]string{
		"":                               `s.yaml: duration: is missing; say how long`,
		"durations: 1h":                  `s.yaml:1:1: unknown key "durations"; did you mean "duration"?`,
		"duration: 60":                   `s.yaml:1:11: duration: "60" has no unit; write 60s`,
		"duration: 1h":                   "s.yaml: pfs: there is no PF; list at least one",
		"vms: []" + rest:                 "vms: there are no VMs",
		"vms: [{load: {pps: 1}}]" + rest: `s.yaml:1:7: vms[0]: has no "name"`,
		"vms: [{name: a, load: {pps: -1}}]" + rest: "s.yaml:1:29: vms[0].load.pps: \"-1\" is out of range; write a value from 0 to 1e9",
		"vms: [{name: a, load: {shape: sine, pps: 1}}]" +
			rest: `s.yaml:1:31: vms[0].load.shape: "sine" is not one of constant, on-off`,
		"vms: [{name: a, load: {shape: duty, pps: 1, on: 1s}}]" + rest: `s.yaml:1:24: vms[0].load.shape: shape duty needs "off"`,
		"vms: [{name: a, load: {shape: trace, file: none.csv}}]" +
			rest: "none.csv: open: no such file or directory; check the path",
		"vms: [{name: a1}, {name: a, count: 3}]" + rest:                           `VM "a1" is also in vms[0]`,
		"vms: [{name: a, from: 2m, until: 1m}]" + rest:                            "vms[0].until: is not after from",
		"vms: [{name: a, pin: true, forbid: true}]" + rest:                        "vms[0].forbid: pin is also set",
		"vms: [{name: a}]\ntimeline: [{at: 1m, vms: b}]" + rest:                   `s.yaml:2:21: timeline[0].vms: "b" matches no VM`,
		"vms: [{name: a}]\ntimeline: [{at: 2h, vms: a}]" + rest:                   "timeline[0].at: is after the end",
		"vms: [{name: a}]\ntimeline: [{at: 2m, vms: a}, {at: 1m, vms: a}]" + rest: "timeline[1].at: is before the change above",
		"vms: [{name: a}]\npolicies: [{name: activty}]" +
			rest: `s.yaml:2:13: policies[0].name: unknown policy "activty"; did you mean "activity"?`,
		"vms: [{name: a}]\npolicies: [{name: random, params: {sed: 1}}]" +
			rest: `policies[0].params.sed: policy random has no such parameter; did you mean "seed"?`,
		"vms: [{name: a}]\npolicies: [{name: fair}, {name: fair}]" + rest:              `two policies are called "fair"`,
		"vms: [{name: a}]\nlinks: [{pf: x, at: 1m, for: 1s}]" + rest:                   `links[0].pf: there is no PF "x"`,
		"vms: [{name: a}]\ntelemetry: {blackouts: [{at: 1m, for: 1s, vms: z}]}" + rest: `"z" matches no VM`,
		"vms: [{name: a, count: 99999}, {name: b, count: 9999}]" + rest:                "more than 100000 VMs on one host",
		"vms: [{name: a}\n": "s.yaml:",
	} {
		_, err := Parse(config.Document{Name: "s.yaml", Data: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestShapes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "t.csv"), []byte("time_s,vm,pps\n0,x,7\n60,x,8\n0,y,1\n60,y,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Parse(config.Document{Name: filepath.Join(dir, "s.yaml"), Data: []byte(`
duration: 1h
pfs: [{name: pf0, vfs: 1}]
vms:
  - {name: flat, load: {pps: 10, packet: 100, cpu: 0.5}}
  - {name: duty, load: {shape: duty, pps: 10, low: 2, on: 10s, off: 20s, phase: 5s}}
  - {name: day, load: {shape: diurnal, pps: 10, swing: 0.5, period: 1h, phase: 0.5h}}
  - {name: crowd, load: {shape: flash, pps: 100, low: 1, at: 1m, rise: 10s, hold: 20s, fall: 1s}}
  - {name: tr, count: 2, load: {shape: trace, file: t.csv}}
  - {name: one, load: {shape: trace, file: t.csv, vm: y}}
  - {name: mixed, load: {pps: 100, cpu: 0.1, compute: 0.8, compute_on: 5s, compute_off: 5s, contention: 0.1}}
  - {name: two, count: 2, load: {shape: duty, pps: 4, on: 10s, off: 10s, stagger: 10s}}
timeline:
  - {at: 30m, vms: flat, load: {pps: 99}}
  - {at: 40m, vms: "tw*", load: {pps: 5}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	loads := map[string]*vmLoad{}
	for _, m := range s.members() {
		loads[m.name] = s.newLoad(m.group, m.n, epoch, 1)
	}
	for _, c := range []struct {
		vm       string
		at       time.Duration
		pps, cpu float64
	}{
		{"flat", 0, 10, 0.5},
		{"flat", 29 * time.Minute, 10, 0.5},
		{"flat", 30 * time.Minute, 99, 0},
		{"duty", 0, 10, 0},
		{"duty", 5 * time.Second, 2, 0},
		{"duty", 25 * time.Second, 10, 0},
		{"day", 0, 5, 0},
		{"day", 30 * time.Minute, 15, 0},
		{"crowd", 59 * time.Second, 1, 0},
		{"crowd", 65 * time.Second, 50.5, 0},
		{"crowd", 80 * time.Second, 100, 0},
		{"tr1", 0, 7, 0},
		{"tr1", 61 * time.Second, 8, 0},
		{"tr2", 0, 1, 0},
		{"one", 61 * time.Second, 2, 0},
		{"one", 3 * time.Minute, 0, 0},
		{"mixed", 0, 90, 0.9},
		{"mixed", 6 * time.Second, 100, 0.1},
		{"two1", 0, 4, 0},
		{"two2", 0, 0, 0},
		{"two2", 10 * time.Second, 4, 0},
		{"two2", 41 * time.Minute, 5, 0},
	} {
		pps, _, cpu := loads[c.vm].At(epoch.Add(c.at))
		if diff := pps - c.pps; diff > 1e-9 || diff < -1e-9 || cpu < c.cpu-1e-9 || cpu > c.cpu+1e-9 {
			t.Errorf("%s at %v moves %v with %v CPUs, want %v with %v", c.vm, c.at, pps, cpu, c.pps, c.cpu)
		}
	}
	if _, bytes, _ := loads["flat"].At(epoch); bytes != 1000 {
		t.Errorf("%v bytes/s", bytes)
	}
	if got := s.Phases(); len(got) != 3 || got[2] != time.Hour {
		t.Errorf("phases %v", got)
	}
}

// The path gives no VM more than it wants, is used up to its capacity, and gives no VM less than an equal share unless it wants less.
func TestCarrierSharesMaxMin(t *testing.T) {
	var vms []*carried
	for _, want := range []float64{5, 50, 500, 1000} {
		vms = append(vms, &carried{got: want, size: 100})
	}
	fill(vms, 400, func(*carried) float64 { return 1 })
	for i, want := range []float64{5, 50, 172.5, 172.5} {
		if vms[i].got != want {
			t.Errorf("VM %d gets %v, want %v", i, vms[i].got, want)
		}
	}
}

func TestTimelineOfHost(t *testing.T) {
	s := parse(t, `
duration: 10m
pfs: [{name: pf0, vfs: 2}]
vms:
  - {name: a, until: 5m, load: {pps: 1000}}
  - {name: b, from: 2m, load: {pps: 900}}
  - {name: c, load: {pps: 100}}
  - {name: d, load: {pps: 50}}
policies: [{name: activity, interval: 10s}]
`)
	r := run(t, s)
	var got []string
	for _, d := range r.Policies[0].Decisions {
		got = append(got, map[bool]string{true: "+", false: "-"}[d.Plug]+d.VM)
	}
	if x := strings.Join(got, " "); x != "+a +c -c +b -a +c" {
		t.Errorf("decisions %s", x)
	}
	for _, v := range r.Policies[0].VMs {
		if v.VM == "a" && (v.OnVF < 0.99 || v.Packets != 300*1000) {
			t.Errorf("a was there for half of the time: %+v", v)
		}
	}
}

func TestSeveralNetworksAndHosts(t *testing.T) {
	s := parse(t, strings.Replace(recorded, "duration: 20m", "duration: 5m\nhosts: 3\npolicies: [{name: activity, interval: 20s}]", 1))
	s.Links, s.Telemetry.Blackouts = nil, nil
	r := run(t, s)
	if n := len(r.Policies[0].VMs); n != 3*r.VMs {
		t.Errorf("%d VMs of three hosts with %d each", n, r.VMs)
	}
	if o := r.Policies[0]; o.Gross < 20 || o.Gross > 100.01 {
		t.Errorf("gross %v", o.Gross)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(recorded, "20m", "1m", 1)))
	files, _ := filepath.Glob("../../../scenarios/*.yaml")
	for _, name := range files {
		data, err := os.ReadFile(name) //nolint:gosec // a file of the repository
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(config.Document{Name: "f", Data: data})
		if err == nil && (s.Duration < s.Sample || s.count() == 0) {
			t.Fatal("accepted what cannot run")
		}
	})
}
