package workload

import (
	"math"
	"math/rand/v2"
	"time"
)

// Draw draws the length of a stretch.
type Draw func(r *rand.Rand) time.Duration

// Uniform stretches have any length between least and most with equal probability.
func Uniform(least, most time.Duration) Draw {
	return func(r *rand.Rand) time.Duration { return least + time.Duration(r.Float64()*float64(most-least)) }
}

// Exponential stretches have no memory: the time that one has lasted does not predict its end.
func Exponential(mean time.Duration) Draw {
	return func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
}

// Pareto stretches have a heavy tail with exponent alpha > 1: most are short, and one that has lasted long is likely to last much longer.
// None exceeds 100 times the mean, so that a single draw does not decide a short run.
func Pareto(alpha float64, mean time.Duration) Draw {
	least := float64(mean) * (alpha - 1) / alpha
	return func(r *rand.Rand) time.Duration {
		return time.Duration(min(least/math.Pow(1-r.Float64(), 1/alpha), 100*float64(mean)))
	}
}

// Bursts is an on/off source: high and low alternate, each for a random stretch. It starts in a random state at a random point of the
// first stretch.
type Bursts struct {
	high, low float64
	on, off   Draw
	start     float64 // probability that it begins on
	seed      uint64

	rand  *rand.Rand
	begin time.Duration // of the current stretch
	end   time.Duration
	isOn  bool
}

// NewBursts makes an on/off source that begins on with probability busy.
func NewBursts(seed uint64, high, low float64, on, off Draw, busy float64) *Bursts {
	b := &Bursts{high: high, low: low, on: on, off: off, start: busy, seed: seed}
	b.rewind()
	return b
}

// Again returns the same source with the history of another seed.
func (b *Bursts) Again(seed uint64) *Bursts {
	return NewBursts(seed, b.high, b.low, b.on, b.off, b.start)
}

func (b *Bursts) rewind() {
	b.rand = rand.New(rand.NewPCG(b.seed, 0x6275727374)) // its own random stream
	b.isOn = b.rand.Float64() < b.start
	b.begin, b.end = 0, time.Duration(b.rand.Float64()*float64(b.draw()))
}

// draw never returns 0, so that time advances.
func (b *Bursts) draw() time.Duration {
	d := b.off
	if b.isOn {
		d = b.on
	}
	return max(d(b.rand), time.Millisecond)
}

// Level implements Shape.
func (b *Bursts) Level(since time.Duration) float64 {
	if since < b.begin {
		b.rewind()
	}
	for since >= b.end {
		b.isOn = !b.isOn
		b.begin, b.end = b.end, b.end+b.draw()
	}
	if b.isOn {
		return b.high
	}
	return b.low
}

// Jitter varies a Shape by up to Share of itself, with a new value every Every. The variation belongs to the load: all observers see
// the same.
type Jitter struct {
	Shape Shape
	Share float64
	Every time.Duration
	Seed  uint64
}

// Level implements Shape.
func (j Jitter) Level(since time.Duration) float64 {
	u := Unit(j.Seed, uint64(since/max(j.Every, 1)))
	return j.Shape.Level(since) * (1 + j.Share*(2*u-1))
}

// Walk jumps to a new level between Low and High (log-uniform) after each random stretch.
type Walk struct {
	Low, High float64
	Every     Draw
	Seed      uint64

	rand       *rand.Rand
	begin, end time.Duration
	level      float64
}

// Level implements Shape.
func (w *Walk) Level(since time.Duration) float64 {
	if w.rand == nil || since < w.begin {
		w.rand = rand.New(rand.NewPCG(w.Seed, 0x77616c6b))
		w.begin, w.end = 0, 0
	}
	for since >= w.end {
		w.level = w.Low * math.Pow(w.High/w.Low, w.rand.Float64())
		w.begin, w.end = w.end, w.end+max(w.Every(w.rand), time.Millisecond)
	}
	return w.level
}

// Unit hashes a seed and a number to [0, 1): random access without state.
func Unit(seed, n uint64) float64 { return float64(Mix(Mix(seed)+n)>>11) / (1 << 53) }

// Mix is the splitmix64 hash.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
