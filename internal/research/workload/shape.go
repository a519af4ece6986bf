package workload

import (
	"math"
	"time"
)

// Shape is a level over the time since the start of a workload, such as packets/s or CPUs in use.
type Shape interface {
	Level(since time.Duration) float64
}

// Flat is a level that does not change.
type Flat float64

// Level implements Shape.
func (f Flat) Level(time.Duration) float64 { return float64(f) }

// Duty is a duty cycle: High for On, then Low for Off, and so on. At time 0, Phase of the cycle has already passed.
type Duty struct {
	High, Low      float64
	On, Off, Phase time.Duration
}

// Level implements Shape.
func (d Duty) Level(since time.Duration) float64 {
	cycle := d.On + d.Off
	if cycle <= 0 {
		return d.High
	}
	at := (since + d.Phase) % cycle
	if at < 0 {
		at += cycle
	}
	if at < d.On {
		return d.High
	}
	return d.Low
}

// Wave is a daily pattern: a sine around Mean with an amplitude of Swing (0..1 of Mean), one cycle per Period, and its crest at Crest.
type Wave struct {
	Mean, Swing   float64
	Period, Crest time.Duration
}

// Level implements Shape.
func (w Wave) Level(since time.Duration) float64 {
	turn := float64(since-w.Crest) / float64(w.Period)
	return w.Mean * (1 + w.Swing*math.Cos(2*math.Pi*turn))
}

// Flash is a flash crowd: Base until At, then a linear Rise to Peak, which lasts for Hold and decays exponentially with time constant
// Fall.
type Flash struct {
	Base, Peak           float64
	At, Rise, Hold, Fall time.Duration
}

// Level implements Shape.
func (f Flash) Level(since time.Duration) float64 {
	t := since - f.At
	over := f.Peak - f.Base
	switch {
	case t < 0:
		return f.Base
	case t < f.Rise:
		return f.Base + over*float64(t)/float64(f.Rise)
	case t < f.Rise+f.Hold:
		return f.Peak
	case f.Fall <= 0:
		return f.Base
	}
	return f.Base + over*math.Exp(-float64(t-f.Rise-f.Hold)/float64(f.Fall))
}
