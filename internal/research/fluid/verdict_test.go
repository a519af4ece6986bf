package fluid

import (
	"math"
	"time"

	"sluice/internal/control/bandwidth"
)

// verdict is what a program does to others.
type verdict struct {
	satisfied float64       // % of the windows in which a judged sender asked for some of its guarantee, from settled after its first on
	short     float64       // % of what it asked for of that was not sent
	used      float64       // % of what the link carries
	healed    time.Duration // from the attackers' leave until guarantees are satisfied, and 90 % of the link are used, for settled
}

// never says that the link was not healed in the time that was simulated.
const never = healFor

// play runs the program under an allocator and judges it.
func (p *program) play(allocator string, attack bool) verdict {
	r := p.run(attack)
	r.Allocator = newAllocator(allocator, r)
	j := judge{p: p, r: r, asked: make([]float64, len(p.Honest)), sent: make([]float64, len(p.Honest)), healed: never}
	r.play(j.see)
	return j.verdict()
}

// judge accumulates a verdict.
type judge struct {
	p *program
	r *Run

	asked, sent []float64 // by honest sender: what it asked for of its guarantee in this window, and sent
	volume      float64   // in this window

	good, all         int // windows
	due, short        float64
	carried, capacity float64
	well              time.Duration
	healed            time.Duration
}

func (j *judge) see(t time.Duration) {
	for i := range j.p.Honest {
		j.asked[i] += min(j.r.want[i], j.p.Honest[i].Guarantee*gbit)
	}
	for i, bits := range j.r.sent {
		if i < len(j.sent) {
			j.sent[i] += bits
		}
		j.volume += bits
	}
	if end := t + Step; end%window == 0 {
		j.close(end)
	}
}

// close judges the window that ends at a time.
func (j *judge) close(end time.Duration) {
	satisfied := true
	judged := end > settled && end <= attackFor
	for i := range j.asked {
		asked, sent := j.asked[i], j.sent[i]
		ok := sent >= enough*asked
		satisfied = satisfied && ok
		if judged && asked > 0 && end > j.p.Honest[i].pause()+settled {
			j.all++
			if ok {
				j.good++
			}
			j.due += asked
			j.short += max(0, asked-sent)
		}
	}
	capacity := j.p.Carries * speed * float64(window/Step)
	switch {
	case judged:
		j.carried, j.capacity = j.carried+j.volume, j.capacity+capacity
	case end <= attackFor:
	case !satisfied || j.volume < .9*capacity:
		j.well = 0
	default:
		if j.well += window; j.well == settled && j.healed == never {
			j.healed = end - settled - attackFor
		}
	}
	clear(j.asked)
	clear(j.sent)
	j.volume = 0
}

func (j *judge) verdict() verdict {
	v := verdict{satisfied: 100, used: 100 * j.carried / j.capacity, healed: j.healed}
	if j.all > 0 {
		v.satisfied, v.short = 100*float64(j.good)/float64(j.all), 100*j.short/j.due
	}
	return v
}

// goal bounds the harm that attackers do.
type goal struct {
	name   string
	misses kinds                    // by how much the worst known programs miss it under waterfill, rounded up
	share  kinds                    // % of random programs that do, rounded up
	harm   func(o *outcome) float64 // by how much the program misses the goal; up to 0 it meets it
}

// kinds has a figure for each kind of program: without guarantees of the attackers on a link that carries what it says, on one that carries
// less, and the same with guarantees.
type kinds [4]float64

// kind is its index.
func (o *outcome) kind() (k int) {
	if o.Carries < 1 {
		k++
	}
	if o.theirs() > 0 {
		k += 2
	}
	return k
}

// everything is missed by a program that a search has found, so that only the share of such programs is bounded.
const everything = 100

// known is by how much programs of this kind are known to miss the goal.
func (g *goal) known(o *outcome) float64 {
	if *strict || *against != "waterfill" {
		return 0
	}
	return g.misses[o.kind()]
}

// most is how many of n random programs of a kind may miss the goal: its share, and what chance adds to that.
func (g *goal) most(kind, n int) float64 {
	if *strict || *against != "waterfill" {
		return 0
	}
	mean := g.share[kind] / 100 * float64(n)
	return mean + 3*math.Sqrt(mean) + 1
}

// goals compare a law with one that is informed, which fails where a law does that learns of a change a period later and lends what is
// free. Attackers with a guarantee may waste that, whatever else they do.
var goals = []goal{
	// In 97 % of the windows; or in as many as are satisfied among honest senders or under attack, less 3 %: at the longest period a wake
	// costs a window, and what others sent in a period while it was free is gone.
	{"satisfied", kinds{2, 33, 35, 60}, kinds{.1, 7.2, .4, 4.5}, func(o *outcome) float64 { return min(97, o.honest.satisfied-3, o.informed.satisfied-3) - o.satisfied }},
	// 90 % of what is used with honest senders; or under attack: what senders leave that go up and down in every period is lost.
	{"used", kinds{36, 1, 20, 59}, kinds{.3, .2, .1, .2}, func(o *outcome) float64 {
		wasted := o.theirs() * gbit / (o.Carries * speed)
		return 90*(1-wasted) - 100*o.used/min(o.honest.used, o.informed.used)
	}},
	// In 5 s, or in as long as after honest senders.
	{"healed", kinds{everything, everything, everything, everything}, kinds{.1, 0, .4, .4}, func(o *outcome) float64 { return (o.healed - max(5*time.Second, o.honest.healed)).Seconds() }},
}

// informed is the name of an allocator that knows what the link carries, and what each sender, also an attacker, wants at the moment of a
// tick.
const informed = "informed"

// oracle is that allocator.
type oracle struct {
	run         *Run
	part, ideal []float64
}

// newAllocator returns the allocator of that name.
func newAllocator(name string, r *Run) bandwidth.Allocator {
	if name == informed {
		return &oracle{run: r}
	}
	a, err := bandwidth.NewAllocator(name)
	if err != nil {
		panic(err)
	}
	return a
}

func (o *oracle) Capacity() float64 { return o.run.Link.At(0) }

func (o *oracle) Allocate(now time.Time, _ bandwidth.Link, senders []bandwidth.Sender, out []bandwidth.Allowance) {
	if n := len(senders); o.part == nil {
		o.part, o.ideal = make([]float64, n), make([]float64, n)
	}
	o.run.Link.Ideal(now.Sub(time.Time{}), o.run.want, o.part, o.ideal)
	for i := range out {
		out[i] = bandwidth.Allowance{Bits: max(o.ideal[i], float64(senders[i].SLA.Guarantee.Bits)), Packets: math.Inf(1)}
	}
}
