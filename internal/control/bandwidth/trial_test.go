package bandwidth

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// squeezed is a full link of 10 on which one flow with a guarantee of 5 competes with ten, two seconds after the link began to carry
// less.
func squeezed(carries float64, edit func(*host)) *host {
	h := newHost(10 * unit)
	h.add(5, 100, 1, nil)
	h.add(0, 100, 5, nil)
	h.add(0, 100, 5, nil)
	if edit != nil {
		edit(h)
	}
	h.ticks(30)
	h.carries = carries * unit
	h.ticks(10)
	return h
}

// TestTrialFindsTheLink: what a guaranteed sender alone lacks is missing from the link, however much it is.
func TestTrialFindsTheLink(t *testing.T) {
	for _, carries := range []float64{8, 7, 6, 5.5} {
		h := squeezed(carries, nil)
		if c := h.w.Capacity() / unit; c < 0.98*carries || c > 1.02*carries {
			t.Errorf("carries %v: taken for %.2f", carries, c)
		}
		if got := h.senders[0].Bits / unit; got < 0.97*5 {
			t.Errorf("carries %v: the guarantee of 5 gets %.2f", carries, got)
		}
	}
}

// TestColdLink: a link that carries less than its speed from the first moment is found too, although the guaranteed sender never had
// what it is promised, whether it wants more than that or less.
func TestColdLink(t *testing.T) {
	for _, period := range []time.Duration{40 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		for _, carries := range []float64{38, 36, 32, 28} {
			for _, wants := range []float64{100, 10, 8} {
				h := newHost(40 * unit)
				h.link.Period = period
				h.carries = carries * unit
				h.add(10, wants, 1, nil)
				for range 5 {
					h.add(0, 100, 1, nil)
				}
				h.ticks(int(2 * time.Second / period))
				sum, ticks := 0.0, int(20*time.Second/period)
				for range ticks {
					h.tick()
					sum += min(h.senders[0].Bits/unit, 10)
				}
				if mean := sum / float64(ticks); mean < 0.97*min(10, wants) {
					t.Errorf("every %v, carries %v: gets %.2f of %v", period, carries, mean, min(10, wants))
				}
			}
		}
	}
}

// TestNoTrialOfTheUncontrolled: there is no trial if senders that cannot be limited are the cause.
func TestNoTrialOfTheUncontrolled(t *testing.T) {
	w := squeezed(7, func(h *host) { h.link.Uncontrolled = true }).w
	if c := w.Capacity() / unit; c != 10 || !w.capacity.trial.from.IsZero() {
		t.Errorf("taken for %.2f, a trial began at %s", c, w.capacity.trial.from)
	}
}

// TestTrialCostsLittle: if the guaranteed sender itself wants less, the link's capacity is what it was, the others get the rest after a
// moment, and later trials become rare.
func TestTrialCostsLittle(t *testing.T) {
	h := squeezed(10, nil)
	h.demand[0] = 2 * unit
	trials, early, sum := 0, 0, 0.0
	const ticks = 500 // 100 s
	for i := range ticks {
		was := h.w.capacity.trial.on
		h.tick()
		if h.w.capacity.trial.on && !was {
			trials++
			if i < 50 {
				early++
			}
		}
		sum += h.senders[1].Bits + h.senders[2].Bits
	}
	if early > 4 || trials > 11 {
		t.Errorf("%d trials in 10 s, %d in 100 s", early, trials)
	}
	if c := h.w.Capacity(); c != h.link.Speed {
		t.Errorf("taken for %.2f of 10", c/unit)
	}
	if mean := sum / ticks / unit; mean < 0.98*handedOut*8 {
		t.Errorf("the others send %.2f of 8 that are left", mean)
	}
}

