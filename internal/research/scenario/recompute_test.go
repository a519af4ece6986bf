package scenario_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"sluice/internal/research/report"
	"sluice/internal/research/scenario"
	"sluice/internal/research/trace"
)

// The score must follow from the trace and the list of decisions alone. This recomputes
// it from the two files' text, with none of the simulator's code.
func TestScoreFollowsFromDecisions(t *testing.T) {
	const vms, length, vfs = 8, 600, 3
	traceCSV, pps := randomTrace(vms, length)
	set, err := trace.Read("t.csv", bytes.NewReader([]byte(traceCSV)), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := scenario.FromTrace("t.csv", set, vfs)
	s.Policies = []scenario.Policy{
		{Name: "activity", Label: "activity", Interval: 20e9},
		{Name: "fair", Label: "fair", Interval: 30e9},
	}
	s.Parallel = 2
	res, err := s.Run(context.Background(), scenario.RunOptions{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Decisions(&out, res); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range res.Policies {
		benefit, moves := recompute(t, rows, o.Label, pps)
		if moves != o.Moves || moves == 0 {
			t.Errorf("%s: %d moves, the decisions say %d", o.Label, o.Moves, moves)
		}
		if math.Abs(benefit-o.Benefit) > 1e-6*benefit {
			t.Errorf("%s: benefit %v, the decisions say %v", o.Label, o.Benefit, benefit)
		}
		kappa := 10 * median(pps)
		if math.Abs(kappa-res.Charge.Risk) > 1e-6*kappa {
			t.Errorf("risk %v, the trace says %v", res.Charge.Risk, kappa)
		}
		gross := 100 * benefit / res.Optimum.Free.Value
		net := 100 * (benefit - kappa*float64(moves)) / res.Optimum.Charged.Value
		if math.Abs(gross-o.Gross) > 1e-3 || math.Abs(net-o.Net) > 1e-3 {
			t.Errorf("%s: gross %v, net %v; the decisions say %v, %v", o.Label, o.Gross, o.Net, gross, net)
		}
	}
}

func randomTrace(vms, length int) (string, map[string][]float64) {
	r := rand.New(rand.NewPCG(5, 5))
	text := "time_s,vm,pps\n"
	pps := map[string][]float64{}
	for at := range length {
		for i := range vms {
			name := fmt.Sprintf("v%d", i)
			x := 100.0
			if at > 0 {
				x = pps[name][at-1]
			}
			if r.IntN(25) == 0 {
				x = float64(r.IntN(50000))
			}
			pps[name] = append(pps[name], x)
			text += fmt.Sprintf("%d,%s,%v\n", at, name, x)
		}
	}
	return text, pps
}

func median(pps map[string][]float64) float64 {
	var all []float64
	for _, v := range pps {
		for _, x := range v {
			if x > 0 {
				all = append(all, x)
			}
		}
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// recompute reads: policy, time_s, asked_s, action, vm, ...
func recompute(t *testing.T, rows [][]string, policy string, pps map[string][]float64) (benefit float64, moves int) {
	t.Helper()
	since := map[string]float64{}
	plugs, peak := 0, 0
	for _, row := range rows[1:] {
		at, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		vm := row[4]
		switch {
		case row[0] != policy:
		case row[3] == "plug":
			since[vm] = at
			plugs++
			peak = max(peak, len(since))
		default:
			benefit += area(pps[vm], since[vm], at)
			delete(since, vm)
		}
	}
	for vm, from := range since {
		benefit += area(pps[vm], from, float64(len(pps[vm])))
	}
	return benefit, plugs - peak
}

func area(pps []float64, from, to float64) float64 {
	sum := 0.0
	for i, x := range pps {
		sum += x * max(0, min(to, float64(i+1))-max(from, float64(i)))
	}
	return sum
}
