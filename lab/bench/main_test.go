package main

import (
	"context"
	"fmt"
	"os"
	"sync"
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

var setUpTwo = sync.OnceValues(func() (*bench, error) {
	return setUp(context.Background(), 2, options{period: 100 * time.Millisecond, cc: "cubic"})
})

// twoGuests returns the bench that all tests share.
func twoGuests(t *testing.T) *bench {
	t.Helper()
	b, err := setUpTwo()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAttackerFollowsWhatItGets checks what an attacker sends while its limit falls to a half.
func TestAttackerFollowsWhatItGets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 s; make long runs it")
	}
	b := twoGuests(t)
	g := guest{flows: 2, attack: &attack{all: s, less: s, part: .7}}
	limit := func(bits float64) {
		if err := b.by.set(0, bits); err != nil {
			t.Error(err)
		}
	}
	limit(.4 * linkBits)
	defer limit(noLimit)
	src, err := dial(0, &g, b.cc, sinkListen)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	tr := trace{begin: time.Now()}
	end := tr.begin.Add(4 * s)
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	var sent sync.WaitGroup
	sent.Go(func() { src.run(&g, tr.begin, end) })
	halve := time.AfterFunc(2*s, func() { limit(.2 * linkBits) })
	defer halve.Stop()
	tr.samples = b.sink.watch(ctx)
	sent.Wait()
	for i, want := range []float64{.4, .28, .2, .14} {
		from := time.Duration(i)*s + 300*time.Millisecond
		if got := tr.rate(0, from, from+600*time.Millisecond) / linkBits; got < .9*want || got > 1.1*want {
			t.Errorf("in second %d it sends %.3f of the link, want %.2f", i+1, got, want)
		}
	}
}

// TestGuaranteeOnRealTCP checks the controller on real queues: without it, five flows of another guest displace a guarantee of half the
// link; with it, the guarantee holds.
func TestGuaranteeOnRealTCP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 40 s; make long runs it")
	}
	b := twoGuests(t)
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
	var runs []result
	for range 3 { // a machine that does other things as well takes the processor from single runs
		runs = append(runs, run("waterfill"))
	}
	satisfied := medianOf(runs, func(r result) float64 { return r.Satisfied })
	used := medianOf(runs, func(r result) float64 { return r.Used })
	t.Logf("with waterfill %.1f %% of the windows were satisfied and %.1f %% of the link was used, medians of three", satisfied, used)
	if satisfied < 90 || used < 90 {
		t.Errorf("with waterfill %.1f %% of the windows were satisfied and %.1f %% of the link was used, want 90 of each", satisfied, used)
	}
}