// TestFirstTrialMayBeDirect: a sender that lacks little is given all of it at once in the first trial, which others pay for. Once that has
// failed, trials begin with the 3 % of the volume that tells whether it wants more.
func TestFirstTrialMayBeDirect(t *testing.T) {
	h := newHost(40 * unit)
	h.add(9, 6, 1, nil)
	h.add(0, 100, 1, nil)
	var first []part
	for range 500 {
		was := h.w.capacity.trial.on
		if h.tick(); h.w.capacity.trial.on && !was {
			first = append(first, h.w.capacity.trial.part)
		}
	}
	if len(first) < 5 || first[0] != granting || slices.Contains(first[1:], granting) {
		t.Errorf("trials begin with %v, want %v and then %v", first, granting, taking)
	}
}

// TestFutileTrialsCostLittle: trials with a guaranteed sender that wants less than it may have cost 0.5 % of a full link at most, though
// all satisfied senders lose their room meanwhile; also with one that sends next to nothing of a guarantee that can be kept in part.
func TestFutileTrialsCostLittle(t *testing.T) {
	for _, overcommitted := range []bool{false, true} {
		h := newHost(40 * unit)
		for _, demand := range []float64{2, 2, 6, 6, 100} {
			h.add(0, demand, 1, nil)
		}
		if overcommitted {
			h.add(5, .1, 1, nil)
			h.add(38, 0, 1, func(s *model.SLA) { s.Priority = 1 })
		} else {
			h.add(12, 6, 1, nil)
		}
		h.ticks(200) // until the time between trials is at its longest
		trials, most, sum := 0, 0.0, 0.0
		const ticks = 500 // 100 s
		for range ticks {
			was := h.w.capacity.trial.on
			if h.tick(); h.w.capacity.trial.on && !was {
				trials++
			}
			volume := 0.0
			for i := range h.senders {
				volume += h.senders[i].Bits
			}
			most, sum = max(most, volume), sum+volume
		}
		if cost := 1 - sum/ticks/most; trials == 0 || cost > 0.005 {
			t.Errorf("over-committed: %v: %d trials cost %.2f %% of the link", overcommitted, trials, 100*cost)
		}
	}
}

// attackers draws a link with honest guaranteed senders that want all they can get, and senders without a guarantee that alternate at
// random between all they can, a part of their own limit, and nothing.
func attackers(t *rapid.T) (h *host, guaranteed int) {
	h = newHost(40 * unit)
	h.link.Period = rapid.SampledFrom([]time.Duration{40, 100, 200}).Draw(t, "period") * time.Millisecond
	guaranteed = rapid.IntRange(1, 2).Draw(t, "guaranteed")
	for range guaranteed {
		h.add(rapid.SampledFrom([]float64{5, 10, 19}).Draw(t, "guarantee"), 100, 1, nil)
	}
	for range rapid.IntRange(2, 5).Draw(t, "attackers") {
		h.add(0, 100, rapid.SampledFrom([]float64{1, 5}).Draw(t, "flows"), nil)
	}
	return h, guaranteed
}

// attack lets each sender without a guarantee send all it can or a part of its own limit.
func (h *host) attack(t *rapid.T, guaranteed int) {
	for i := guaranteed; i < len(h.demand); i++ {
		if rapid.IntRange(0, 3).Draw(t, "change") > 0 {
			continue
		}
		part := rapid.SampledFrom([]float64{0, 0.3, 0.75, 0.85, 0.94, math.Inf(1)}).Draw(t, "part")
		h.demand[i] = min(part*min(h.out[i].Bits, h.link.Speed), h.link.Speed)
		if math.IsInf(part, 1) {
			h.demand[i] = h.link.Speed
		}
	}
}

