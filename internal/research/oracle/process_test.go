package oracle

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"sluice/internal/research/workload"
)

// phase is a stretch of time at one level, of a length that is not known in advance.
type phase struct {
	level float64   // packets/s
	ends  []float64 // probability that it ends after 1, 2, ... seconds if it has lasted that long; the last holds for all older ones
	next  []float64 // probability of each phase that may follow
	start bool      // a run begins in it, and it is never entered again
}

// process is all that can be known of a source that runs through phases at random.
type process []phase

// Histories of a source are watched to learn its process.
const (
	histories = 4000
	stretches = 8   // of each, the first one included
	oldest    = 600 // s; older stretches are alike
	steps     = 30  // levels that represent those of a walk
)

// again returns the same source with another history, or nil for one without randomness.
func again(s workload.Shape, seed uint64) workload.Shape {
	switch s := s.(type) {
	case *workload.Bursts:
		return s.Again(seed)
	case *workload.Walk:
		return &workload.Walk{Low: s.Low, High: s.High, Every: s.Every, Seed: seed}
	}
	return nil
}

// kind returns a key that is equal for sources of the same process, and practically never for others.
func kind(s workload.Shape) string {
	history := again(s, 1)
	var levels []float64
	for t := range 1000 {
		levels = append(levels, history.Level(time.Duration(t)*time.Second))
	}
	return fmt.Sprint(levels)
}

// watch learns the process of a source, in samples of a second.
func watch(s workload.Shape) process {
	levels, walk := levelsOf(s)
	n := len(levels)
	p := make(process, 2*n) // the phases, then those in which a run begins
	lengths := make([][]int, len(p))
	for seed := range uint64(histories) {
		history := again(s, seed+2)
		was, length, seen := history.Level(0), 1, 0
		for t := time.Second; seen < stretches; t += time.Second {
			now := history.Level(t)
			if now == was {
				length++
				continue
			}
			for k := range n {
				if walk || k == nearest(levels, was) {
					to := k
					if seen == 0 {
						to += n
					}
					lengths[to] = append(lengths[to], length)
				}
			}
			was, length = now, 1
			seen++
		}
	}
	for k := range p {
		p[k] = phase{level: levels[k%n], ends: hazards(lengths[k]), next: make([]float64, len(p)), start: k >= n}
		for j := range n {
			switch {
			case walk:
				p[k].next[j] = 1 / float64(n)
			case j != k%n:
				p[k].next[j] = 1
			}
		}
	}
	return p
}

// levelsOf returns a source's levels, and whether each may follow each.
func levelsOf(s workload.Shape) (levels []float64, walk bool) {
	if w, ok := s.(*workload.Walk); ok {
		for k := range steps {
			levels = append(levels, w.Low*math.Pow(w.High/w.Low, (float64(k)+0.5)/steps))
		}
		return levels, true
	}
	history := again(s, 1)
	first := history.Level(0)
	for t := time.Second; ; t += time.Second {
		if x := history.Level(t); x != first {
			return []float64{min(first, x), max(first, x)}, false
		}
	}
}

// nearest returns the index of the nearest level.
func nearest(levels []float64, x float64) int {
	best := 0
	for k, l := range levels {
		if math.Abs(l-x) < math.Abs(levels[best]-x) {
			best = k
		}
	}
	return best
}

// hazards returns the probabilities that a stretch ends, by its age. Stretches that are nearly exponential have no memory: one probability
// suffices.
func hazards(lengths []int) []float64 {
	slices.Sort(lengths)
	sum, n := 0.0, float64(len(lengths))
	for _, l := range lengths {
		sum += float64(l)
	}
	off := 0.0
	for i, l := range lengths {
		if i+1 == len(lengths) || lengths[i+1] != l {
			off = max(off, math.Abs(float64(i+1)/n-(1-math.Pow(1-n/sum, float64(l)))))
		}
	}
	if off < 0.02 {
		return []float64{n / sum}
	}
	var ends []float64
	for age := 1; age < oldest && len(lengths) > 0; age++ {
		k, _ := slices.BinarySearch(lengths, age+1)
		ends = append(ends, float64(k)/float64(len(lengths)))
		lengths = lengths[k:]
	}
	if len(lengths) > 0 {
		sum := 0
		for _, l := range lengths {
			sum += l - oldest + 1
		}
		ends = append(ends, float64(len(lengths))/float64(sum))
	}
	return ends
}

// moment is what is known of a VM from its samples: its phase, and how long it has lasted.
type moment struct{ phase, age int }

// follow returns the moment at every sample of a history.
func (p process) follow(pps []float64) []moment {
	levels := make([]float64, len(p)/2)
	for k := range levels {
		levels[k] = p[k].level
	}
	out := make([]moment, len(pps))
	for t, x := range pps {
		switch {
		case t == 0:
			out[t] = moment{phase: nearest(levels, x) + len(levels), age: 1}
		case x == pps[t-1]:
			out[t] = moment{phase: out[t-1].phase, age: out[t-1].age + 1}
		default:
			out[t] = moment{phase: nearest(levels, x), age: 1}
		}
	}
	return out
}

// TestWatch checks the mean and the least length of stretches in the process that is learned from a source.
func TestWatch(t *testing.T) {
	const s = time.Second
	p := watch(workload.NewBursts(1, 9, 2, workload.Uniform(10*s, 14*s), workload.Pareto(2, 20*s), 0.3))
	q := watch(workload.NewBursts(1, 9, 2, workload.Exponential(30*s), workload.Uniform(10*s, 14*s), 0.3))
	for _, c := range []struct {
		name        string
		phase       phase
		level       float64
		states      int // ages that differ; 0: any number
		mean, least float64
	}{
		{"uniform", p[1], 9, 0, 12, 10},
		{"heavy-tailed", p[0], 2, oldest, 20, 10},
		{"memoryless", q[1], 9, 1, 30, 1},
	} {
		left, mean, least := 1.0, 0.0, 0.0
		for age := 1; left > 1e-6; age++ {
			mean += left
			end := c.phase.ends[min(age, len(c.phase.ends))-1]
			if end > 0 && least == 0 {
				least = float64(age)
			}
			left *= 1 - end
		}
		if c.phase.level != c.level || math.Abs(mean-c.mean) > 0.05*c.mean || math.Abs(least-c.least) > 1 {
			t.Errorf("%s: level %v, mean length %.1f s, least %v s; want %v, %v, %v", c.name, c.phase.level, mean, least, c.level, c.mean, c.least)
		}
		if n := len(c.phase.ends); c.states > 0 && n != c.states {
			t.Errorf("%s: %d ages differ, want %d", c.name, n, c.states)
		}
	}
}
