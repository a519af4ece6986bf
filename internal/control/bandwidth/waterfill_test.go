package bandwidth

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/internal/model"
)

// host simulates senders with demands under a waterfill: each sends what it wants and may, together at most what the link carries,
// in proportion to their flows.
type host struct {
	link    Link
	senders []Sender
	demand  []float64
	flows   []float64
	carries float64
	out     []Allowance
	now     time.Time
	w       *waterfill
}

func newHost(speed float64) *host {
	return &host{link: Link{Speed: speed, Packets: math.Inf(1), Period: 200 * time.Millisecond}, carries: speed, w: &waterfill{}}
}

// add adds a sender with a demand; guarantee and demand are in units.
func (h *host) add(guarantee, demand, flows float64, edit func(*model.SLA)) {
	s := sender(len(h.senders), guarantee, 0)
	if edit != nil {
		edit(&s.SLA)
	}
	h.senders, h.out = append(h.senders, s), append(h.out, Unlimited)
	h.demand, h.flows = append(h.demand, demand*unit), append(h.flows, flows)
}

// tick advances a period and allocates.
func (h *host) tick() {
	h.send()
	h.now = h.now.Add(h.link.Period)
	h.w.Allocate(h.now, h.link, h.senders, h.out)
}

func (h *host) ticks(n int) {
	for range n {
		h.tick()
	}
}

func (h *host) send() {
	most := make([]float64, len(h.senders))
	for i := range most {
		most[i] = min(h.demand[i], h.out[i].Bits, h.out[i].Packets*fullFrame)
	}
	for i, bits := range simpleFill(h.carries, most, h.flows) {
		h.senders[i].Bits, h.senders[i].Packets, h.senders[i].Known = bits, bits/fullFrame, true
	}
}

// simpleFill shares max-min fairly by weight in the simplest way: a little in turn to each that still wants some.
func simpleFill(amount float64, want, weight []float64) []float64 {
	out := make([]float64, len(want))
	for amount > 1e-9 {
		sum, step := 0.0, math.Inf(1)
		for i := range want {
			if want[i] > out[i] {
				sum += weight[i]
				step = min(step, (want[i]-out[i])/weight[i])
			}
		}
		if sum == 0 {
			break
		}
		if step*sum >= amount {
			step = amount / sum
		}
		for i := range want {
			if want[i] <= out[i] {
				continue
			}
			amount -= step * weight[i]
			if out[i] += step * weight[i]; out[i] >= want[i]*(1-1e-12) {
				out[i] = want[i]
			}
		}
		if step*sum < 1e-12 {
			break
		}
	}
	return out
}

// anyHost draws one with up to 12 senders of every kind.
func anyHost(t *rapid.T) *host {
	h := newHost(40 * unit)
	for range rapid.IntRange(1, 12).Draw(t, "senders") {
		g := rapid.SampledFrom([]float64{0, 0, 1, 5, 12}).Draw(t, "guarantee")
		h.add(g, rapid.SampledFrom([]float64{0, 0.1, 2, 6, 15, 100}).Draw(t, "demand"), rapid.SampledFrom([]float64{1, 2, 8}).Draw(t, "flows"),
			func(s *model.SLA) {
				s.Priority = rapid.IntRange(0, 2).Draw(t, "priority")
				s.Weight = rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "weight")
				if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
					s.Limit.Bits = uint64(max(g, rapid.SampledFrom([]float64{3, 20}).Draw(t, "limit")) * unit)
				}
			})
	}
	return h
}

func (h *host) guarantees() (sum float64) {
	for i := range h.senders {
		sum += float64(h.senders[i].SLA.Guarantee.Bits)
	}
	return sum
}

