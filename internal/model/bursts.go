package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bursts is what a policy has learned of a load that alternates between high and low.
type Bursts struct {
	High float64 `json:"high_s"` // mean duration of the last few high phases, s
	Low  float64 `json:"low_s"`  // mean duration of the low phases between them, s
	Seen int     `json:"seen"`   // complete bursts seen; 0: nothing is known
}

// String describes the bursts: "last 48 s, 1m50s between them; 20 seen".
func (b Bursts) String() string {
	return fmt.Sprintf("last %s, %s between them; %d seen", Lasting(b.High), Lasting(b.Low), b.Seen)
}

// Lasting prints a mean duration in seconds with reasonable precision: "7.3 s", "48 s", "1m50s", "25m".
func Lasting(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	if d < time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	}
	return Span(d)
}

// Span prints a duration without zero parts: "1h", "7d", "10m".
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		rest := Span(d % day)
		return fmt.Sprintf("%dd%s", d/day, strings.TrimPrefix(rest, "0s"))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
