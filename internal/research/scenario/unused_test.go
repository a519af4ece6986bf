package scenario

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
)

// A key of a load has an effect exactly if it counts as used: with another value, the load is another.
func TestUsedKeysAreThoseWithAnEffect(t *testing.T) {
	base := func(shape string) Load {
		return Load{
			Shape: shape, PPS: 1000, Low: 100, Spread: 0.3, Jitter: 0.2, Packet: 600, CPU: 1, On: 7 * time.Second, Off: 5 * time.Second, Alpha: 2,
			Phase: 2 * time.Second, Stagger: time.Second, Period: time.Minute, Swing: 0.5, At: 10 * time.Second, Rise: 2 * time.Second,
			Hold: 5 * time.Second, Fall: 4 * time.Second,
		}
	}
	withCompute := func(l Load) Load {
		l.Compute, l.ComputeOn, l.ComputeOff, l.Contention = 2, 3*time.Second, 4*time.Second, 0.5
		return l
	}
	withSend := func(l Load) Load {
		l.Send, l.SendLow = config.Rate{Bits: 9e6}, config.Rate{Bits: 1e6}
		return l
	}
	played := func(l Load) (out []float64) {
		l.fill()
		p := l.part(1, time.Unix(0, 0), 7)
		v := &vmLoad{start: time.Unix(0, 0), parts: []part{p}}
		for i := range 400 {
			pps, bytes, cpus := v.after(time.Duration(i) * 300 * time.Millisecond)
			out = append(out, pps, bytes, cpus)
		}
		return append(out, p.copy)
	}
	for shape := range needs {
		if shape == "trace" {
			continue // needs a file
		}
		for name, l := range map[string]Load{
			"": base(shape), "with compute": withCompute(base(shape)), "with send": withSend(base(shape)),
		} {
			before := played(l)
			t.Run(strings.TrimSpace(shape+" "+name), func(t *testing.T) {
				ty := reflect.TypeFor[Load]()
				for i := range ty.NumField() {
					key, other := ty.Field(i).Tag.Get("yaml"), l
					f := reflect.ValueOf(&other).Elem().Field(i)
					switch {
					case slices.Contains([]string{"", "shape", "file", "vm", "send"}, key):
						continue
					case key == "compute" && name == "":
						f.SetFloat(1)
					case f.Kind() == reflect.Float64:
						f.SetFloat(f.Float()*0.8 + 0.01)
					case f.Type() == reflect.TypeFor[time.Duration]():
						f.SetInt(f.Int()*8/10 + int64(time.Second)/3)
					default:
						f.Set(reflect.ValueOf(config.Rate{Bits: 2e6}))
					}
					if changed := !slices.Equal(before, played(other)); changed != l.used(key) {
						t.Errorf("%s: used %t, but the load changes: %t", key, l.used(key), changed)
					}
				}
			})
		}
	}
}

func TestUnused(t *testing.T) {
	s, err := Parse(config.Document{Name: "a.yaml", Data: []byte(`
duration: 1m
pfs: [{name: pf0, vfs: 2}]
policies: [{name: adaptive}]
vms:
  - {name: a, load: {shape: duty, pps: 10, on: 1s, off: 1s, swing: 0.5}}
  - {name: b, load: {send: 1Mbit, pps: 3, contention: 0.1}}
timeline:
  - {at: 10s, vms: a, load: {pps: 1, low: 2}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a.yaml:6:61: vms[0].load.swing has no effect: shape duty does not use it; leave it out",
		"a.yaml:7:35: vms[1].load.pps has no effect: send is set; leave it out",
		"a.yaml:7:43: vms[1].load.contention has no effect: compute is not set; leave it out",
		"a.yaml:9:38: timeline[0].load.low has no effect: shape constant does not use it; leave it out",
	}
	if got := s.Unused(); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The scenarios that the package installs say nothing that has no effect.
func TestScenariosUseAllTheySay(t *testing.T) {
	files, err := filepath.Glob("../../../scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		s, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range s.Unused() {
			t.Error(text)
		}
	}
}