// shake changes demands, drops readings and adds noise: whatever a controller may meet.
func (h *host) shake(t *rapid.T) {
	i := rapid.IntRange(0, len(h.senders)-1).Draw(t, "who")
	h.demand[i] = rapid.SampledFrom([]float64{0, 0.1, 2, 6, 15, 100}).Draw(t, "new demand") * unit
	h.send()
	for i := range h.senders {
		h.senders[i].Bits *= rapid.Float64Range(0.5, 1.5).Draw(t, "noise")
		h.senders[i].Known = rapid.IntRange(0, 9).Draw(t, "lost") > 0
		if rapid.IntRange(0, 19).Draw(t, "failed") == 0 {
			h.out[i] = Unlimited // actuation failed
		}
	}
	h.now = h.now.Add(h.link.Period)
	h.w.Allocate(h.now, h.link, h.senders, h.out)
}

// TestLimitsKeepGuarantees checks for any readings: no limit below a guarantee that can be kept or below the floor, none above the
// SLA's, and shares of at most 99.5 % of the link.
func TestLimitsKeepGuarantees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHost(t)
		for range rapid.IntRange(1, 30).Draw(t, "ticks") {
			h.shake(t)
			shares, budget := 0.0, handedOut*h.w.Capacity()
			feasible := h.guarantees() <= budget
			for i := range h.senders {
				s, l := &h.senders[i].SLA, h.out[i].Bits
				shares += h.w.bits.share[i]
				limit := limitOf(s).Bits
				switch {
				case l > limit:
					t.Fatalf("%s may send %v, above its limit of %v", h.senders[i].ID, l, limit)
				case feasible && l < float64(s.Guarantee.Bits):
					t.Fatalf("%s may send %v, below its guarantee of %d", h.senders[i].ID, l, s.Guarantee.Bits)
				case l < min(limit, leastFloor*h.w.Capacity()) || !(l > 0):
					t.Fatalf("%s may send %v, below the floor", h.senders[i].ID, l)
				}
			}
			if shares > budget*(1+1e-9) {
				t.Fatalf("shares sum up to %v of %v", shares, budget)
			}
			if h.w.Capacity() > h.link.Speed {
				t.Fatalf("takes the link for %v", h.w.Capacity())
			}
		}
	})
}

// TestFillIsMaxMin compares shares with the simplest way to share, and checks that more capacity or demand never gives less.
func TestFillIsMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "senders")
		usages := make([]usage, n)
		demand, weights := make([]float64, n), make([]float64, n)
		for i := range usages {
			demand[i] = rapid.SampledFrom([]float64{0, 0.5, 1, 3, 10, inf}).Draw(t, "demand")
			usages[i] = usage{
				guarantee: rapid.SampledFrom([]float64{0, 1, 4}).Draw(t, "guarantee"),
				weight:    rapid.SampledFrom([]float64{1, 2, 5}).Draw(t, "weight"),
				limit:     rapid.SampledFrom([]float64{2, 7, inf}).Draw(t, "limit"),
				priority:  rapid.IntRange(0, 2).Draw(t, "class"),
			}
			weights[i] = usages[i].weight
		}
		amount := rapid.Float64Range(0.1, 60).Draw(t, "amount")
		got := fill(amount, usages, demand)
		for i, want := range simple(amount, usages, demand) {
			if math.Abs(got[i]-want) > 1e-6 {
				t.Fatalf("shares of %v are %v; the simple way gives sender %d %v", amount, got, i, want)
			}
		}
		more := fill(amount*1.5, usages, demand)
		for i := range got {
			if more[i] < got[i]-1e-9 {
				t.Fatalf("sender %d gets %v of %v and %v of half as much again", i, got[i], amount, more[i])
			}
		}
		i := rapid.IntRange(0, n-1).Draw(t, "who")
		demand[i] *= 2
		if wants := fill(amount, usages, demand); wants[i] < got[i]-1e-9 {
			t.Fatalf("sender %d gets %v, and %v when it wants twice as much", i, got[i], wants[i])
		}
	})
}

func fill(amount float64, usages []usage, demand []float64) []float64 {
	var f filler
	share := make([]float64, len(usages))
	f.rest(f.guarantees(amount, usages, demand, share), usages, demand, share)
	return share
}

