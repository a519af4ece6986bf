package bandwidth

import (
	"fmt"
	"math"
	"testing"
	"time"

	"sluice/internal/model"
)

const unit = 1e9 // of a link of 40 Gbit/s, that of DAQS's paper

func link() Link { return Link{Speed: 40 * unit, Packets: math.Inf(1), Period: 200 * time.Millisecond} }

// sender returns a VM's only NIC, with its guarantee and rate in units.
func sender(n int, guarantee, sends float64) Sender {
	s := Sender{ID: model.NICID{VM: model.VMID(fmt.Sprintf("vm%04d", n)), NIC: "net0"}, Age: n, Bits: sends * unit, Known: true}
	s.SLA.Guarantee.Bits = uint64(guarantee * unit)
	return s
}

// run allocates once, from the allowances in force in units, and returns the new ones in units.
func run(t *testing.T, a Allocator, senders []Sender, force ...float64) []float64 {
	t.Helper()
	out := make([]Allowance, len(senders))
	for i := range out {
		out[i] = Unlimited
		if force != nil {
			out[i].Bits = force[i] * unit
		}
	}
	a.Allocate(time.Time{}, link(), senders, out)
	var got []float64
	for i := range out {
		got = append(got, math.Round(out[i].Bits/unit*1e6)/1e6)
	}
	return got
}

func same(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: allowed %v, want %v", what, got, want)
	}
}

func maker(t *testing.T, name string) Allocator {
	t.Helper()
	a, err := NewAllocator(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var inf = math.Inf(1)

func TestEqual(t *testing.T) {
	e := maker(t, "equal")
	same(t, "one VM", run(t, e, []Sender{sender(0, 0, 9)}), inf)
	same(t, "three VMs", run(t, e, []Sender{sender(0, 0, 9), sender(1, 20, 0), sender(2, 0, 0)}), 13, 13, 13)
	two := []Sender{sender(0, 0, 9), sender(0, 0, 9), sender(1, 0, 0)}
	two[1].ID.NIC = "net1"
	same(t, "a VM with two NICs", run(t, e, two), 10, 10, 20)
	limited := []Sender{sender(0, 0, 0), sender(1, 0, 0)}
	limited[0].SLA.Limit.Bits = 5 * unit
	same(t, "an SLA's limit", run(t, e, limited), 5, 20)
}

func TestWeighted(t *testing.T) {
	w := maker(t, "weighted")
	s := []Sender{sender(0, 0, 0), sender(1, 0, 0), sender(2, 0, 0)}
	s[0].SLA.Weight, s[1].SLA.Weight = 5, 2
	same(t, "weights 5, 2 and 1", run(t, w, s), 25, 10, 5)
	same(t, "one VM", run(t, w, s[:1]), inf)
}

// TestDAQS follows the law for a guarantee of 10 units: readings are in Gibit, settings in 1024 Mbit.
func TestDAQS(t *testing.T) {
	gib := func(x float64) float64 { return x * daqsGibi }
	d := maker(t, "daqs").(*daqs)
	at := func(guaranteed float64, others ...float64) []float64 {
		s := []Sender{sender(0, 10, gib(guaranteed))}
		for i, o := range others {
			s = append(s, sender(i+1, 0, gib(o)))
		}
		return run(t, d, s)
	}
	limit := func(what string, want float64) {
		t.Helper()
		if math.Abs(d.limit-want) > 1e-9 {
			t.Errorf("%s: r = %v, want %v", what, d.limit, want)
		}
	}
	same(t, "idle", at(0.9, 30, 5), inf, inf, inf)
	limit("idle", -1)
	same(t, "below its guarantee", at(5, 30, 5, 0.5), inf, 20.48, 20.48, inf)
	limit("first limit", 40)
	at(5, 28.52)
	limit("full", 39.7)
	at(5, 30.863)
	limit("full still", 39.4)
	at(9, 25) // 34 + 0.3 is above 33.512 and below 36.164
	limit("full again", 39.1)
	at(9, 24) // 33 < 33.512, 33.3 < 36.164
	limit("room", 39.4)
	at(12, 20) // not above 1.45 x 10 + 1.15
	limit("kept", 39.4)
	at(16, 20)
	limit("over", 39.7)
	at(16, 0.5)
	limit("over, and the others idle", 39.7)
	d.limit = 1.1
	at(5, 30)
	limit("never below one unit", 1)
	same(t, "r at its least", at(5, 30, 5), inf, 0.512, 0.512)
	at(0.5, 30)
	limit("idle again", -1)
	same(t, "over at once", at(16, 20), inf, inf)
	limit("over at once", -0.7)
	s := []Sender{sender(0, 10, gib(5)), sender(1, 0, gib(0.9)), sender(2, 0, gib(30))}
	d.limit = 30
	same(t, "a slow NIC keeps its limit", run(t, d, s, 40, 7, 9), inf, 7, 30.4128)
}

func TestDBAVM(t *testing.T) {
	d := maker(t, "dbavm")
	class := func(s Sender, priority int, least, limit float64) Sender {
		s.SLA.Priority, s.SLA.ClassMin, s.SLA.Limit.Bits = priority, uint64(least*unit), uint64(limit*unit)
		return s
	}
	least := 40 * 0.001
	same(t, "above its maximum: cut, and the surplus goes to the first that may have more",
		run(t, d, []Sender{class(sender(0, 0, 25), 0, 0, 20), sender(1, 0, 15)}, 40, 15), 20, 20)
	same(t, "between: nothing changes", run(t, d, []Sender{sender(0, 10, 20), sender(1, 10, 20)}, 20, 20), 20, 20)
	same(t, "the pool holds the deficit: granted, and the rest goes to the first",
		run(t, d, []Sender{sender(0, 10, 4), sender(1, 5, 20)}, 4, 20), 20, 20)
	same(t, "lowest class: peers go to their own minimum",
		run(t, d, []Sender{sender(0, 10, 5), sender(1, 8, 20), sender(2, 0, 15)}, 5, 20, 15), 10, 8, least)
	same(t, "lower classes go to their class's minimum, peers stay",
		run(t, d, []Sender{
			class(sender(0, 10, 5), 2, 0, 0), class(sender(1, 8, 10), 2, 0, 0), class(sender(2, 3, 10), 1, 2, 0),
			class(sender(3, 0, 15), 0, 1, 0),
		}, 5, 10, 10, 15), 10, 10, 2, 1)
	same(t, "an idle interface counts as below its minimum",
		run(t, d, []Sender{sender(0, 10, 0), sender(1, 0, 39)}, 40, 40), 40, least+1)
}
