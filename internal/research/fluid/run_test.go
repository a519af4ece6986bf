package fluid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// Run simulates a Link under an allocator.
type Run struct {
	Link      *Link
	Allocator bandwidth.Allocator
	Period    time.Duration // between readings
	Delay     time.Duration // from a reading until its limits are in force
	Length    time.Duration
	Warm      time.Duration // warm-up at the start, not judged
	Noise     float64       // of a reading, as a share
	Uneven    float64       // of the shares of a full link, redrawn every 40 ms: 0.16-0.5 on real queues
	Ramp      time.Duration // a sender needs to go from zero to the link's speed
	Lost      float64       // share of readings that are lost
	Seed      uint64

	r                                               *rand.Rand
	want, sent, base, entitled, ideal, sums, uneven []float64
	now, next                                       []bandwidth.Allowance
	senders                                         []bandwidth.Sender
	readAt, applyAt                                 time.Duration
	score                                           score
}

// Step is the time between two points of the fluid.
const Step = 5 * time.Millisecond

// Result scores a Run after its warm-up.
type Result struct {
	Satisfied   float64 // % of the 200 ms windows with demand under a guarantee in which at least 95 % of it was sent
	Short       float64 // bits by which guarantees were missed
	Utilisation float64 // % of what the ideal allocator carries
	Changes     float64 // of limits, per second and VM
}

// Do runs the simulation and scores it.
func (r *Run) Do() Result {
	r.score = score{}
	r.score.begin(len(r.Link.Senders))
	r.play(func(t time.Duration) {
		r.Link.Ideal(t, r.want, r.entitled, r.ideal)
		if t >= r.Warm {
			r.score.add(t, r.entitled, r.ideal, r.sent)
		}
	})
	return r.score.result(len(r.senders), (r.Length - r.Warm).Seconds())
}

// play runs the simulation. see is called after each Step, with the time at which it began.
func (r *Run) play(see func(t time.Duration)) {
	r.begin()
	period := max(1, int(r.Period/Step))
	phase := r.r.IntN(period) // demand is not aligned with ticks
	for k := range int(r.Length / Step) {
		t := time.Duration(k) * Step
		if k > 0 && k%period == phase {
			r.tick(t)
		}
		if r.applyAt > 0 && t >= r.applyAt {
			r.apply(t)
		}
		r.step(t)
		see(t)
	}
}

func (r *Run) begin() {
	n := len(r.Link.Senders)
	r.r = rand.New(rand.NewPCG(r.Seed, 1))
	for _, s := range []*[]float64{&r.want, &r.sent, &r.base, &r.entitled, &r.ideal, &r.sums} {
		*s = make([]float64, n)
	}
	r.uneven = nil
	r.readAt, r.applyAt = 0, 0
	r.now, r.next, r.senders = make([]bandwidth.Allowance, n), make([]bandwidth.Allowance, n), make([]bandwidth.Sender, n)
	for i := range r.senders {
		r.now[i] = bandwidth.Unlimited
		id := model.NICID{VM: model.VMID(fmt.Sprintf("vm%04d", i)), NIC: "net0"}
		r.senders[i] = bandwidth.Sender{ID: id, SLA: r.Link.Senders[i].SLA, Age: i}
	}
}

// step advances the fluid from t by one Step.
func (r *Run) step(t time.Duration) {
	if r.Uneven > 0 && (r.uneven == nil || t%(40*time.Millisecond) == 0) {
		r.uneven = r.uneven[:0]
		for range r.sent {
			r.uneven = append(r.uneven, math.Exp(r.Uneven*r.r.NormFloat64()))
		}
	}
	for i := range r.want {
		r.want[i] = r.Link.Senders[i].wants(t)
		r.base[i] = r.want[i]
		if r.Ramp > 0 {
			r.base[i] = min(r.want[i], r.sent[i]+r.Link.Speed*Step.Seconds()/r.Ramp.Seconds())
		}
	}
	r.Link.Carry(t, r.base, r.now, r.uneven, r.sent)
	for i := range r.sent {
		r.sums[i] += r.sent[i]
	}
}

// tick passes readings to the allocator.
func (r *Run) tick(t time.Duration) {
	steps := (t - r.readAt).Seconds() / Step.Seconds() // the first period is a part of one
	for i := range r.senders {
		s := &r.senders[i]
		s.Bits = max(0, r.sums[i]/steps*(1+r.Noise*r.r.NormFloat64()))
		s.Packets = s.Bits / r.Link.Senders[i].frame()
		s.Known = r.r.Float64() >= r.Lost
		if !s.Known {
			s.Bits, s.Packets = 0, 0
		}
	}
	clear(r.sums)
	link := bandwidth.Link{Speed: r.Link.Speed, Packets: inf(r.Link.Packets), Period: t - r.readAt}
	r.readAt = t
	copy(r.next, r.now)
	r.Allocator.Allocate(time.Time{}.Add(t), link, r.senders, r.next)
	r.applyAt = t + max(Step, r.Delay)
}

// apply puts the limits into force.
func (r *Run) apply(t time.Duration) {
	if t > r.Warm {
		for i := range r.now {
			if r.now[i] != r.next[i] {
				r.score.changes++
			}
		}
	}
	copy(r.now, r.next)
	r.applyAt = 0
}