// simple is fill in the simplest way: class by class, then the rest.
func simple(amount float64, usages []usage, demand []float64) []float64 {
	share, want, weight := make([]float64, len(usages)), make([]float64, len(usages)), make([]float64, len(usages))
	add := func(more []float64) {
		for i := range more {
			share[i] += more[i]
			amount -= more[i]
		}
	}
	for class := 2; class >= 0; class-- {
		for i, u := range usages {
			want[i], weight[i] = 0, u.guarantee
			if u.priority == class {
				want[i] = min(u.guarantee, demand[i], u.limit)
			}
		}
		add(simpleFill(amount, want, weight))
	}
	for i, u := range usages {
		want[i], weight[i] = min(demand[i], u.limit)-share[i], u.weight
	}
	add(simpleFill(amount, want, weight))
	return share
}

// TestSettles checks that nothing changes once demands are steady, that the link is then used, and that the shares do not depend on
// the number of flows.
func TestSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHost(t)
		h.senders[0].SLA.Guarantee.Bits = unit // somebody has one
		h.ticks(60)
		h.settle(t)
		began, before, shares := h.w.capacity.trial.from, slices.Clone(h.out), slices.Clone(h.w.bits.share)
		h.ticks(10)
		h.settle(t)
		if h.w.capacity.trial.from.Equal(began) && !slices.Equal(before, h.out) {
			t.Fatalf("limits still change from %v to %v", before, h.out)
		}
		for i, share := range h.w.bits.share {
			if math.Abs(share-shares[i]) > 0.02*h.link.Speed {
				t.Fatalf("shares still change from %v to %v", shares, h.w.bits.share)
			}
		}
		want := h.ideal()
		apparent := 0.0 // what those have too much who have all they want, so near their limits that these seem to hold them down
		for i := range want {
			if limit := h.out[i].Bits; h.demand[i] <= limit && h.senders[i].Bits >= bound*limit {
				apparent += limit - h.demand[i]
			}
		}
		for i := range want {
			if got := h.senders[i].Bits; got < want[i]*0.95-0.01*h.link.Speed-apparent {
				t.Fatalf("sender %d gets %.2f of the %.2f that are its max-min share of what is taken for %.2f: demands %v, shares %v, limits %v", i,
					got/unit, want[i]/unit, h.w.Capacity()/unit, h.demand, h.w.bits.share, h.out)
			}
		}
	})
}

// settle advances until there has been no trial, and rooms have been what they usually are, for 25 ticks: then
// less than a tenth of the noise that a trial was taken for is left (noiseGain), and rooms no longer shrink with it.
func (h *host) settle(t *rapid.T) {
	for quiet, n := 0, 0; quiet < 25; quiet, n = quiet+1, n+1 {
		if h.tick(); h.w.capacity.trial.on || h.now.Before(h.w.bits.careful) {
			quiet = 0
		}
		if n == 10000 {
			t.Fatal("a trial begins again and again")
		}
	}
}

// ideal returns what each should get of what is handed out, given the demands.
func (h *host) ideal() []float64 {
	usages := make([]usage, len(h.senders))
	for i := range usages {
		s := &h.senders[i].SLA
		usages[i] = usage{guarantee: float64(s.Guarantee.Bits), limit: limitOf(s).Bits, weight: s.Share(), priority: s.Priority}
	}
	return simple(handedOut*h.carries, usages, h.demand)
}

// TestNoPooling: a VM far above its guarantee does not compensate for one below.
func TestNoPooling(t *testing.T) {
	h := newHost(40 * unit)
	h.add(10, 100, 20, nil)
	h.add(10, 100, 1, nil)
	h.add(0, 100, 5, nil)
	h.ticks(20)
	if got := h.senders[1].Bits; got < 9.99*unit {
		t.Errorf("the VM with one flow gets %.2f of its guarantee of 10", got/unit)
	}
}

