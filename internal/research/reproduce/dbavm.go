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
			rates, err := rates(ctx, "dbavm-64-bytes.yaml", "native", func(s *scenario.Scenario) {
				s.VMs[0].Load.PPS, s.VMs[2].Load.PPS = x, x
			})
			if err != nil {
				return 0, false, err
			}
			return rates[1].mbit, rates[1].mbit < 0.95*700, nil
		},
	}}},
	{Figure: "figure-3", Run: dbavmFigure3},
	{Figure: "figure-5a", Run: dbavmFigure5a, Sweeps: []Sweep{
		{
			Open: "Mbit/s that each VM sends in scenario 1", Ours: "700", Values: []float64{350, 500, 700, 750, 850, 1000},
			Conclusion: "DBA-VM gives VM2 95 % of its guarantee, or all it sends", Measures: "VM2, Mbit/s",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				vms, err := rates(ctx, "dbavm-1500-bytes.yaml", "dbavm", func(s *scenario.Scenario) {
					for i := range s.VMs {
						send(&s.VMs[i].Load, x*1e6)
					}
				})
				if err != nil {
					return 0, false, err
				}
				return vms[1].mbit, vms[1].mbit >= 0.95*min(700, x), nil
			},
		},
		{
			Open: "Mbit/s that VM2 sends in scenario 1 beside 700 of each other", Ours: "700", Values: dbavmSent,
			Conclusion: "VM2 has more by the algorithm than by limits of packets/s alone (allocator none)", Measures: "more, Mbit/s",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				vms, alone, err := dbavmAdds(ctx, x)
				if err != nil {
					return 0, false, err
				}
				more := vms[1].mbit - alone[1].mbit
				return more, more > 0.05*x, nil
			},
		},
		{
			Open: "Mbit/s that VM2 sends in scenario 1 beside 700 of each other", Ours: "700", Values: dbavmSent,
			Conclusion: "the algorithm leaves no link unused that limits of packets/s alone would use", Measures: "all VMs, Mbit/s",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				vms, alone, err := dbavmAdds(ctx, x)
				if err != nil {
					return 0, false, err
				}
				return total(vms), total(vms) > 0.95*total(alone), nil
			},
		},
		{
			Open: "packets/s that the host carries", Ours: "190,000", Values: []float64{60e3, 80e3, 100e3, 140e3, 190e3, 400e3},
			Conclusion: "in scenario 2 VM2 has 95 % of its guarantee", Measures: "VM2, Mbit/s",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				vms, err := rates(ctx, "dbavm-64-bytes.yaml", "dbavm", func(s *scenario.Scenario) { s.Bandwidth.Packets.Packets = uint64(x) })
				if err != nil {
					return 0, false, err
				}
				return vms[1].mbit, vms[1].mbit >= 0.95*700, nil
			},
		},
	}},
	{Figure: "figure-5b", Run: dbavmFigure5b},
}

// dbavmSent are rates at which VM2 sends, from far below its guarantee to the whole link, in Mbit/s.
var dbavmSent = []float64{50, 200, 400, 600, 700, 1000}

// dbavmAdds runs scenario 1 while VM2 sends so many Mbit/s, by the algorithm and with its limits of packets/s alone.
func dbavmAdds(ctx context.Context, mbit float64) (vms, alone []rate, err error) {
	change := func(s *scenario.Scenario) { send(&s.VMs[1].Load, mbit*1e6) }
	if vms, err = rates(ctx, "dbavm-1500-bytes.yaml", "dbavm", change); err != nil {
		return nil, nil, err
	}
	alone, err = rates(ctx, "dbavm-1500-bytes.yaml", "none", change)
	return vms, alone, err
}

func total(list []rate) (mbit float64) {
	for _, r := range list {
		mbit += r.mbit
	}
	return mbit
}

func dbavmFigure5a(ctx context.Context) (*Measured, error) {
	m := numbers(map[string]float64{})
	alone := Curve{Series: "limits alone"}
	for n, file := range []string{"dbavm-1500-bytes.yaml", "dbavm-64-bytes.yaml"} {
		vms, err := rates(ctx, file, "dbavm", nil)
		if err != nil {
			return nil, err
		}
		none, err := rates(ctx, file, "none", nil)
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
		"scenario 1, and %.1f, %.0f and %.1f in scenario 2, where the limits alone protect VM2. What the algorithm adds shows where VMs "+
		"within their packets/s fill the link: it takes from those above their guarantees what VM2 lacks.",
		alone.Y[0], alone.Y[1], alone.Y[2], alone.Y[3], alone.Y[4], alone.Y[5])
	return m, nil
}

func dbavmFigure5b(ctx context.Context) (*Measured, error) {
	vms, err := rates(ctx, "dbavm-64-bytes.yaml", "dbavm", nil)
	if err != nil {
		return nil, err
	}
	m := numbers(map[string]float64{})
	for i, vm := range vms {
		m.Values[fmt.Sprintf("VM%d", i+1)] = Value{Number: vm.pps}
	}
	return m, nil
}

// rate is what a VM sends: Mbit/s on the wire, and packets/s.
type rate struct{ mbit, pps float64 }

// rates returns what each VM sends under an allocator once limits have settled, after settled.
func rates(ctx context.Context, file, label string, change func(*scenario.Scenario)) ([]rate, error) {
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
		bits := sum(bins) / float64(len(bins))
		out[i] = rate{mbit: bits / 1e6, pps: bits / 8 / (packet[i] + sim.Overhead)}
	}
	return out, nil
}

// settled is the time in which limits settle.
const settled = 5 * time.Second

func dbavmFigure2(ctx context.Context) (*Measured, error) {
	m := numbers(map[string]float64{})
	for n, file := range []string{"dbavm-1500-bytes.yaml", "dbavm-64-bytes.yaml"} {
		vms, err := rates(ctx, file, "native", nil)
		if err != nil {
			return nil, err
		}
		for i, vm := range vms {
			m.Values[fmt.Sprintf("scenario %d, VM%d", n+1, i+1)] = Value{Number: vm.mbit}
		}
	}
	return m, nil
}

func dbavmFigure3(ctx context.Context) (*Measured, error) {
	vms, err := rates(ctx, "dbavm-64-bytes.yaml", "native", nil)
	if err != nil {
		return nil, err
	}
	all := 0.0
	for _, vm := range vms {
		all += vm.pps
	}
	return numbers(map[string]float64{"all VMs": all}), nil
}
