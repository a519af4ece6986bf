package scenario

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

// The reference lists every key that the loader accepts, with its range and default.
func TestReferenceListsEveryKey(t *testing.T) {
	want := "| key | default | value | meaning |\n| --- | --- | --- | --- |\n" + keyTable(reflect.ValueOf(*example()), "")
	golden.Section(t, "../../../docs/sim.md", "keys", want)
}

// example has one entry in each list, with the defaults that reading fills in.
func example() *Scenario {
	s := defaults()
	s.PFs, s.VMs, s.Timeline, s.Policies = make([]PF, 1), make([]Group, 1), make([]Change, 1), make([]Policy, 1)
	s.Bandwidth.Allocators, s.Bandwidth.Capacity, s.Bandwidth.Classes = make([]Allocator, 1), make([]Capacity, 1), make([]Class, 1)
	s.VMs[0].Functions = make([]Function, 1)
	s.Links, s.Faults, s.Telemetry.Blackouts = make([]Link, 1), make([]Fault, 1), make([]Blackout, 1)
	s.fill()
	return s
}

func keyTable(v reflect.Value, path string) string {
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		x := v.Field(i)
		list := x.Kind() == reflect.Slice
		section := x.Kind() == reflect.Struct
		name := path + key
		if list {
			name += "[]"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, defaultOf(x, f), valuesOf(f), f.Tag.Get("doc"))
		switch {
		case name == "timeline[].load", name == "vms[].functions[].load": // as vms[].load
		case list:
			b.WriteString(keyTable(x.Index(0), name+"."))
		case section:
			b.WriteString(keyTable(x, name+"."))
		}
	}
	return b.String()
}

func defaultOf(v reflect.Value, f reflect.StructField) string {
	switch {
	case f.Tag.Get("need") != "":
		return "needed"
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Struct, v.Kind() == reflect.Map, v.IsZero(), f.Tag.Get("yaml") == "label":
		return ""
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

func valuesOf(f reflect.StructField) string {
	if e := f.Tag.Get("enum"); e != "" {
		return "`" + strings.Join(strings.Split(e, "|"), "`, `") + "`"
	}
	if low := f.Tag.Get("min"); low != "" {
		return low + " to " + f.Tag.Get("max")
	}
	switch f.Type {
	case reflect.TypeFor[time.Duration]():
		return "time"
	case reflect.TypeFor[string]():
		return "text"
	case reflect.TypeFor[model.Rate]():
		return "rate"
	case reflect.TypeFor[bool]():
		return "`true`, `false`"
	case reflect.TypeFor[model.Params]():
		return "a number each"
	}
	switch f.Type.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Struct:
		return "keys"
	}
	return "number"
}

func TestEveryKeyIsExplained(t *testing.T) {
	explained(t, reflect.TypeFor[Scenario]())
	f, _ := reflect.TypeFor[Load]().FieldByName("Shape")
	for _, shape := range strings.Split(f.Tag.Get("enum"), "|") {
		if len(needs[shape]) == 0 {
			t.Errorf("nothing says what shape %s needs", shape)
		}
	}
}

// explained checks that each key of a section, and of the sections in it, has a text.
func explained(t *testing.T, section reflect.Type) {
	t.Helper()
	for i := range section.NumField() {
		f := section.Field(i)
		if f.Tag.Get("yaml") == "" {
			continue
		}
		if f.Tag.Get("doc") == "" {
			t.Errorf("%s.%s has no doc", section.Name(), f.Name)
		}
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			explained(t, inner)
		}
	}
}
