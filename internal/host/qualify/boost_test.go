package qualify

import (
	"math"
	"testing"
	"time"

	"sluice/api/v1"
)

// FlexVF's figure 5 from round trips, and the line through it: what was full is shown but not fitted, what one path lacks is left out.
func TestBoost(t *testing.T) {
	at := func(vf bool, payload int, offered, carried float64, us ...int) Loaded {
		l := Loaded{VF: vf, Payload: payload, Offered: offered, Carried: carried}
		for _, x := range us {
			l.Trips = append(l.Trips, time.Duration(x)*time.Microsecond)
		}
		return l
	}
	q := Judge(&Measured{Scratch: &Scratch{Under: []Loaded{
		at(false, 1472, 0, 0, 100),
		at(false, 16, 0, 0, 90, 100, 110), at(false, 16, 20e3, 19e3, 100), at(false, 16, 40e3, 30e3, 900), at(false, 16, 80e3, 80e3),
		at(true, 16, 0, 0, 90), at(true, 16, 20e3, 20e3, 80), at(true, 16, 40e3, 40e3, 90), at(true, 16, 80e3, 80e3, 90),
		at(true, 1472, 0, 0, 90), at(true, 64, 0, 0, 90),
	}}})
	want := []api.BoostAtRate{
		{Payload: 16, Boost: 10},
		{Payload: 16, Background: 20e3, Boost: 20},
		{Payload: 16, Background: 40e3, Boost: 90, Full: true},
		{Payload: 1472, Boost: 10},
	}
	if len(q.Boosts) != len(want) {
		t.Fatalf("%+v", q.Boosts)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	for i, w := range want {
		if b := q.Boosts[i]; b.Payload != w.Payload || b.Background != w.Background || b.Full != w.Full || !near(b.Boost, w.Boost) {
			t.Errorf("%+v, want %+v", b, w)
		}
	}
	if b := q.Boosts[1]; b.Virtio.Carried != 19e3 || b.VF.Carried != 20e3 || !near(b.Virtio.Median, 100e-6) || !near(b.VF.Median, 80e-6) {
		t.Errorf("%+v", b)
	}
	// Two points at rest of 10 %, one at 20,000 packets/s of 20 %.
	if l := q.Boost; l == nil || !near(l.AtRest, 10) || !near(l.PerKpps, 0.5) || !near(l.Most, 20) || !near(l.VF, 45e-6) {
		t.Errorf("the line %+v", l)
	}
	q = Judge(&Measured{Scratch: &Scratch{Under: []Loaded{at(false, 16, 0, 0, 100), at(true, 16, 0, 0, 90)}}})
	if len(q.Boosts) != 1 || q.Boost != nil {
		t.Errorf("a line %+v through one rate", q.Boost)
	}
}

// What could not be measured is said.
func TestBoostFailed(t *testing.T) {
	q := Judge(&Measured{Scratch: &Scratch{Under: []Loaded{{VF: true, Payload: 16, Offered: 1000, Error: "no route"}}}})
	if len(q.Failed) != 1 || q.Failed[0] != "VF, 16 bytes beside 1000 packets/s: no route" {
		t.Errorf("%q", q.Failed)
	}
}
