package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bursts is what a policy has learned of a load that is high and low in turn.
type Bursts struct {
	High float64 `json:"high_s"` // s that it is high at a time, the mean of the last few
	Low  float64 `json:"low_s"`  // s between, likewise
	Seen int     `json:"seen"`   // bursts seen from start to end; 0: nothing is known
}

// String says what bursts do: "last 48 s, 1m50s between them; 20 seen".
func (b Bursts) String() string {
	return fmt.Sprintf("last %s, %s between them; %d seen", Lasting(b.High), Lasting(b.Low), b.Seen)
}

// Lasting prints so many seconds as precisely as their mean is worth reading: "7.3 s", "48 s", "1m50s", "25m".
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

// Span prints a duration without needless parts: "1h", "7d", "10m".
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