// TestNobodyTalksALinkSmall: whatever senders without a guarantee do, a link is never taken for less than what it carries, and no
// guaranteed sender that wants it may send less than its guarantee.
func TestNobodyTalksALinkSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, guaranteed := attackers(t)
		h.carries = rapid.SampledFrom([]float64{1, 1, 0.95, 0.8}).Draw(t, "carries") * h.link.Speed
		for range rapid.IntRange(10, 120).Draw(t, "ticks") {
			h.attack(t, guaranteed)
			h.tick()
			if c := h.w.Capacity(); c < 0.985*h.carries {
				t.Fatalf("takes a link that carries %.2f for %.2f", h.carries/unit, c/unit)
			}
			for i := range guaranteed {
				if h.guarantees() > handedOut*h.carries {
					break // they cannot all be kept
				}
				if l := h.out[i].Bits; l < float64(h.senders[i].SLA.Guarantee.Bits) {
					t.Fatalf("%s may send %.2f of its guarantee of %d", h.senders[i].ID, l/unit, h.senders[i].SLA.Guarantee.Bits)
				}
			}
		}
	})
}

// TestOneLiarIsNotBelievedForLong: a guaranteed sender that pretends to be held down can make a link seem smaller; once it stops, and
// others want the link, that is found out: sooner if it leaves, and nobody is left for whom the link was taken for less.
func TestOneLiarIsNotBelievedForLong(t *testing.T) {
	for name, c := range map[string]struct{ then, seconds float64 }{"stays": {8, 10}, "leaves": {0, 1.5}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(40 * unit)
			h.link.Period = 100 * time.Millisecond
			h.add(10, 8, 1, nil)
			h.add(0, 11, 5, nil)
			h.add(0, 11, 5, func(s *model.SLA) { s.Weight = 2 })
			h.tick()
			for i := 0; h.w.Capacity() > 0.8*h.link.Speed; i++ {
				if i > 600 {
					t.Fatalf("the lie is not believed in a minute: taken for %.2f of 40", h.w.Capacity()/unit)
				}
				h.demand[0] = 8 * unit
				if tr := &h.w.capacity.trial; tr.on && (tr.part == taking || tr.granted == tr.volume) { // as one that is held down does
					h.demand[0] = 100 * unit
				}
				h.tick()
			}
			h.demand[0], h.demand[1], h.demand[2] = c.then*unit, 100*unit, 100*unit
			h.ticks(int(10 * c.seconds))
			if now := h.w.Capacity(); now < 0.97*h.link.Speed {
				t.Errorf("taken for %.2f of 40 %.1f seconds after the lie", now/unit, c.seconds)
			}
		})
	}
}

// TestChanceIsAskedTwice: a sender that happens to want more while a trial runs, and keeps that, does not make a link small that has never
// carried more; one that loses it again when the others are back does.
func TestChanceIsAskedTwice(t *testing.T) {
	for name, c := range map[string]struct{ carries, want float64 }{"by chance": {40, 40}, "held down": {23, 23}} {
		h := newHost(40 * unit)
		h.link.Period = 100 * time.Millisecond
		h.carries = c.carries * unit
		h.add(20, 13, 1, nil)
		h.add(0, 10, 5, nil)
		for i := 0; !h.w.capacity.trial.on; i++ {
			if h.tick(); i > 50 {
				t.Fatal("no trial")
			}
		}
		h.demand[0] = 14 * unit
		returned := false
		for i := 0; h.w.capacity.trial.on && i < 30; i++ {
			returned = returned || h.w.capacity.trial.part == returning
			h.tick()
		}
		if !returned || h.w.capacity.trial.on {
			t.Errorf("%s: asked twice %v, still on %v", name, returned, h.w.capacity.trial.on)
		}
		for range 2 {
			if got := h.w.Capacity() / unit; math.Abs(got-c.want) > .5 {
				t.Errorf("%s: taken for %.2f, want %.0f", name, got, c.want)
			}
			h.ticks(100)
		}
	}
}

