package bandwidth

import (
	"math"
	"testing"
	"time"
)

// TestSteady: what guaranteed senders send is constant if nobody changes it but those who lack what they are known to want, and only if
// there is such a sender.
func TestSteady(t *testing.T) {
	lacking := tracked{mean: 40, slow: 50, last: 38, prev: 42, lack: lack{want: 50, ticks: 2}}
	constant := tracked{mean: 10, slow: 10, last: 10, prev: 10}
	for _, c := range []struct {
		name   string
		edit   func(lacking, other *tracked)
		steady bool
	}{
		{"one falls", func(*tracked, *tracked) {}, true},
		{"another falls too", func(_, o *tracked) { o.last = 9 }, false},
		{"another has just come", func(_, o *tracked) { o.slow = 5 }, false},
		{"another has just gone", func(_, o *tracked) { o.slow = 15 }, false},
		{"it lacks nothing that it is known to want", func(l, _ *tracked) { l.lack.want = 40 }, false},
		{"it has lacked it for a period only", func(l, _ *tracked) { l.lack.ticks = 1 }, false},
	} {
		r := &resource{
			tracked: []tracked{lacking, constant},
			usages:  []usage{{guarantee: 50, known: true, sent: 38}, {guarantee: 10, known: true, sent: 10}},
			force:   []float64{60, 60}, promised: []float64{50, 10},
		}
		if c.edit(&r.tracked[0], &r.tracked[1]); r.steady(2) != c.steady {
			t.Errorf("%s: steady is %v, want %v", c.name, !c.steady, c.steady)
		}
	}
}

// TestProbeLasts: a step up lasts as long as it takes to fill a queue of 20 ms, the smaller the longer.
func TestProbeLasts(t *testing.T) {
	for _, x := range []struct {
		step   float64
		probe  probe
		period time.Duration
		least  time.Duration
	}{
		{.01, raised, 100 * time.Millisecond, 2 * time.Second},
		{.04, raised, 100 * time.Millisecond, 500 * time.Millisecond},
		{.02, raised, 40 * time.Millisecond, time.Second},
		{.01, measuring, 100 * time.Millisecond, 200 * time.Millisecond},
	} {
		c := capacity{hat: 10, probe: x.probe, step: x.step}
		if n, _ := c.enough(0, 2, x.period); time.Duration(n)*x.period != x.least {
			t.Errorf("a step of %v at %s: judged after %d periods, want %s", x.step, x.period, n, x.least)
		}
	}
}

// TestPeak: a link is known to carry what it has carried lately, unless it carries that now but for noise.
func TestPeak(t *testing.T) {
	var c capacity
	now := time.Unix(1e9, 0)
	c.begin(100)
	for range 2 {
		c.note(now, volume{bits: 95, free: 40}, 2)
	}
	for _, x := range []struct {
		after               time.Duration
		volume, noise, want float64
	}{
		{time.Second, 80, 0, 95},
		{29 * time.Second, 80, 0, 95},
		{30 * time.Second, 80, 0, 80},
		{time.Second, 94.5, 0, 94.5},
		{time.Second, 80, 10, 80},
	} {
		if got := c.carries(now.Add(x.after), x.volume, x.noise); got != x.want {
			t.Errorf("%s after 95 it carries %v with a noise of %v: taken for %v, want %v", x.after, x.volume, x.noise, got, x.want)
		}
	}
	if c.peakFree != 40 {
		t.Errorf("of the most, those without a guarantee sent %v, want 40", c.peakFree)
	}
	if c.begin(50); c.carries(now, 40, 0) != 40 {
		t.Error("what it carried at another speed still counts")
	}
}

// TestCarefulRooms: after others used their rooms to hold guaranteed senders down, the rooms of those without a guarantee are small, and
// those of guaranteed senders are what they always are: one that sends all of its guarantee would seem to grow by its noise.
func TestCarefulRooms(t *testing.T) {
	h := newHost(40 * unit)
	h.add(8, 8, 1, nil)
	for range 4 {
		h.add(0, 7.3, 1, nil)
	}
	h.ticks(50)
	usual := append([]float64(nil), h.w.bits.room...)
	h.w.bits.careful = h.now.Add(time.Second)
	h.tick()
	sum := 0.0
	for i, room := range h.w.bits.room {
		if i == 0 && math.Abs(room-usual[0]) > .01*unit {
			t.Errorf("the guaranteed sender has room of %.2f, usually %.2f", room/unit, usual[0]/unit)
		} else if i > 0 {
			sum += room
		}
	}
	if most := roomCareful * h.link.Speed; sum > 1.001*most || sum < .9*most {
		t.Errorf("the others have room of %.2f together, want %.2f (usually %.2f each)", sum/unit, most/unit, usual[1]/unit)
	}
}
