package fluid

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"sluice/internal/bandwidth"
)

var table = flag.Bool("table", false, "print what every allocator reaches in every scenario, for docs/measurements.md")

var periods = []time.Duration{200 * time.Millisecond, 40 * time.Millisecond}

// rough is how readings and queues are in these tests.
var rough = Run{Noise: 0.02}

// mean runs a Scenario with three seeds.
func mean(t *testing.T, s Scenario, allocator string, period time.Duration) Result {
	t.Helper()
	const seeds = 3
	var sum Result
	for seed := range uint64(seeds) {
		a, err := bandwidth.NewAllocator(allocator)
		if err != nil {
			t.Fatal(err)
		}
		r := rough
		r.Link, r.Allocator, r.Seed = s.Make(seed+1), a, seed
		r.Period, r.Delay, r.Length, r.Warm = period, period/10, s.Length, 5*time.Second
		res := r.Do()
		sum.Satisfied += res.Satisfied / seeds
		sum.Short += res.Short / seeds
		sum.Utilisation += res.Utilisation / seeds
		sum.Changes += res.Changes / seeds
		sum.Capacity += res.Capacity / seeds
		sum.Recovery = max(sum.Recovery, res.Recovery)
	}
	return sum
}

func TestTable(t *testing.T) {
	if !*table {
		t.Skip("prints a table: go test ./internal/bandwidth/fluid -run TestTable -table -v")
	}
	for _, period := range periods {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
		names := []string{"none", "equal", "daqs", "dbavm", "waterfill"}
		fmt.Fprintf(w, "| P = %v\t", period)
		for _, name := range names {
			fmt.Fprintf(w, "| %s\t", name)
		}
		fmt.Fprintln(w, "|")
		for _, s := range Scenarios() {
			fmt.Fprintf(w, "| %s\t", s.Name)
			for _, name := range names {
				r := mean(t, s, name, period)
				fmt.Fprintf(w, "| %.1f/%.1f/%.1f\t", r.Satisfied, r.Short/gbit, r.Utilisation)
			}
			fmt.Fprintln(w, "|")
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}