// TestLiarDoesNotKeepALinkSmall: a guaranteed sender that alternates between all and less than its guarantee gives reason for trials; their
// number does not keep probes from finding that a link carries more than it is taken for.
func TestLiarDoesNotKeepALinkSmall(t *testing.T) {
	const known = 45 // % that are not back in half a minute
	small, all := 0, 0
	for _, up := range []int{1, 2, 3, 5, 8, 13} {
		for _, down := range []int{1, 2, 3, 5, 8, 13} {
			for _, part := range []float64{.5, .7, .8, .9, .96} {
				h := newHost(40 * unit)
				h.link.Period = 100 * time.Millisecond
				h.add(10, 100, 1, nil)
				h.add(0, 100, 5, nil)
				h.ticks(20)
				c := &h.w.capacity
				c.lower(h.now, 30*unit)
				c.peak, c.proven = highest{}, highest{}
				back := false
				for tick := range 300 {
					h.demand[0] = 100 * unit
					if tick%(up+down) >= up {
						h.demand[0] = part * 10 * unit
					}
					h.tick()
					back = back || h.w.Capacity() > 38*unit
				}
				if all++; !back {
					small++
				}
			}
		}
	}
	t.Logf("%d of %d are not back", small, all)
	if small*100 > known*all {
		t.Errorf("%d of %d links are not taken for what they carry in half a minute, known are %d %%", small, all, known)
	}
}

// TestTrialTakesAProbesPlace: a trial begins from the capacity before a probe whose step nobody uses, and none while the link's speed is
// handed out.
func TestTrialTakesAProbesPlace(t *testing.T) {
	c := capacity{speed: 40 * unit, hat: 31 * unit, before: 30 * unit, n: 9, probe: raised}
	if !c.mayTry(3) {
		t.Error("no trial in the place of a step that nobody uses")
	}
	if c.used = 1; c.mayTry(3) {
		t.Error("a trial in the place of a step that is used")
	}
	if c.stop(); c.hat != 30*unit || c.probe != idle {
		t.Errorf("taken for %v after the probe, want 30", c.hat/unit)
	}
	if c.probe = opened; c.mayTry(3) {
		t.Error("a trial while the link's speed is handed out")
	}
}

// TestOpenedLinkIsTakenForWhatItCarried: also if somebody comes to lack something, and never for more than its speed.
func TestOpenedLinkIsTakenForWhatItCarried(t *testing.T) {
	for _, c := range []struct{ carried, want float64 }{{35, 35}, {25, 30}, {39.9, 40}} {
		now := time.Unix(1e9, 0)
		l := capacity{speed: 40 * unit, hat: 30 * unit, shown: 1, wait: second, next: now.Add(time.Hour)}
		l.before = l.hat
		l.turn(now, opened, l.speed)
		for range 2 {
			now = now.Add(100 * time.Millisecond)
			v := volume{bits: c.carried * unit, lack: true}
			l.note(now, v, 2)
			l.rise(now, v, 2, 100*time.Millisecond)
		}
		if got := l.hat / unit; got != c.want || l.probe != idle || l.shown != 0 {
			t.Errorf("carried %v: taken for %v, want %v", c.carried, got, c.want)
		}
		if !l.next.Equal(now.Add(second)) {
			t.Errorf("carried %v: the next probe is not a second later", c.carried)
		}
	}
}

// TestOthersAreGivenBackAll: when the others are given back what they lost in a trial, they can at once send all but what the tried had in
// it, so that it shows soon whether the link carries both.
func TestOthersAreGivenBackAll(t *testing.T) {
	for _, period := range []time.Duration{40 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		h := newHost(40 * unit)
		h.link.Period = period
		h.carries = 23 * unit
		h.add(20, 100, 1, nil)
		h.add(0, 100, 5, nil)
		for i := 0; h.w.capacity.trial.part != returning; i++ {
			if h.tick(); i > 100 {
				t.Fatalf("every %v: the others are never given back anything", period)
			}
		}
		if got, gained := h.out[1].Bits, h.senders[0].Bits; got < .93*(40*unit-gained) {
			t.Errorf("every %v: of 40, others may send %.1f beside a sender with %.1f", period, got/unit, gained/unit)
		}
		for i := 0; h.w.capacity.trial.on; i++ {
			if h.tick(); i > int(trialTime/period) {
				t.Fatalf("every %v: the trial does not end", period)
			}
		}
		if got := h.w.Capacity() / unit; math.Abs(got-23) > .5 {
			t.Errorf("every %v: taken for %.2f", period, got)
		}
	}
}

