package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// uses lists the keys that a shape uses besides those that any load may have.
var uses = map[string][]string{
	"on-off":  {"low", "on", "off"},
	"pareto":  {"low", "on", "off", "alpha"},
	"diurnal": {"phase", "stagger", "period", "swing"},
	"flash":   {"low", "stagger", "at", "rise", "hold", "fall"},
	"duty":    {"low", "on", "off", "phase", "stagger"},
	"walk":    {"low", "off"},
}

// used reports whether a load depends on one of its keys.
func (l *Load) used(key string) bool {
	if l.Shape == "trace" {
		return slices.Contains([]string{"shape", "file", "vm", "packet", "copy_mb"}, key)
	}
	shape := func(key string) bool { return slices.Contains(uses[l.Shape], key) }
	cycle := l.Compute > 0 && l.ComputeOn > 0
	switch key {
	case "shape", "send", "spread", "jitter", "packet", "cpu", "compute", "copy_mb":
		return true
	case "pps":
		return l.Send.Bits == 0
	case "low":
		return l.Send.Bits == 0 && shape(key)
	case "send_low":
		return l.Send.Bits > 0 && shape("low")
	case "compute_on", "compute_off", "contention":
		return l.Compute > 0
	case "phase", "stagger":
		return shape(key) || cycle
	}
	return shape(key)
}

// Unused names the keys of loads in the file that have no effect, each with its place and why.
func (s *Scenario) Unused() (out []string) {
	load := func(key string, l *Load) {
		t := reflect.TypeFor[Load]()
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("yaml")
			pos, set := s.pos[key+"."+name]
			if name == "" || !set || l.used(name) {
				continue
			}
			why := "shape " + l.Shape + " does not use it"
			switch {
			case l.Shape == "trace":
			case strings.HasPrefix(name, "compute") || name == "contention":
				why = "compute is not set"
			case (name == "pps" || name == "low") && l.Send.Bits > 0:
				why = "send is set"
			}
			out = append(out, fmt.Sprintf("%s: %s.%s has no effect: %s; leave it out", pos, key, name, why))
		}
	}
	for i := range s.VMs {
		g := &s.VMs[i]
		load(keyOf("vms", i)+".load", &g.Load)
		for k := range g.Functions {
			load(keyOf(keyOf("vms", i)+".functions", k)+".load", &g.Functions[k].Load)
		}
	}
	for i := range s.Timeline {
		load(keyOf("timeline", i)+".load", &s.Timeline[i].Load)
	}
	return out
}
