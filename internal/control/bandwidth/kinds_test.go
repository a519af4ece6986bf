package bandwidth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

// The table of kinds in the documentation, with what each goes by.
func TestReferenceListsEveryAllocator(t *testing.T) {
	var b strings.Builder
	b.WriteString("| `bandwidth.allocator` | what it does | goes by | divides | period |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range published() {
		k := kinds[name]
		var by []string
		for _, x := range []struct {
			is   bool
			what string
		}{
			{k.Bits, "guaranteed bits/s"},
			{k.Packets, "guaranteed packets/s"},
			{k.Weights, "weights"},
			{k.Minimums, "`classes[].minimum`"},
		} {
			if x.is {
				by = append(by, x.what)
			}
		}
		divides := "where asked to"
		if k.Always {
			divides = "every link"
		}
		if by == nil && !k.Always {
			divides = "nothing"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, k.Doc, strings.Join(by, ", "), divides, k.Period)
	}
	golden.Section(t, "../../../docs/sla.md", "allocators", b.String())
}

// published lists the allocators that are not of tests.
func published() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return kinds[name].Doc == "" })
}

// Each allocator goes by what its kind says, and by nothing else: senders that want all they can get are divided differently if that
// changes.
func TestKindsSayWhatCounts(t *testing.T) {
	plain := func([]Sender) {}
	first := func(edit func(*model.SLA)) func([]Sender) {
		return func(s []Sender) { edit(&s[0].SLA) }
	}
	lacking := func(s []Sender) { s[0].SLA.Guarantee.Bits, s[0].SLA.Priority = 20*unit, 1 }
	for _, name := range published() {
		k := kinds[name]
		for _, x := range []struct {
			what          string
			counts        bool
			before, after func([]Sender)
		}{
			{"a guarantee in bits/s", k.Bits, plain, first(func(s *model.SLA) { s.Guarantee.Bits = 20 * unit })},
			{"a guarantee in packets/s", k.Packets, plain, first(func(s *model.SLA) { s.Guarantee.Packets = 2e6 })},
			{"weights", k.Weights, plain, func(s []Sender) { s[0].SLA.Weight, s[1].SLA.Weight = 5, 2 }},
			{"the minimum of a class", k.Minimums, lacking, func(s []Sender) {
				lacking(s)
				s[1].SLA.ClassMin, s[2].SLA.ClassMin = 3*unit, 3*unit
			}},
		} {
			if changes := settled(t, name, x.before) != settled(t, name, x.after); changes != x.counts {
				t.Errorf("%s: %s changes what is allowed: %v, want %v", name, x.what, changes, x.counts)
			}
		}
		limits := settled(t, name, plain) != settled(t, "none", plain)
		if limits != k.Always {
			t.Errorf("%s: limits somebody although nothing is asked for: %v, want %v", name, limits, k.Always)
		}
	}
}

// settled is what three VMs that share a full link in proportion to what they may send, the first with one flow and the others with
// several, may send after ten seconds, below the link.
func settled(t *testing.T, name string, ask func([]Sender)) string {
	a := maker(t, name)
	senders := []Sender{sender(0, 0, 0), sender(1, 0, 0), sender(2, 0, 0)}
	ask(senders)
	on := link()
	on.Packets = 3e6
	out := []Allowance{Unlimited, Unlimited, Unlimited}
	for i := range 50 {
		sum := 0.0
		for k := range senders {
			senders[k].Bits = min(out[k].Bits, on.Speed) * float64(1+4*k)
			sum += senders[k].Bits
		}
		for k := range senders {
			s := &senders[k]
			s.Bits = min(out[k].Bits, s.Bits*on.Speed/sum)
			s.Packets = s.Bits / fullFrame
		}
		a.Allocate(time.Time{}.Add(time.Duration(i)*on.Period), on, senders, out)
	}
	for k := range out {
		out[k].Bits = min(out[k].Bits, on.Speed)
	}
	return fmt.Sprint(out)
}