// TestOneClearReadingIsEnough: at 200 ms a trial ends with the first reading under its limits if that leaves no doubt.
func TestOneClearReadingIsEnough(t *testing.T) {
	h := newHost(40 * unit)
	h.link.Period = 200 * time.Millisecond
	h.carries = 36 * unit
	h.add(20, 20, 1, nil)
	h.add(0, 100, 5, nil)
	on := 0
	for i := 0; i == 0 || h.w.Capacity() > 37*unit; i++ {
		if h.tick(); h.w.capacity.trial.on {
			on++
		}
		if i > 20 {
			t.Fatal("the link is not found")
		}
	}
	if on > 2 { // the first is without its limits
		t.Errorf("the trial took %d periods", on)
	}
}

// TestTrialHasToExplain: a link that has just carried all of its speed, and now carries much less since a part of it is kept free for a sender
// that pauses, is not tried for a sender that lacks little; for one that lacks much it is.
func TestTrialHasToExplain(t *testing.T) {
	for promise, want := range map[float64]bool{3: false, 6: true} {
		h := newHost(40 * unit)
		h.link.Period = 100 * time.Millisecond
		h.add(12, 100, 1, nil)
		h.add(promise, 2, 1, nil)
		h.add(0, 100, 1, nil)
		for range 40 {
			h.tick()
		}
		h.w.capacity.rest()
		h.w.bits.tracked[1].lack.wait = 0 // a trial is due
		h.demand[0] = 0
		tried := false
		for range 15 {
			h.w.bits.tracked[0].harm = harmMost + 1
			h.tick()
			tried = tried || h.w.capacity.trial.on
		}
		if tried != want {
			t.Errorf("one that sends 2 of its guarantee of %v: tried %v", promise, tried)
		}
	}
}

// TestFallAmongGuaranteed: a link that comes to carry less is found where all have guarantees and one of them used what the others left.
func TestFallAmongGuaranteed(t *testing.T) {
	h := newHost(40 * unit)
	h.link.Period = 100 * time.Millisecond
	h.add(5, 100, 1, nil)
	h.add(3, 3, .08, nil)
	for range 40 {
		h.tick()
	}
	h.carries = 30 * unit
	for range 40 {
		h.tick()
	}
	if sent := h.w.bits.usages[1].sent / unit; sent < .95*3 {
		t.Errorf("4 s after the link fell to 30, taken for %.1f, a guarantee of 3 gets %.2f", h.w.Capacity()/unit, sent)
	}
}

// TestTriedKeepsWhatItSends: a trial does not hold down a sender that is tried for what it had beyond its guarantee. On real TCP such a one had
// to catch up afterwards, which passed for what it wants, and was tried for that every second.
func TestTriedKeepsWhatItSends(t *testing.T) {
	h := newHost(40 * unit)
	h.add(10, 24, 1, nil)
	h.add(0, 100, 5, nil)
	h.ticks(50)
	c := &h.w.capacity
	h.w.bits.tracked[0].lack.tried = true
	c.trial = trial{on: true, from: h.now, began: h.now, before: c.hat, volume: 40 * unit, sent: 24 * unit, enough: 25 * unit, level: 13 * unit}
	h.tick()
	if got := h.out[0].Bits / unit; got < 23.9 {
		t.Errorf("it may send %.2f, and sends 24", got)
	}
	if got := h.out[1].Bits / unit; got > 13.1 {
		t.Errorf("the other may send %.2f, want 13", got)
	}
}

// fall has the link carry less from now on, and waits until it is taken for that.
func (h *host) fall(t *testing.T, carries float64) {
	t.Helper()
	h.carries = carries
	for i := 0; h.w.Capacity() > 1.0125*carries; i++ {
		if h.tick(); i > 50 {
			t.Fatalf("carries %v: taken for %.2f", carries/unit, h.w.Capacity()/unit)
		}
	}
}