// TestClassesDegradeInOrder: if more is promised than there is, the highest class gets all of its guarantees.
func TestClassesDegradeInOrder(t *testing.T) {
	h := newHost(40 * unit)
	for i := range 3 {
		h.add(20, 100, float64(1+5*i), func(s *model.SLA) { s.Priority = 3 - i })
	}
	h.ticks(20)
	for i, want := range []float64{20, 19.8, 0} {
		if got := h.senders[i].Bits / unit; got < want-0.2 || got > want+0.5 {
			t.Errorf("class %d gets %.2f, want %.1f", 3-i, got, want)
		}
	}
}

// TestWavesAreNoGrowth: a flow's pace has waves of some percent, for which nobody else is held down. A sender that stays at the
// crest has grown.
func TestWavesAreNoGrowth(t *testing.T) {
	h := newHost(40 * unit)
	h.link.Period = 100 * time.Millisecond
	h.add(20, 18.4, 1, nil)
	h.add(0, 100, 5, nil)
	h.ticks(30)
	for k := range 200 {
		h.demand[0] = 18.4 * unit
		if k%11 == 10 {
			h.demand[0] *= 1.027
		}
		if h.tick(); h.out[1].Bits < 19.5*unit && !h.w.capacity.trial.on { // which takes some on purpose
			t.Fatalf("the other may send %.2f beside a guarantee that sends %.2f", h.out[1].Bits/unit, h.senders[0].Bits/unit)
		}
	}
	h.demand[0] = 18.4 * 1.03 * unit
	h.ticks(3)
	if h.out[0].Bits < 20*unit || h.out[1].Bits > (handedOut+keepOver)*40*unit-h.senders[0].Bits {
		t.Errorf("the guarantee may send %.2f and the other %.2f though it has grown", h.out[0].Bits/unit, h.out[1].Bits/unit)
	}
}

// TestLittleMoreIsNotAll: one that wanted a part of its guarantee and wants a little more is given that and some, not all that it is
// promised, at the expense of others. If it wants all, it has all that it is promised in the third reading.
func TestLittleMoreIsNotAll(t *testing.T) {
	for _, wants := range []float64{8, 100} {
		h := newHost(40 * unit)
		h.link.Period = 100 * time.Millisecond
		h.add(24, 6, 1, nil)
		h.add(0, 100, 5, nil)
		h.ticks(600) // until the time between trials is at its longest
		if h.w.capacity.trial.on || h.out[1].Bits < 32*unit {
			t.Fatalf("the other may send %.2f beside one that sends 6", h.out[1].Bits/unit)
		}
		h.demand[0] = wants * unit
		for range 3 { // one reading of the growth, one limit that allows more, and its effect
			h.tick()
			if wants < 24 && h.out[1].Bits < 24*unit {
				t.Errorf("wants %.0f: the other may send %.2f", wants, h.out[1].Bits/unit)
			}
		}
		if sent := h.senders[0].Bits; sent < min(wants, 24)*.99*unit {
			t.Errorf("wants %.0f of the 24 that it is promised, and sends %.2f", wants, sent/unit)
		}
	}
}

// TestOthersHaveWhatIsNoLongerWanted: the first reading after a guaranteed sender stops is still of the time before. What it was
// sending is given to the others at once, also if their limits were lowered a period earlier because another one woke.
func TestOthersHaveWhatIsNoLongerWanted(t *testing.T) {
	for _, wakes := range []bool{false, true} {
		h := newHost(40 * unit)
		h.link.Period = 100 * time.Millisecond
		h.add(12, 100, 1, nil)
		h.add(8, 100, 1, nil)
		h.add(0, 100, 5, nil)
		if wakes {
			h.demand[1] = 0
		}
		h.ticks(50)
		if wakes {
			h.demand[1] = 100 * unit
			h.tick()
		}
		for _, part := range []float64{.4, 0} { // of a period in which it still sends, then none
			h.demand[0] = part * h.senders[0].Bits
			h.tick()
			if others := h.out[1].Bits + h.out[2].Bits; others < .97*h.carries {
				t.Errorf("another woke before: %v; it sends %.2g: the others may send %.3g of %.3g", wakes, h.demand[0], others, h.carries)
			}
		}
	}
}

