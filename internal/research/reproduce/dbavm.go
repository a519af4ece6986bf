package reproduce

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/research/scenario"
)

var dbavm = []Experiment{
	{Figure: "figure-2", Run: dbavmFigure2, Sweeps: []Sweep{{
		Open: "packets/s of 64 bytes that VM1 and VM3 send", Ours: "96,000", Values: []float64{50e3, 80e3, 90e3, 96e3, 110e3, 150e3, 300e3},
		Conclusion: "without control VM2 has less than its 700 Mbit/s", Measures: "VM2, Mbit/s",
		Try: func(ctx context.Context, x float64) (float64, bool, error) {
			rates, err := mbits(ctx, "dbavm-64-bytes.yaml", "native", func(s *scenario.Scenario) { s.VMs[0].Load.PPS, s.VMs[2].Load.PPS = x, x })
			if err != nil {
				return 0, false, err
			}
			return rates[1], rates[1] < 0.95*700, nil
		},
	}}},
}

func dbavmFigure2(ctx context.Context) (*Measured, error) {
	m := numbers(map[string]float64{})
	for n, file := range []string{"dbavm-1500-bytes.yaml", "dbavm-64-bytes.yaml"} {
		rates, err := mbits(ctx, file, "native", nil)
		if err != nil {
			return nil, err
		}
		for i, x := range rates {
			m.Values[fmt.Sprintf("scenario %d, VM%d", n+1, i+1)] = Value{Number: x}
		}
	}
	return m, nil
}

// mbits returns the mean Mbit/s on the wire of each VM under an allocator.
func mbits(ctx context.Context, file, label string, change func(*scenario.Scenario)) ([]float64, error) {
	var duration time.Duration
	r, err := play(ctx, file, func(s *scenario.Scenario) {
		if change != nil {
			change(s)
		}
		duration = s.Duration
	})
	if err != nil {
		return nil, err
	}
	k, err := allocator(r, label)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(k.VMs))
	for i := range k.VMs {
		out[i] = k.VMs[i].Sent / duration.Seconds() / 1e6
	}
	return out, nil
}
