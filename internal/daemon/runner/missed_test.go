package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// Two ticks that are two periods apart have one period without readings between them.
func TestMissedPeriods(t *testing.T) {
	const period = 100 * time.Millisecond
	for apart, want := range map[time.Duration]uint64{
		0: 0, period: 0, period + 40*time.Millisecond: 0, 2 * period: 1, 2*period - 40*time.Millisecond: 1, 3 * period: 2, 10 * period: 9,
	} {
		if got := missed(apart, period); got != want {
			t.Errorf("ticks %s apart: %d periods missed, want %d", apart, got, want)
		}
	}
}

// hangsOnce are counters whose first reading takes three periods.
type hangsOnce struct {
	still
	reads int
}

func (h *hangsOnce) Read(ctx context.Context, buf []bandwidth.Reading) ([]bandwidth.Reading, error) {
	if h.reads++; h.reads == 1 {
		time.Sleep(3 * 200 * time.Millisecond)
	}
	return h.still.Read(ctx, buf)
}

// Of the ticks due while a reading takes three periods one comes late, and two never come.
func TestLatePeriodsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = 200 * time.Millisecond
		core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "none", Period: period})
		if err != nil {
			t.Fatal(err)
		}
		r := (&Bandwidth{Core: core, Counters: &hangsOnce{}, Period: period}).Init()
		r.Follow(time.Now(), bandwidth.World{ // one with a limit, as otherwise counters are read less often
			Snapshot: &model.Snapshot{VMs: []model.VM{{ID: "a", State: model.VMRunning, NICs: []model.NIC{{Alias: "ua-0"}}}}},
			Rules:    model.Rules{VMs: []model.VMRule{{Match: "a", SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}}}},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*period+period/2)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got := r.View().Late; got != 2 {
			t.Errorf("%d late periods, want 2", got)
		}
	})
}