// A sender has stopped unless a lower limit holds it back, or others send what it no longer does.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		limit float64
		room  bool
		stops bool
	}{{100, true, true}, {6, true, false}, {100, false, false}} {
		s, k := newTracked(), moment{capacity: 40, period: 100 * time.Millisecond, room: c.room}
		s.last, s.mean, s.share = 10, 10, 10
		if s.estimate(&k, &usage{known: true, sent: 4, guarantee: 5}, c.limit); (s.demand == 0) != c.stops {
			t.Errorf("limit %v, all send less: %v: sent 10, then 4: demand %v, want it to have stopped: %v", c.limit, c.room, s.demand, c.stops)
		}
	}
}

// TestRaisesRest: the little that others leave for a moment is not worth changing a limit each time, but what they take is.
func TestRaisesRest(t *testing.T) {
	h := newHost(40 * unit)
	h.link.Period = 40 * time.Millisecond
	h.add(10, 100, 1, nil)
	h.add(0, 100, 1, nil)
	h.add(0, 100, 1, nil)
	h.ticks(50)
	raised := 0
	for k := range 250 { // 10 s
		h.demand[2] = (6 + float64(k/2%2)*2) * unit // waves of 160 ms
		was := h.out[1].Bits
		h.tick()
		if h.out[1].Bits > was {
			raised++
		}
		if h.out[0].Bits < 10*unit {
			t.Fatalf("the guarantee may send %.2f", h.out[0].Bits/unit)
		}
	}
	if raised > 42 {
		t.Errorf("a limit was raised %d times in 10 s, want 4 a second at most", raised)
	}
}

// TestLimitsAreLifted: without a guarantee on the link nobody is limited.
func TestLimitsAreLifted(t *testing.T) {
	h := newHost(40 * unit)
	h.add(10, 100, 1, nil)
	h.add(0, 100, 5, nil)
	h.add(0, 1, 5, func(s *model.SLA) { s.Limit.Bits = 7 * unit })
	h.ticks(20)
	if h.out[1].Bits > 30*unit {
		t.Fatalf("may send %v beside a guarantee of 10", h.out[1].Bits)
	}
	h.senders, h.out, h.demand, h.flows = h.senders[1:], h.out[1:], h.demand[1:], h.flows[1:]
	h.tick()
	if h.out[0] != Unlimited || h.out[1].Bits != 7*unit {
		t.Errorf("may send %v after the guarantee has left", h.out)
	}
}

// TestWeightsCountWithoutGuarantees: weights apply even if nothing is guaranteed.
func TestWeightsCountWithoutGuarantees(t *testing.T) {
	h := newHost(40 * unit)
	h.add(0, 100, 1, func(s *model.SLA) { s.Weight = 3 })
	h.add(0, 100, 5, nil)
	h.ticks(20)
	if got := h.senders[0].Bits / h.senders[1].Bits; math.Abs(got-3) > 0.1 {
		t.Errorf("get %.2f : 1, want 3 : 1", got)
	}
	h.senders[0].SLA.Weight = 5
	h.senders[0].ID = model.NICID{NIC: "pf0"} // of a group a weight is only how many it is
	h.tick()
	if h.out[0] != Unlimited {
		t.Errorf("a group without guarantee is limited to %v", h.out[0])
	}
}

