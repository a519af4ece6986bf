package reproduce

import (
	"context"
	"fmt"
	"math"
	"time"

	"sluice/internal/research/scenario"
)

var flexvf = []Experiment{
	{Figure: "figure-7", Run: flexvfFigure7, Sweeps: []Sweep{{
		Open: "VFs saved latency, more for each 1,000 packets/s", Unit: "%", Ours: "0.6 %", Values: []float64{0.05, 0.2, 0.4, 0.6, 0.8, 2},
		Conclusion: "by activity the mean latency of all VMs is less than in turns and by lot",
		Measures:   "mean latency by activity, as a share of that in turns, %",
		Try: func(ctx context.Context, x float64) (float64, bool, error) {
			r, err := play(ctx, "flexvf-figure-7.yaml", func(s *scenario.Scenario) {
				s.Latency.PerKpps, s.Duration = x, time.Hour
			})
			if err != nil {
				return 0, false, err
			}
			g := groupsOf(r)
			var mean [4]float64
			for w := range mean {
				for _, stat := range g[w] {
					mean[w] += latency(&stat) / float64(len(g[w]))
				}
			}
			return 100 * mean[3] / mean[2], mean[3] < mean[2] && mean[3] < mean[1], nil
		},
	}}},
	{Figure: "figure-8", Run: flexvfFigure8, Sweeps: []Sweep{{
		Open: "packets/s of the virtio path", Ours: "190,000", Values: []float64{100e3, 190e3, 300e3, 500e3, 1e6, 2e6, 4e6, 8e6},
		Conclusion: "by activity the FTP server loses more throughput to busy neighbours than in turns",
		Measures:   "lost by activity, %",
		Try: func(ctx context.Context, x float64) (float64, bool, error) {
			lost, _, err := ftp(ctx, x)
			return lost["activity"], lost["activity"] > lost["fair"]+1, err
		},
	}}},
}

// flexvfWays are the labels of the four ways to allot VFs.
var flexvfWays = []string{"all virtio", "random", "fair", "activity"}

// groupsOf returns the four groups under each of the four ways.
func groupsOf(r *scenario.Result) (out [4][]scenario.GroupStat) {
	for i := range r.Policies {
		for w, label := range flexvfWays {
			if r.Policies[i].Label == label {
				out[w] = r.Policies[i].Phases[0].Groups
			}
		}
	}
	return out
}

// latency returns the mean latency of a group in us.
func latency(g *scenario.GroupStat) float64 { return float64(g.Latency[3]) }

func flexvfFigure7(ctx context.Context) (*Measured, error) {
	r, err := play(ctx, "flexvf-figure-7.yaml", nil)
	if err != nil {
		return nil, err
	}
	groups := groupsOf(r)
	m := numbers(map[string]float64{})
	slowest, apart := "all on virtio", 0.0
	for i := range groups[0] {
		virtio, random, fair := latency(&groups[0][i]), latency(&groups[1][i]), latency(&groups[2][i])
		if virtio <= max(random, fair) {
			slowest = "not always the same way"
		}
		apart = max(apart, 100*math.Abs(random/fair-1))
	}
	m.Values["most latency in every group"] = Value{Words: slowest}
	m.Values["random against fair, largest difference"] = Value{Number: apart}
	for i, rate := range []string{"20,000", "40,000", "80,000", "100,000"} {
		m.Values[fmt.Sprintf("on a VF by activity, %s packets/s", rate)] = Value{Number: 100 * groups[3][i].OnVF}
	}
	for w, label := range flexvfWays {
		c := Curve{Series: label}
		for i := range groups[w] {
			c.X, c.Y = append(c.X, float64(i)), append(c.Y, latency(&groups[w][i]))
		}
		m.Curves = append(m.Curves, c)
	}
	return m, nil
}

func flexvfFigure8(ctx context.Context) (*Measured, error) {
	lost, longer, err := ftp(ctx, 190e3)
	if err != nil {
		return nil, err
	}
	return numbers(map[string]float64{
		"most lost by activity": lost["activity"],
		"lost in turns":         lost["fair"], "time of the median file in turns, longer by": longer["fair"],
	}), nil
}

// ftp returns how much throughput the FTP server loses to busy neighbours under each policy, and how much longer the median file takes, in
// percent, if virtio carries so many packets/s.
func ftp(ctx context.Context, virtio float64) (lost, longer map[string]float64, err error) {
	r, err := play(ctx, "flexvf-figure-8.yaml", func(s *scenario.Scenario) { s.Path.Virtio = virtio })
	if err != nil {
		return nil, nil, err
	}
	lost, longer = map[string]float64{}, map[string]float64{}
	for i := range r.Policies {
		p := &r.Policies[i]
		busy, quiet := p.Phases[0].Groups[0], p.Phases[1].Groups[0]
		lost[p.Label] = 100 * (1 - busy.Mbit/quiet.Mbit)
		longer[p.Label] = 100 * (busy.Files.Median/quiet.Files.Median - 1)
	}
	return lost, longer, nil
}
