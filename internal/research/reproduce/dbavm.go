package reproduce

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/research/scenario"
	"sluice/internal/research/sim"
)

var dbavm = []Experiment{
	{Figure: "figure-2", Run: dbavmFigure2, Sweeps: []Sweep{{
		Open: "packets/s of 64 bytes that VM1 and VM3 send", Ours: "96,000", Values: []float64{50e3, 80e3, 90e3, 96e3, 110e3, 150e3, 300e3},
		Conclusion: "without control VM2 has less than its 700 Mbit/s", Measures: "VM2, Mbit/s",
		Try: func(ctx context.Context, x float64) (float64, bool, error) {
			rates, err := mbits(ctx, "dbavm-64-bytes.yaml", "native", func(s *scenario.Scenario) {
				s.VMs[0].Load.PPS, s.VMs[2].Load.PPS = x, x
			})
			if err != nil {
				return 0, false, err
			}
			return rates[1], rates[1] < 0.95*700, nil
		},
	}}},
	{Figure: "figure-3", Run: dbavmFigure3},
	{Figure: "figure-5a", Run: dbavmFigure5a, Sweeps: []Sweep{
		{
			Open: "Mbit/s that each VM sends in scenario 1", Ours: "700", Values: []float64{350, 500, 700, 750, 850, 1000},
			Conclusion: "DBA-VM gives VM2 95 % of its guarantee, or all it sends", Measures: "VM2, Mbit/s of frames",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				vms, err := frames(ctx, "dbavm-1500-bytes.yaml", "dbavm", func(s *scenario.Scenario) {
					for i := range s.VMs {
						send(&s.VMs[i].Load, x*1e6)
					}
				})
				if err != nil {
					return 0, false, err
				}
				return vms[1].mbit, vms[1].mbit >= 0.95*min(700, x)*wire, nil
			},
		},
		{
			Open: "packets/s that the host carries", Ours: "190,000", Values: []float64{60e3, 80e3, 100e3, 140e3, 190e3, 400e3},
			Conclusion: "in scenario 2 VM2 has 95 % of its guarantee", Measures: "VM2, Mbit/s of frames",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				vms, err := frames(ctx, "dbavm-64-bytes.yaml", "dbavm", func(s *scenario.Scenario) { s.Bandwidth.Packets.Packets = uint64(x) })
				if err != nil {
					return 0, false, err
				}
				return vms[1].mbit, vms[1].mbit >= 0.95*700*wire, nil
			},
		},
	}},
	{Figure: "figure-5b", Run: dbavmFigure5b},
}

// wire is what of a packet of 1,500 bytes on the wire is its frame.
const wire = 1500.0 / (1500 + sim.Overhead)

func dbavmFigure5a(ctx context.Context) (*Measured, error) {
	m := numbers(map[string]float64{})
	alone := Curve{Series: "limits alone"}
	for n, file := range []string{"dbavm-1500-bytes.yaml", "dbavm-64-bytes.yaml"} {
		vms, err := frames(ctx, file, "dbavm", nil)
		if err != nil {
			return nil, err
		}
		none, err := frames(ctx, file, "none", nil)
		if err != nil {
			return nil, err
		}
		for i := range vms {
			m.Values[fmt.Sprintf("scenario %d, VM%d", n+1, i+1)] = Value{Number: vms[i].mbit}
			alone.X, alone.Y = append(alone.X, float64(len(alone.X))), append(alone.Y, none[i].mbit)
		}
	}
	m.Curves = []Curve{alone}
	m.Remark = fmt.Sprintf("With the same limits but without the algorithm (allocator none), the VMs have %.0f, %.0f and %.0f Mbit/s in "+
		"scenario 1, and %.1f, %.0f and %.1f in scenario 2: the algorithm adds something in scenario 1 only.",
		alone.Y[0], alone.Y[1], alone.Y[2], alone.Y[3], alone.Y[4], alone.Y[5])
	return m, nil
}

func dbavmFigure5b(ctx context.Context) (*Measured, error) {
	vms, err := frames(ctx, "dbavm-64-bytes.yaml", "dbavm", nil)
	if err != nil {
		return nil, err
	}
	m := numbers(map[string]float64{})
	for i, vm := range vms {
		m.Values[fmt.Sprintf("VM%d", i+1)] = Value{Number: vm.pps}
	}
	return m, nil
}

// rate is what a VM sends: Mbit/s of frames, and packets/s.
type rate struct{ mbit, pps float64 }

// frames returns what each VM sends under an allocator once limits have settled, after settled.
func frames(ctx context.Context, file, label string, change func(*scenario.Scenario)) ([]rate, error) {
	var packet []float64
	r, err := play(ctx, file, func(s *scenario.Scenario) {
		if change != nil {
			change(s)
		}
		for i := range s.VMs {
			packet = append(packet, s.VMs[i].Load.Packet)
		}
	})
	if err != nil {
		return nil, err
	}
	k, err := allocator(r, label)
	if err != nil {
		return nil, err
	}
	out := make([]rate, len(k.VMs))
	for i := range out {
		bins := k.Plot.Sent[i]
		bins = bins[len(bins)*int(settled/time.Second)/int(r.Duration/time.Second):]
		out[i].pps = sum(bins) / float64(len(bins)) / 8 / (packet[i] + sim.Overhead)
		out[i].mbit = out[i].pps * packet[i] * 8 / 1e6
	}
	return out, nil
}

// settled is the time in which limits settle.
const settled = 5 * time.Second

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

func dbavmFigure3(ctx context.Context) (*Measured, error) {
	vms, err := frames(ctx, "dbavm-64-bytes.yaml", "native", nil)
	if err != nil {
		return nil, err
	}
	all := 0.0
	for _, vm := range vms {
		all += vm.pps
	}
	return numbers(map[string]float64{"all VMs": all}), nil
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
