package workload

import (
	"math"
	"time"
)

// Shape is a level over the time since the start of a workload. What the level means
// is up to its user; a VM's Load multiplies it by packets per second.
type Shape interface {
	Level(since time.Duration) float64
}

// Flat is a level that does not change.
type Flat float64

// Level implements Shape.
func (f Flat) Level(time.Duration) float64 { return float64(f) }

// Duty is High for On, then Low for Off, and so on for ever: a duty cycle. Phase moves
// it: at time 0 it is as if Phase had passed. One with On = Off flips.
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

// Wave is a day: a sine around Mean that swings by Swing (0..1 of Mean) once per
// Period. Its crest is at Crest.
type Wave struct {
	Mean, Swing   float64
	Period, Crest time.Duration
}

// Level implements Shape.
func (w Wave) Level(since time.Duration) float64 {
	turn := float64(since-w.Crest) / float64(w.Period)
	return w.Mean * (1 + w.Swing*math.Cos(2*math.Pi*turn))
}

// Flash is a flash crowd: Base until At, then a straight Rise to Peak, which lasts for
// Hold and falls off exponentially with time constant Fall.
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

// Stage is a Shape that begins at From; it goes on until the next Stage's.
type Stage struct {
	From  time.Duration
	Shape Shape
}

// Stages plays Shapes one after the other; 0 before the first. Each Shape sees the
// time since the start of the workload, not of its stage. Stages must be in order.
type Stages []Stage

// Level implements Shape.
func (s Stages) Level(since time.Duration) float64 {
	for i := len(s) - 1; i >= 0; i-- {
		if since >= s[i].From {
			return s[i].Shape.Level(since)
		}
	}
	return 0
}

// Sum adds Shapes up.
type Sum []Shape

// Level implements Shape.
func (s Sum) Level(since time.Duration) float64 {
	sum := 0.0
	for _, x := range s {
		sum += x.Level(since)
	}
	return sum
}