// TestPauseOfTheWitness: while the sender pauses for whom a link was taken for less, a link that is not full shows nothing, and one that is
// full what it carries.
func TestPauseOfTheWitness(t *testing.T) {
	for name, others := range map[string]float64{"not full": 2, "full": 100} {
		t.Run(name, func(t *testing.T) {
			h := newHost(10 * unit)
			h.add(5, 100, 1, nil)
			h.add(0, 100, 5, nil)
			h.add(0, 100, 5, nil)
			h.ticks(30)
			h.fall(t, 8*unit)
			h.demand[0], h.demand[1], h.demand[2] = 0, others*unit, others*unit
			for range 15 { // three seconds
				if h.tick(); h.w.Capacity() > 8.3*unit {
					t.Fatalf("carries 8: taken for %.2f", h.w.Capacity()/unit)
				}
			}
		})
	}
}

// twoWitnesses is a link of 10 that was taken for 7 because two senders with guarantees were short.
func twoWitnesses(t *testing.T) *host {
	t.Helper()
	h := newHost(10 * unit)
	h.link.Period = 100 * time.Millisecond
	h.add(3, 3, 1, nil)
	h.add(3, 3, 1, nil)
	h.add(0, 100, 9, nil)
	h.ticks(30)
	h.fall(t, 7*unit)
	return h
}

// TestOneOfTheWitnessesLeaves: a link that carries all it says again, long before probes would find that out, once one of two senders
// stops for whom it was taken for less.
func TestOneOfTheWitnessesLeaves(t *testing.T) {
	h := twoWitnesses(t)
	h.carries, h.demand[0] = h.link.Speed, 0
	h.ticks(18)
	if now := h.w.Capacity(); now < 0.97*h.link.Speed {
		t.Errorf("carries 10: taken for %.2f after 1.8 seconds", now/unit)
	}
}

// TestWitnessesPauseInTurn: as long as each of those for whom a link was taken for less sends again within a second, its speed is not
// handed out.
func TestWitnessesPauseInTurn(t *testing.T) {
	h := twoWitnesses(t)
	for i := range 100 {
		pauses := i / 5 % 2
		h.demand[pauses], h.demand[1-pauses] = 0, 3*unit
		if h.tick(); h.w.capacity.probe == opened {
			t.Fatalf("its speed is handed out after %v, although nobody paused for more than half a second", time.Duration(i)*h.link.Period)
		}
	}
}

// TestFallIsFound: from 3 s after a fall by up to 40 %, a guaranteed sender has 95 % of its guarantee, but for one second of the next six,
// whether it wants more than that and however little of the link that is.
func TestFallIsFound(t *testing.T) {
	for _, period := range []time.Duration{40 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		for carries := 6.0; carries < 10; carries += .2 {
			for _, guarantee := range []float64{.5, 1, 1.5, 2, 2.5, 3, 4, 5} {
				for _, wants := range []float64{guarantee, 100} {
					for _, flows := range []float64{1, 2, 5} {
						h := newHost(10 * unit)
						h.link.Period = period
						h.add(guarantee, wants, 1, nil)
						h.add(0, 100, flows, nil)
						h.add(0, 100, 5, nil)
						h.ticks(int(6 * time.Second / period))
						h.carries = carries * unit
						h.ticks(int(3 * time.Second / period))
						short := time.Duration(0)
						for range int(6 * time.Second / period) {
							if h.tick(); h.senders[0].Bits < .95*guarantee*unit {
								short += period
							}
						}
						if short > time.Second {
							t.Errorf("%s, %.1f of 10, guarantee of %v, wants %v, beside %v flows: short for %s, taken for %.2f", period, carries, guarantee, wants,
								5+flows, short, h.w.Capacity()/unit)
						}
					}
				}
			}
		}
	}
}