// TestLostReadingsKeepGuarantees: a sender without readings is assumed to want what it is promised, and others get no more.
func TestLostReadingsKeepGuarantees(t *testing.T) {
	h := newHost(40 * unit)
	h.add(20, 100, 1, nil)
	h.add(0, 100, 5, nil)
	h.ticks(20)
	for range 50 {
		h.send()
		h.senders[0].Bits, h.senders[0].Known = 0, false
		h.now = h.now.Add(h.link.Period)
		h.w.Allocate(h.now, h.link, h.senders, h.out)
		if h.out[0].Bits < 20*unit || h.out[1].Bits > 20*unit {
			t.Fatalf("allowed %v and %v while the first cannot be read", h.out[0].Bits/unit, h.out[1].Bits/unit)
		}
	}
}

// TestSendersKeepTheirHistory: the state of a NIC stays with it when others come and go, and a NIC that takes the place of a former
// one inherits none.
func TestSendersKeepTheirHistory(t *testing.T) {
	w := &waterfill{}
	at := func(numbers ...int) (list []Sender) {
		for _, n := range numbers {
			list = append(list, sender(n, 0, 0))
		}
		return list
	}
	w.follow(at(1, 3, 5))
	for i, mean := range []float64{1, 3, 5} {
		w.bits.tracked[i].mean = mean
	}
	for _, step := range []struct {
		numbers []int
		means   []float64
	}{
		{[]int{1, 3, 5}, []float64{1, 3, 5}},
		{[]int{0, 3, 4, 5}, []float64{0, 3, 0, 5}},
		{[]int{0, 2, 4, 5}, []float64{0, 0, 0, 5}},
		{[]int{5}, []float64{5}},
		{[]int{6}, []float64{0}},
	} {
		w.follow(at(step.numbers...))
		for i, want := range step.means {
			if got := w.bits.tracked[i].mean; got != want {
				t.Errorf("of senders %v, number %d has a mean of %v, want %v", step.numbers, step.numbers[i], got, want)
			}
		}
	}
}

// TestFallOfTheCapacity: a guarantee is kept although the link begins to carry less, and the link is used once it carries all again.
func TestFallOfTheCapacity(t *testing.T) {
	for _, period := range []time.Duration{40 * time.Millisecond, 100 * time.Millisecond} {
		h := newHost(40 * unit)
		h.link.Period = period
		h.add(20, 100, 1, nil)
		h.add(0, 100, 5, nil)
		h.ticks(60)
		h.carries = 33 * unit
		h.ticks(int(time.Second / period))
		for range int(20 * time.Second / period) {
			if h.tick(); h.senders[0].Bits < 19.2*unit {
				t.Fatalf("period %v: the guarantee gets %.2f of 20, and the link is taken for %.2f", period, h.senders[0].Bits/unit,
					h.w.Capacity()/unit)
			}
		}
		h.carries = 40 * unit
		h.ticks(int(40 * time.Second / period))
		if c := h.w.Capacity() / unit; c < 39.5 {
			t.Errorf("period %v: takes the link for %.2f 40 s after it carries 40 again", period, c)
		}
	}
}

// TestIdleLinkSaysNothingOfCapacity: senders that want no more than they send are not a plateau. During a trial, which tests whether
// some want more, none begins to want more by itself: that could not be distinguished.
func TestIdleLinkSaysNothingOfCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHost(t)
		h.senders[0].SLA.Guarantee.Bits = unit
		for range 40 {
			if i, demand, ok := h.change(t); ok && (demand < h.demand[i] || !h.w.capacity.trial.on) {
				h.demand[i] = demand
			}
			h.tick()
		}
		for i := range h.demand {
			h.demand[i] = min(h.demand[i], unit)
		}
		h.ticks(20)
		if c := h.w.Capacity(); c < 0.93*h.link.Speed {
			t.Fatalf("takes a link that carries all it should for %.2f of 40", c/unit)
		}
	})
}

