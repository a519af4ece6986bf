package placement

import (
	"math"
	"slices"
)

// lengths are the last stretches of time that a load stayed high, or low. They stand for
// what the next may be: each is smeared into three, by as much as they differ, and a
// longer one than all of them is always possible.
type lengths struct {
	Last [lengthsKept]float32 // s; the newest is number Seen-1, modulo
	Seen int

	masses [3 * lengthsKept]float32 // s, equally likely, ascending; from Last
	n      int                      // how many of them
}

const (
	lengthsKept = 8
	// What is taken for granted before there are many: variance of their logarithms (a
	// fifth up or down), worth so many of them.
	priorSpread, priorCount = 0.05, 1.5
	// The chance that a stretch ends otherwise than all before it, in masses: it then
	// lasts as long again as it has, as rent-or-buy supposes of every stretch.
	unlike = 0.75
)

func (l *lengths) add(s float64) {
	l.Last[l.Seen%lengthsKept] = float32(s)
	l.Seen++
	l.smear()
}

func (l *lengths) kept() []float32 { return l.Last[:min(l.Seen, lengthsKept)] }

// mean is that of those kept, in seconds.
func (l *lengths) mean() float64 {
	sum := 0.0
	for _, x := range l.kept() {
		sum += float64(x)
	}
	return sum / float64(max(1, len(l.kept())))
}

// smear makes the masses: a kernel estimate of the distribution of logarithms.
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
	away := float32(math.Exp(1.13 * sigma * math.Pow(n, -0.2))) // Scott's rule, three points for the kernel
	for i, x := range kept {
		l.masses[3*i], l.masses[3*i+1], l.masses[3*i+2] = x/away, x, x*away
	}
	l.n = 3 * len(kept)
	slices.Sort(l.masses[:l.n])
}

// benefit is the difference, in packets, that holding a VF makes from that age of a stretch
// on, with the best decisions later: it brings gain packets/s while the stretch lasts,
// then is worth after; getting a VF costs cost. So between two masses whoever has none
// can get one for the cost, and who has one can give it up for nothing.
func (l *lengths) benefit(age, gain, after, cost float64) float64 {
	if l.n == 0 && l.Seen > 0 {
		l.smear() // it was read of a recording
	}
	end := age
	if l.n > 0 {
		end = max(end, float64(l.masses[l.n-1]))
	}
	w := gain*end + after // past all masses: as long again
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

// ends is the chance that a stretch ends at a mass, where so many come after it.
var ends = func() (c [3 * lengthsKept]float64) {
	for i := range c {
		c[i] = 1 / (unlike + 1 + float64(i))
	}
	return c
}()
