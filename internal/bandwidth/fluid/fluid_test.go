package fluid

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"sluice/internal/bandwidth"
)

var table = flag.Bool("table", false, "print every allocator's result in every scenario")
var only = flag.String("only", "", "scenarios of the table, by name")
var allocs = flag.String("allocs", "none,daqs,dbavm,waterfill", "allocators")
var noise = flag.Float64("noise", 0.02, "noise")
var uneven = flag.Float64("uneven", 0, "uneven")
var ramp = flag.Duration("ramp", 0, "ramp")

// mean runs a Scenario with several seeds.
func mean(t *testing.T, s Scenario, allocator string, period time.Duration, seeds int) Result {
	t.Helper()
	var sum Result
	for seed := range uint64(seeds) {
		a, err := bandwidth.NewAllocator(allocator)
		if err != nil {
			t.Fatal(err)
		}
		r := Run{Link: s.Make(seed + 1), Allocator: a, Period: period, Delay: period / 10, Length: s.Length, Warm: 5 * time.Second, Noise: *noise, Uneven: *uneven, Ramp: *ramp, Seed: seed}
		res := r.Do()
		n := float64(seeds)
		sum.Satisfied += res.Satisfied / n
		sum.Short += res.Short / n
		sum.Utilisation += res.Utilisation / n
		sum.Changes += res.Changes / n
		sum.Recovery = max(sum.Recovery, res.Recovery)
		sum.Chat += res.Chat / n
	}
	return sum
}

// TestTable prints the side-by-side table of docs/measurements.md.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("only with -table")
	}
	names := strings.Split(*allocs, ",")
	for _, period := range []time.Duration{200 * time.Millisecond, 40 * time.Millisecond} {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "period %v\t%s\n", period, strings.Join(names, "\t"))
		for _, s := range Scenarios() {
			if *only != "" && s.Name != *only {
				continue
			}
			fmt.Fprintf(w, "%s", s.Name)
			for _, a := range names {
				r := mean(t, s, a, period, 3)
				fmt.Fprintf(w, "\t%.1f/%.1f/%.1f r%d c%.1f C%.2f", r.Satisfied, r.Short/gbit, r.Utilisation, r.Recovery.Milliseconds(), r.Changes, r.Chat/gbit)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
	}
}