// TestLessWantedIsNoPlateau: a sender held down by its limit sends a fifth less because it wants no more, and one that stops leaves
// more of the link than others take up: what the first lacks of its limit is not why the link is not full.
func TestLessWantedIsNoPlateau(t *testing.T) {
	capped := func(s *model.SLA) { s.Limit.Bits = 12 * unit }
	h := newHost(40 * unit)
	h.add(1, 3, 1, nil)
	h.add(12, 6, 1, capped)
	h.add(0, 6, 1, nil)
	h.add(1, 6, 1, nil)
	h.add(12, 15, 1, capped)
	h.add(0, 6, 1, nil)
	h.add(0, 6, 1, func(s *model.SLA) { s.Weight = 3 })
	h.ticks(4)
	h.demand[3] = 0
	h.tick()
	if sent := h.senders[2].Bits; sent < bound*3.83*unit {
		t.Fatalf("it sends %.2f: nothing holds it down", sent/unit)
	}
	h.demand[2] = 3 * unit
	for range 20 {
		h.tick()
		if c := h.w.Capacity(); c < h.link.Speed {
			t.Fatalf("takes a link that carries all it should for %.2f of 40", c/unit)
		}
	}
}

// TestCapacityIsFoundAgain: whatever capacity was assumed, the link is used 40 s after all want it.
func TestCapacityIsFoundAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHost(t)
		h.senders[0].SLA.Guarantee.Bits = unit
		for range 40 {
			if i, demand, ok := h.change(t); ok {
				h.demand[i] = demand
			}
			h.carries = rapid.SampledFrom([]float64{1, 1, 1, 1, 0.95, 0.7}).Draw(t, "carries") * h.link.Speed
			h.tick()
		}
		h.carries = h.link.Speed
		want := 0.0
		for i := range h.demand {
			h.demand[i] = h.link.Speed
			want += min(limitOf(&h.senders[i].SLA).Bits, h.link.Speed)
		}
		h.ticks(200)
		sum := 0.0
		for i := range h.senders {
			sum += h.senders[i].Bits
		}
		if want = min(want, h.link.Speed); sum < 0.93*want {
			t.Fatalf("%.2f of %.2f are sent on a link of 40 that is taken for %.2f", sum/unit, want/unit, h.w.Capacity()/unit)
		}
	})
}

// change draws a sender and its new demand.
func (h *host) change(t *rapid.T) (who int, demand float64, ok bool) {
	if rapid.IntRange(0, 5).Draw(t, "change") > 0 {
		return 0, 0, false
	}
	who = rapid.IntRange(0, len(h.demand)-1).Draw(t, "who")
	return who, rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "demand") * unit, true
}

// TestPackets: guests that flood small packets leave the others their promised packets, and those that their promised bits need.
// Bits for which a sender has no packets go to others.
func TestPackets(t *testing.T) {
	const small = 8 * 88
	h := newHost(1e9)
	h.link.Packets = 190e3
	h.add(0, 0, 1, func(s *model.SLA) { s.Guarantee = model.Rate{Bits: 700e6} })
	h.add(0, 0, 1, func(s *model.SLA) { s.Guarantee.Packets, s.Limit.Packets = 45e3, 60e3 })
	for range 3 {
		h.add(0, 0, 1, nil)
	}
	size := func(i int) float64 {
		if i == 0 {
			return fullFrame
		}
		return small
	}
	for range 40 {
		sum := 0.0
		for i := range h.senders {
			s := &h.senders[i]
			s.Known, s.Packets = true, min(1e9/size(i), h.out[i].Packets, h.out[i].Bits/size(i))
			sum += s.Packets
		}
		for i := range h.senders {
			h.senders[i].Packets /= max(1, sum/h.link.Packets)
			h.senders[i].Bits = h.senders[i].Packets * size(i)
		}
		h.now = h.now.Add(h.link.Period)
		h.w.Allocate(h.now, h.link, h.senders, h.out)
	}
	if got := h.senders[0].Bits; got < 700e6*0.98 {
		t.Errorf("the guarantee of 700 Mbit/s gets %.0f Mbit/s of full frames", got/1e6)
	}
	if got := h.senders[1].Packets; got < 45e3*0.98 || got > 60e3*1.02 {
		t.Errorf("the VM with 45 to 60 kpps gets %.1f kpps", got/1e3)
	}
	for i := 2; i < len(h.out); i++ {
		if most := h.out[i].Packets * small; h.senders[i].Packets >= bound*h.out[i].Packets && h.out[i].Bits > 1.01*most {
			t.Errorf("a flood may send %.0f Mbit/s, and has packets for %.0f", h.out[i].Bits/1e6, most/1e6)
		}
	}
}

