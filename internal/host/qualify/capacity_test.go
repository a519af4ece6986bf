package qualify

import (
	"math"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
)

// carried is a round in which that many bits/s crossed the wire, nobody else sent and no CPU was busy.
func carried(flows int, bits float64) Round {
	const segment, headers = 1448, 66
	frames := bits / 8 / (segment + headers + 24)
	return Round{
		Flows: flows, Took: time.Second, Acked: uint64(frames * segment), Segment: segment, Headers: headers,
		Sent: uint64(frames * (segment + headers)), Busiest: 0.5,
	}
}

// A full frame of TCP with timestamps is 1448 bytes of payload and takes 1538 bytes of a link's time.
func TestBits(t *testing.T) {
	r := Round{Took: 2 * time.Second, Acked: 2 * 1448 * 1000, Segment: 1448, Headers: 66}
	if got, want := r.Bits(), 8.0*1538*1000; math.Abs(got-want) > 1 {
		t.Errorf("%v bits/s, want %v", got, want)
	}
	if got := (&Round{Took: time.Second, Acked: 1}).Bits(); got != 0 {
		t.Errorf("%v bits/s without a segment", got)
	}
}

// Only what does not depend on the number of connections, others or a busy CPU is what the link carries.
func TestCapacity(t *testing.T) {
	with := func(r Round, change func(*Round)) Round {
		change(&r)
		return r
	}
	for _, c := range []struct {
		name     string
		rounds   []Round
		want     string
		bits     float64
		evidence string
	}{
		{"level", []Round{carried(2, 9.3e9), carried(4, 9.4e9)}, "yes", 9.4e9, "9.3Gbit with 2 connections, 9.4Gbit with 4 connections"},
		{"level in the end", []Round{carried(2, 5e9), carried(4, 9.4e9), carried(8, 9.35e9)}, "yes", 9.4e9, "9.35Gbit with 8 connections"},
		{"rising", []Round{carried(2, 5e9), carried(4, 6e9), carried(8, 7e9), carried(16, 8e9)}, "unknown", 8e9, "changes with their number"},
		{"falling", []Round{carried(8, 9e9), carried(16, 8e9)}, "unknown", 9e9, "changes with their number"},
		{"one round", []Round{carried(2, 9e9)}, "unknown", 9e9, "changes with their number"},
		{"nothing", []Round{carried(2, 0), carried(4, 0)}, "unknown", 0, "changes with their number"},
		{
			"others send",
			[]Round{carried(2, 7e9), with(carried(4, 7e9), func(r *Round) { r.Sent = r.Sent * 10 / 7 })},
			"unknown", 7e9,
			"others sent 30% of what left the PF",
		},
		{
			"sent again", []Round{carried(2, 7e9), with(carried(4, 7e9), func(r *Round) { r.Sent, r.Resent = r.Sent*10/9, r.Acked/9 })}, "yes", 7e9, "",
		},
		{"segments counted as one", []Round{carried(2, 7e9), with(carried(4, 7e9), func(r *Round) { r.Sent = r.Sent * 9 / 10 })}, "yes", 7e9, ""},
		{"busy", []Round{carried(2, 7e9), with(carried(4, 7e9), func(r *Round) { r.Busiest = 0.99 })}, "unknown", 7e9, "CPU"},
	} {
		q := Judge(&Measured{Peers: []Peer{{Address: "192.0.2.7:9179", VLAN: 20, Rounds: c.rounds}}})
		got := q.Capacity[0]
		if got.Measured != c.want || math.Abs(got.Bits-c.bits) > 1e4 || !strings.Contains(got.Evidence, c.evidence) || got.VLAN != 20 ||
			got.Peer != "192.0.2.7:9179" {
			t.Errorf("%s: %+v, want %s, %v, %q", c.name, got, c.want, c.bits, c.evidence)
		}
	}
	q := Judge(&Measured{Peers: []Peer{{Address: "192.0.2.7:9179", Error: "refused", Rounds: []Round{carried(2, 1e9)}}}})
	if len(q.Capacity) != 0 || len(q.Failed) != 1 || q.Failed[0] != "what the link carries to 192.0.2.7:9179: refused" {
		t.Errorf("a failed measurement: %+v, %q", q.Capacity, q.Failed)
	}
}

// A measured capacity is never above the speed of the link.
func TestCapacityIsBoundedBySpeed(t *testing.T) {
	f := FactsOf(&api.Qualification{
		Hardware: api.QualifiedHardware{Speed: 10e9}, Capacity: []api.LinkCapacity{{Bits: 10.003e9, Measured: "yes"}},
	})
	if f.Capacity != 10e9 {
		t.Errorf("%d", f.Capacity)
	}
}
