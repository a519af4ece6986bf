package sim

import (
	"context"
	"testing"
	"time"

	"sluice/internal/model"
)

// BenchmarkHour measures an hour of 100 VMs and 63 VFs at 1 s in the full loop, loads
// that change included: a week must take less than a minute, so an hour 0.35 s.
func BenchmarkHour(b *testing.B) {
	for _, policy := range []string{"activity", "fair", "vnraf", "rentbuy", "adaptive"} {
		b.Run(policy, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h := newHost(b, 100, 63, model.Rules{Policy: policy, Interval: 300 * time.Second})
				for n := range 36 {
					h.At(epoch.Add(time.Duration(n)*100*time.Second), func() { h.loads[n*7%100].pps = float64(1000 * (n * 13 % 100)) })
				}
				if err := h.Run(context.Background(), epoch.Add(time.Hour)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/3600, "us/tick")
		})
	}
}
