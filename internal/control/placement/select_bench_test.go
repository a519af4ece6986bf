package placement

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"sluice/internal/model"
)

// BenchmarkSelect compares one decision of adaptive over 1,000 VMs and 256 VFs with sorts of 1,000 random floats, for constant loads
// and for bursts of known lengths.
func BenchmarkSelect(b *testing.B) {
	for _, load := range []string{"steady", "bursts"} {
		b.Run(load, func(b *testing.B) {
			p, err := NewPolicy(model.Rules{Policy: "adaptive"})
			if err != nil {
				b.Fatal(err)
			}
			cands, out := make([]Candidate, 1000), make([]model.Reason, 1000)
			for i := range cands {
				cands[i] = Candidate{VM: model.VMID(fmt.Sprintf("%06d", i)), Name: fmt.Sprintf("vm%d", i), Weight: 1, Known: true}
			}
			s := 0
			tick := func() {
				for i := range cands {
					c := &cands[i]
					c.Holds = out[i].Hold
					c.PPS = float64(1000 + i*7919%1000)
					if phase := 20 + i%70; load == "bursts" && (s+i*31)%(2*phase) < phase {
						c.PPS *= 50
					}
				}
				p.Select(start.Add(time.Duration(s)*time.Second), cands, 256, out)
				s++
			}
			for range 1800 {
				tick()
			}
			b.ReportAllocs()
			for b.Loop() {
				tick()
			}
		})
	}
	b.Run("sort", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 1))
		in := make([][]float64, 64) // more than a branch predictor learns by heart
		for i := range in {
			for range 1000 {
				in[i] = append(in[i], r.Float64())
			}
		}
		out := make([]float64, 1000)
		for i := 0; b.Loop(); i++ {
			copy(out, in[i%len(in)])
			sort.Float64s(out)
		}
	})
}
