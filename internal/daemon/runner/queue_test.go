package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// A Limit that waits while its enforcer is busy is replaced by a newer one of the same NIC: the enforcer never gets an outdated
// one.
func TestNewerLimitReplacesTheOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &enforcer{slow: time.Second}
		ctrl, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "none", Period: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		r := (&Bandwidth{Core: ctrl, Counters: &still{}, Enforcers: []loop.Enforcer{e}}).Init()
		snap, err := (&world{}).Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		r.Follow(time.Now(), bandwidth.World{Snapshot: snap})
		limit := func(vm model.VMID, bits uint64) model.Limit {
			return model.Limit{LimitKey: model.LimitKey{VM: vm, NIC: "ua-0"}, Contract: model.Rate{Bits: bits}}
		}
		order := func(vm model.VMID, bits uint64) bandwidth.Order {
			return bandwidth.Order{Limit: limit(vm, bits)}
		}
		batches := [][]bandwidth.Order{{order("a", 1)}, {order("a", 2), order("b", 3)}, {order("a", 4)}}
		for _, batch := range batches {
			r.mu.Lock()
			r.dispatch(batch)
			r.mu.Unlock()
			synctest.Wait() // the first batch is with the enforcer now, the others wait
		}
		time.Sleep(3 * time.Second)
		e.mu.Lock()
		defer e.mu.Unlock()
		want := [][]model.Limit{{limit("a", 1)}, {limit("a", 4), limit("b", 3)}}
		if len(e.asked) != len(want) {
			t.Fatalf("asked for %+v, want %+v", e.asked, want)
		}
		for i := range want {
			for k := range want[i] {
				if len(e.asked[i]) != len(want[i]) || e.asked[i][k] != want[i][k] {
					t.Errorf("batch %d: %+v, want %+v", i, e.asked[i], want[i])
				}
			}
		}
	})
}
