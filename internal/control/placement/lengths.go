package placement

import (
	"math"
	"slices"
)

// lengths are the durations of the last stretches in which a load stayed high, or low. They estimate the next one: each is
// spread into three masses, by as much as they differ, and a stretch longer than all of them always remains possible.
type lengths struct {
	Last [lengthsKept]float32 // s; the newest is at index (Seen-1) modulo lengthsKept
	Seen int

	masses [3 * lengthsKept]float32 // s, equally likely, ascending; derived from Last
	n      int                      // number of masses
}

const (
	lengthsKept = 8
	// The prior: a variance of the logarithms (a fifth up or down), and its weight in observations.
	priorSpread, priorCount = 0.05, 1.5
	// The chance that a stretch ends unlike all before it, in masses: it then lasts as long again as it has so far, as
	// rent-or-buy assumes of every stretch.
	unlike = 0.75
)

func (l *lengths) add(s float64) {
	l.Last[l.Seen%lengthsKept] = float32(s)
	l.Seen++
	l.smear()
}

func (l *lengths) kept() []float32 { return l.Last[:min(l.Seen, lengthsKept)] }

// mean is the mean of the lengths kept, in seconds.
func (l *lengths) mean() float64 {
	sum := 0.0
	for _, x := range l.kept() {
		sum += float64(x)
	}
	return sum / float64(max(1, len(l.kept())))
}

// smear computes the masses: a kernel estimate of the distribution of the logarithms.
func (l *lengths) smear() {
	kept := l.kept()
	n := float64(len(kept))
	mean, squares := 0.0, 0.0
	for _, x := range kept {
		mean += math.Log(float64(x)) / n
	}
	for _, x := range kept {
		d := math.Log(float64(x)) - mean
		squares += d * d
	}
	sigma := math.Sqrt((priorCount*priorSpread + squares) / (priorCount + n - 1))
	away := float32(math.Exp(1.13 * sigma * math.Pow(n, -0.2))) // bandwidth by Scott's rule; the kernel is three points
	for i, x := range kept {
		l.masses[3*i], l.masses[3*i+1], l.masses[3*i+2] = x/away, x, x*away
	}
	l.n = 3 * len(kept)
	slices.Sort(l.masses[:l.n])
}

// benefit is the difference in packets between holding a VF and not from this age of a stretch on, with optimal decisions
// afterwards: a VF gains gain packets/s while the stretch lasts, then is worth after; getting one costs cost. So between two
// masses a VM without a VF can get one for cost, and a holder can give its VF up for nothing.
func (l *lengths) benefit(age, gain, after, cost float64) float64 {
	if l.n == 0 && l.Seen > 0 {
		l.smear() // it was read from a recording
	}
	end := age
	if l.n > 0 {
		end = max(end, float64(l.masses[l.n-1]))
	}
	w := gain*end + after // past all masses the stretch lasts as long again
	for i := l.n - 1; i >= 0; i-- {
		x := float64(l.masses[i])
		if x <= age {
			break
		}
		if w < 0 {
			w = 0
		} else if w > cost {
			w = cost
		}
		chance := ends[l.n-1-i]
		w = after*chance + w*(1-chance)
		from := age
		if i > 0 {
			if y := float64(l.masses[i-1]); y > age {
				from = y
			}
		}
		w += gain * (x - from)
	}
	return w
}

// ends is the chance that a stretch ends at a mass, indexed by the number of masses after it.
var ends = func() (c [3 * lengthsKept]float64) {
	for i := range c {
		c[i] = 1 / (unlike + 1 + float64(i))
	}
	return c
}()
