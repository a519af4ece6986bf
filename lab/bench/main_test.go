package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if !isolated() {
		os.Exit(isolate())
	}
	if err := enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestGuaranteeOnRealTCP checks the controller on real queues: without it, five flows of another guest displace a guarantee of half the
// link; with it, the guarantee holds.
func TestGuaranteeOnRealTCP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 30 s; make long runs it")
	}
	b, err := setUp(t.Context(), 2, options{period: 40 * time.Millisecond, cc: "cubic"})
	if err != nil {
		t.Fatal(err)
	}
	sc := oneAgainstFive("a50", .5)
	run := func(allocator string) result {
		for range mostTries {
			r, err := b.run(t.Context(), &sc, allocator)
			if err != nil {
				t.Fatal(err)
			}
			if r.Late <= mostLate {
				return r
			}
			t.Logf("%s: discarded, the controller was late %d times", allocator, r.Late)
		}
		t.Fatalf("%s: the controller was late too often in each of %d runs; is SCHED_RR missing?", allocator, mostTries)
		return result{}
	}
	if r := run("none"); r.Satisfied > 50 {
		t.Errorf("without control %.1f %% of the windows were satisfied: the bed makes no contention", r.Satisfied)
	}
	if r := run("waterfill"); r.Satisfied < 90 || r.Used < 90 {
		t.Errorf("with waterfill %.1f %% of the windows were satisfied and %.1f %% of the link was used, want 90 of each", r.Satisfied, r.Used)
	}
}
