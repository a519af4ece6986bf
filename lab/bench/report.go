package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	mostLate  = 5    // late ticks in a valid run
	lateShare = 0.01 // or this share of all, in a run of minutes
	mostTries = 3    // tries per repeat to get a valid run
)

// report prints a line per scenario and allocator, and stores every run.
type report struct {
	o      options
	headed bool
}

// entry is what is written to the file: the result and parameters of a run.
type entry struct {
	Time      time.Time `json:"time"`
	Scenario  string    `json:"scenario"`
	Allocator string    `json:"allocator"`
	Period    string    `json:"period"`
	RTT       string    `json:"rtt"`
	CC        string    `json:"cc"`
	Enforcer  string    `json:"enforcer"`
	Load      string    `json:"loadavg"` // of the machine, over one minute
	Discarded bool      `json:"discarded,omitempty"`
	result
}

// repeat runs a scenario the requested number of times, and prints the medians and the number of discarded runs.
func (r *report) repeat(ctx context.Context, b *bench, sc *scenario, allocator string) error {
	if allocator == "daqs" && sc.daqs > 0 {
		longer := *sc
		longer.length, sc = sc.daqs, &longer
	}
	var kept []result
	discarded := 0
	for len(kept) < r.o.repeats {
		if discarded == mostTries*r.o.repeats {
			break
		}
		run, err := b.run(ctx, sc, allocator)
		if err != nil {
			return err
		}
		bad := run.Late > max(mostLate, int(lateShare*float64(sc.length/r.o.period)))
		if err := r.keep(sc, allocator, run, bad); err != nil {
			return err
		}
		if bad {
			discarded++
			continue
		}
		kept = append(kept, run)
	}
	r.line(sc, allocator, kept, discarded)
	return nil
}

func (r *report) keep(sc *scenario, allocator string, run result, discarded bool) error {
	return r.o.keep(entry{
		time.Now().UTC(), sc.name, allocator, r.o.period.String(), r.o.rtt.String(), r.o.cc, r.o.enforcer, load(), discarded,
		run,
	})
}

// load returns the machine's one-minute load average.
func load() string {
	data, _ := os.ReadFile("/proc/loadavg") // "" if the file is missing
	one, _, _ := strings.Cut(string(data), " ")
	return one
}

func (r *report) line(sc *scenario, allocator string, kept []result, discarded int) {
	if !r.headed {
		fmt.Printf("period %v, RTT %v, %s, limits by %s, median of %d; load %s at the beginning\n\n", r.o.period, r.o.rtt, r.o.cc, r.o.enforcer,
			r.o.repeats, load())
		fmt.Println("| scenario | allocator | satisfied % | worst | short Mbit | used % | changes/s VM | recovery s | found s | sent again " +
			"| late | discarded | VM to VM Mbit/s |")
		fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
		r.headed = true
	}
	if len(kept) == 0 {
		fmt.Printf("| %s | %s | all %d runs had too many late ticks | | | | | | | | | %d | |\n", sc.name, allocator, discarded,
			discarded)
		return
	}
	m := func(of func(result) float64) float64 { return medianOf(kept, of) }
	satisfied := func(x result) float64 { return x.Satisfied }
	worst := slices.MinFunc(kept, func(a, b result) int { return cmp.Compare(a.Satisfied, b.Satisfied) })
	fmt.Printf("| %s | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %s | %s | %.0f | %.0f | %d | %.0f |\n", sc.name, allocator,
		m(satisfied), worst.Satisfied, m(func(x result) float64 { return x.Short }), m(func(x result) float64 { return x.Used }),
		m(func(x result) float64 { return x.Changes }),
		seconds(m(func(x result) float64 { return x.Recovery })), seconds(m(func(x result) float64 { return x.Found })),
		m(func(x result) float64 { return float64(x.Again) }), m(func(x result) float64 { return float64(x.Late) }), discarded,
		m(func(x result) float64 { return x.Local }))
}

func seconds(s float64) string {
	if s < 0 || math.IsNaN(s) {
		return "-"
	}
	return fmt.Sprintf("%.2f", s)
}