// churning returns n senders, one in ten with a guarantee, and a function that changes what each sends. The rates are computed
// beforehand, so that this takes no time.
func churning(n int) (senders []Sender, out []Allowance, next func()) {
	r := rand.New(rand.NewPCG(1, 1))
	senders = make([]Sender, n)
	sends := make([]float64, 16*n)
	for i := range senders {
		g := 0.0
		if i%10 == 0 {
			g = 20 / float64(n)
		}
		senders[i] = sender(i, g, 0)
	}
	for i := range sends {
		sends[i] = r.ExpFloat64() * 40 / float64(n) * unit
	}
	tick := 0
	return senders, make([]Allowance, n), func() {
		for i, bits := range sends[tick%16*n:][:n] {
			senders[i].Bits, senders[i].Packets = bits, bits/fullFrame
		}
		tick++
	}
}

// TestSteadyAllocationIsFree: no memory is allocated while the senders stay the same.
func TestSteadyAllocationIsFree(t *testing.T) {
	for _, name := range Names() {
		senders, out, next := churning(100)
		a, now := maker(t, name), time.Time{}
		l := link()
		l.Packets = 800e3
		tick := func() {
			now = now.Add(l.Period)
			next()
			a.Allocate(now, l, senders, out)
		}
		tick()
		if n := testing.AllocsPerRun(100, tick); n > 0 {
			t.Errorf("%s allocates %v times a tick", name, n)
		}
	}
}

// TestThousandSenders: deciding costs less than ten sorts of 1,000 floats. Both are measured alternately and many times, by the
// processor time of this thread; the median of the ratios counts, so that other load on the machine affects both alike.
func TestThousandSenders(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector slows them down by different factors")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	decide, sort := decider(math.Inf(1)), sorter()
	var ratios []float64
	for range 500 {
		d := processorTime(t, decide)
		s := processorTime(t, func() {
			for range 10 {
				sort()
			}
		})
		ratios = append(ratios, 10*d.Seconds()/s.Seconds())
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	t.Logf("deciding for 1,000 senders takes %.1f sorts of 1,000 floats", ratio)
	if ratio > 10 {
		t.Errorf("deciding for 1,000 senders takes %.1f sorts of 1,000 floats, want at most 10", ratio)
	}
}

// processorTime returns the processor time that this thread takes for f.
func processorTime(t *testing.T, f func()) time.Duration {
	now := func() time.Duration {
		var at unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
			t.Fatal(err)
		}
		return time.Duration(at.Nano())
	}
	begin := now()
	f()
	return now() - begin
}

func BenchmarkWaterfill(b *testing.B) {
	for name, f := range map[string]func(){"bits": decider(math.Inf(1)), "packets too": decider(800e3), "a sort of 1,000 floats": sorter()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}

// decider returns a function that decides for 1,000 senders, some of which change their rates each time.
func decider(packets float64) func() {
	senders, out, next := churning(1000)
	w, now := &waterfill{}, time.Time{}
	l := link()
	l.Packets = packets
	return func() {
		now = now.Add(l.Period)
		next()
		w.Allocate(now, l, senders, out)
	}
}

// sorter returns a function that sorts 1,000 floats.
func sorter() func() {
	r := rand.New(rand.NewPCG(2, 2))
	random, list := make([]float64, 1000), make([]float64, 1000)
	for i := range random {
		random[i] = r.Float64()
	}
	return func() {
		copy(list, random)
		slices.Sort(list)
	}
}
