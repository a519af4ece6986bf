package oracle

import (
	"time"

	"sluice/internal/research/sim"
)

// Recorder writes the Log of a simulation. Set Engine.OnEvent to its Note.
type Recorder struct {
	Log   Log
	world *sim.World
	start time.Time
	index map[string]int
	open  []bool
	there int // VMs at the last Note
}

// NewRecorder watches a world for the VMs of these names.
func NewRecorder(w *sim.World, names []string) *Recorder {
	r := &Recorder{world: w, start: w.Now, index: make(map[string]int, len(names)), open: make([]bool, len(names))}
	for i, n := range names {
		r.index[n] = i
	}
	return r
}

// Note records what has changed. VMs that left have returned their VF.
func (r *Recorder) Note(now time.Time) {
	at := now.Sub(r.start)
	seen := 0
	for _, v := range r.world.VMs() {
		i, known := r.index[v.Name]
		if !known {
			continue
		}
		seen++
		if _, open := v.Holds(); open != r.open[i] {
			r.open[i] = open
			r.Log = append(r.Log, Event{At: at, VM: i, On: open})
		}
	}
	if seen < r.there {
		r.gone(at)
	}
	r.there = seen
}

// gone ends the use of a VF by VMs that are no longer there.
func (r *Recorder) gone(at time.Duration) {
	here := make([]bool, len(r.open))
	for _, v := range r.world.VMs() {
		if i, known := r.index[v.Name]; known {
			here[i] = true
		}
	}
	for i, open := range r.open {
		if open && !here[i] {
			r.open[i] = false
			r.Log = append(r.Log, Event{At: at, VM: i})
		}
	}
}