// smallLink feeds readings of two senders on a link of 100 that carries some 80 to a waterfill, from the first period until done. After those
// given, the second sends all that it may, and the first the rest. Real TCP at 200 ms looks like that: one flow against five.
func smallLink(guarantee float64, readings [][2]float64, done func(w *waterfill, out []Allowance) bool) {
	h := newHost(100 * unit)
	h.add(guarantee, 0, 1, nil)
	h.add(0, 0, 5, nil)
	for i := range 8 {
		other := h.out[1].Bits
		h.senders[0].Bits, h.senders[0].Known = 81*unit-other, true
		if i < len(readings) {
			h.senders[0].Bits, other = readings[i][0]*unit, readings[i][1]*unit
		}
		h.senders[1].Bits, h.senders[1].Known = other, true
		h.now = h.now.Add(h.link.Period)
		if h.w.Allocate(h.now, h.link, h.senders, h.out); done(h.w, h.out) {
			return
		}
	}
}

// TestOthersDoNotTakeAGuarantee: a guaranteed sender on a link that carries much less than it says falls while another rises. As long as no
// trial can begin, it is not taken to want less, so that the other is not given ever more of its guarantee.
func TestOthersDoNotTakeAGuarantee(t *testing.T) {
	n := 0
	smallLink(50, [][2]float64{{9.6, 71}, {53.5, 24}, {57.7, 23.4}}, func(w *waterfill, out []Allowance) bool {
		if n++; n > 1 && out[1].Bits > 51*unit {
			t.Errorf("after %d periods the other may send %.1f, 50 of 100 are guaranteed", n, out[1].Bits/unit)
		}
		w.bits.tracked[0].lack.wait, w.bits.tracked[0].lack.vain = trialLast, true
		w.bits.tracked[0].lack.failed = time.Time{}.Add(time.Hour)
		return false
	})
	if n < 8 {
		t.Fatalf("%d periods", n)
	}
}

// TestLoweredLimitIsNoRise: senders whose limit was just lowered, and is not yet in effect, have taken nothing from one that pauses.
func TestLoweredLimitIsNoRise(t *testing.T) {
	for _, others := range []float64{20, 25} {
		r := &resource{}
		r.follow([]int{-1, -1})
		r.usages[0] = usage{known: true, sent: 5, guarantee: 12}
		r.usages[1] = usage{known: true, sent: others}
		r.tracked[0].last, r.tracked[1].last = 10, 20
		r.force[0], r.force[1] = 40, 10
		if k := r.moment(time.Time{}, 100*time.Millisecond, 40); k.forced != (others > 20) {
			t.Errorf("20 -> %v: forced %v", others, k.forced)
		}
	}
}

// TestTrialTakesEnough: of a sender that is known to want more, what others lose in a trial is at least twice what it has to gain.
func TestTrialTakesEnough(t *testing.T) {
	readings := [][2]float64{{10.5, 77.7}, {42.3, 36.3}, {45, 36.1}, {28.5, 53.2}, {25.9, 54.6}}
	tried := false
	smallLink(25, readings, func(w *waterfill, _ []Allowance) bool {
		tr := &w.capacity.trial
		if tried = tr.on; tried && tr.enough-tr.sent > tr.step/2*(1+rounding) {
			t.Errorf("the others lose %.2f, and it has to gain %.2f", tr.step/unit, (tr.enough-tr.sent)/unit)
		}
		return tried
	})
	if !tried {
		t.Fatal("there was no trial")
	}
}

// TestForcedFallIsTried: one that falls by a third in a period may come and go by itself. If others take what it loses, it is tried.
func TestForcedFallIsTried(t *testing.T) {
	n, tried := 0, false
	smallLink(25, [][2]float64{{19.5, 69.6}, {41.7, 36.7}, {45, 36.2}, {30, 51.1}, {20.3, 61}}, func(w *waterfill, _ []Allowance) bool {
		n++
		tried = tried || w.capacity.trial.on
		return n == 5
	})
	if !tried {
		t.Error("not tried")
	}
}
