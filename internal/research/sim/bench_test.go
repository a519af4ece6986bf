package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"sluice/internal/model"
)

// BenchmarkTickManyVMs is BenchmarkTick for 5,000 VMs and 64 VFs.
func BenchmarkTickManyVMs(b *testing.B) {
	h := manyVMs(b, model.Rules{Policy: "adaptive", Interval: 5 * time.Minute})
	h.run(3 * time.Minute)
	h.ticks(b)
}

// BenchmarkSort is the reference for BenchmarkTick on any machine.
func BenchmarkSort(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	in := make([][]float64, 64) // more than a branch predictor learns by heart
	for i := range in {
		in[i] = make([]float64, 1000)
		for j := range in[i] {
			in[i][j] = r.Float64()
		}
	}
	out := make([]float64, 1000)
	for i := 0; b.Loop(); i++ {
		copy(out, in[i%len(in)])
		sort.Float64s(out)
	}
}

// BenchmarkTick measures deciding, planning and checking for 1,000 VMs and 256 VFs at rest, which is nearly every tick of a daemon.
func BenchmarkTick(b *testing.B) {
	for _, policy := range []string{"adaptive", "activity", "fair"} {
		b.Run(policy, func(b *testing.B) {
			h := newHost(b, 0, 128, model.Rules{Policy: policy, Interval: 300 * time.Second})
			h.World.AddPF("pf1", "br0", 128, 1)
			for i := range 1000 {
				h.World.AddVM(i, fmt.Sprintf("vm%d", i), "br0", Constant{PPS: float64(1000 + i*7919%1000)})
			}
			h.run(120 * time.Second)
			h.ticks(b)
		})
	}
}

// ticks measures ticks at rest.
func (h *host) ticks(b *testing.B) {
	if !h.atRest() {
		b.Fatal("not at rest")
	}
	snap, err := h.World.Snapshot(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	now := h.World.Now
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		snap.Time = now
		h.Core.Tick(now, snap)
	}
	if !h.atRest() {
		b.Fatal("the host moved: this is not a tick at rest")
	}
}
