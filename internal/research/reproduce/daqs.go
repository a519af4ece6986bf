package reproduce

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/research/scenario"
	"sluice/internal/research/sim"
)

var daqs = []Experiment{
	{Figure: "figure-3", Run: daqsFigure3},
	{Figure: "figure-4", Run: daqsFigure4, Sweeps: []Sweep{
		{
			Open: "s until the next VM starts", Ours: "60, as published", Values: []float64{2, 5, 10, 20, 30, 60},
			Conclusion: "with DAQS the guarantee holds for 95 % of the time", Measures: "time with 95 % of the guarantee, %",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				r, err := daqsSeven(ctx, time.Duration(x*float64(time.Second)), 20*time.Millisecond)
				return satisfied(r, "daqs", err)
			},
		},
		{
			Open: "ms until a limit is in force", Ours: "20", Values: []float64{0, 20, 100, 200, 500, 1000, 2000},
			Conclusion: "with DAQS the guarantee holds for 95 % of the time", Measures: "time with 95 % of the guarantee, %",
			Try: func(ctx context.Context, x float64) (float64, bool, error) {
				r, err := daqsSeven(ctx, time.Minute, time.Duration(x)*time.Millisecond)
				return satisfied(r, "daqs", err)
			},
		},
	}},
}

// daqsFlow is what one flow of the guaranteed VM reaches, in bits/s.
const daqsFlow = 18.5e9

// send makes a load constant, in bits/s on the wire.
func send(l *scenario.Load, bits float64) {
	l.Shape, l.PPS = "constant", bits/8/(l.Packet+sim.Overhead)
}

// daqsPair runs one flow, which is guaranteed so much, against five, for five minutes, under the named allocators or, with a limit, under
// ip link alone.
func daqsPair(ctx context.Context, guarantee, limit uint64, names ...string) (*scenario.Result, error) {
	return play(ctx, "daqs-one-against-five-25.yaml", func(s *scenario.Scenario) {
		s.Duration = 5 * time.Minute
		s.VMs[0].Guarantee.Bits = guarantee
		send(&s.VMs[0].Load, daqsFlow)
		s.SetAllocators(names)
		if limit > 0 {
			s.Bandwidth.Allocators[0].Limit.Bits = limit
		}
	})
}

func daqsFigure3(ctx context.Context) (*Measured, error) {
	m := numbers(map[string]float64{})
	set := func(name string, x float64) { m.Values[name] = Value{Number: x} }
	m.Remark = "The text has no figures of the other guarantees. Here the guaranteed VM and the total have, in Gbit/s:"
	for _, g := range []uint64{10, 15, 20, 25, 30} {
		r, err := daqsPair(ctx, g*1e9, 0, "none", "static", "daqs")
		if err != nil {
			return nil, err
		}
		none, link, daqs := gbits(r, 0), gbits(r, 1), gbits(r, 2)
		if g > 15 {
			m.Remark += fmt.Sprintf(" with %d, %.1f and %.1f under ip link, %.1f and %.1f under DAQS;", g, link[0], sum(link), daqs[0], sum(daqs))
			continue
		}
		set(fmt.Sprintf("guarantee %d, ip link", g), link[0])
		set(fmt.Sprintf("guarantee %d, DAQS", g), daqs[0])
		set("without control, five flows against one", none[1]/none[0])
		set(fmt.Sprintf("guarantee %d, total with ip link", g), 100*sum(link)/sum(none))
		set(fmt.Sprintf("guarantee %d, total with DAQS", g), 100*sum(daqs)/sum(none))
	}
	m.Remark = strings.TrimSuffix(m.Remark, ";") + ". From 20 on ip link wastes what the one flow, which reaches 18.5, does not take."
	for limit := uint64(37); limit > 0; limit-- {
		r, err := daqsPair(ctx, 15e9, limit*1e9, "static")
		if err != nil {
			return nil, err
		}
		if r.Guaranteed.Allocators[0].Satisfied >= 99 {
			set("limit of ip link that protects 15", float64(limit))
			break
		}
	}
	r, err := daqsPair(ctx, 15e9, 10e9, "static")
	if err != nil {
		return nil, err
	}
	set("total with that limit", 100*sum(gbits(r, 0))/40)
	return m, nil
}

// daqsSeven runs seven best-effort VMs that start one after the other, beside a guarantee of 10 Gbit/s.
func daqsSeven(ctx context.Context, every, delay time.Duration) (*scenario.Result, error) {
	return play(ctx, "daqs-seven-one-by-one.yaml", func(s *scenario.Scenario) {
		s.Duration, s.Bandwidth.Delay = 8*every, delay
		for i := 1; i < len(s.VMs); i++ {
			s.VMs[i].Load.At = time.Duration(i) * every
		}
		s.SetAllocators([]string{"none", "static", "daqs"})
	})
}

// satisfied returns how long an allocator kept the guarantee, and whether it did for 95 % of the time.
func satisfied(r *scenario.Result, label string, err error) (float64, bool, error) {
	if err != nil {
		return 0, false, err
	}
	k, err := allocator(r, label)
	if err != nil {
		return 0, false, err
	}
	return k.Satisfied, k.Satisfied >= 95, nil
}

func daqsFigure4(ctx context.Context) (*Measured, error) {
	r, err := daqsSeven(ctx, time.Minute, 20*time.Millisecond)
	if err != nil {
		return nil, err
	}
	m := numbers(map[string]float64{})
	for i, name := range []string{"without control", "ip link", "DAQS"} {
		c := Curve{Series: name}
		for n, x := range minutes(&r.Guaranteed.Allocators[i], 0) {
			c.X, c.Y = append(c.X, float64(n)), append(c.Y, x)
			switch {
			case name == "DAQS":
				m.Values[fmt.Sprintf("%d send, DAQS", n)] = Value{Number: x}
			case name == "ip link" && n == 7:
				m.Values["all seven, ip link"] = Value{Number: x}
			}
		}
		m.Curves = append(m.Curves, c)
	}
	none, link := &r.Guaranteed.Allocators[0], &r.Guaranteed.Allocators[1]
	first := func(k *scenario.Kept) (all float64) {
		for vm := range k.VMs {
			all += minutes(k, vm)[1]
		}
		return all
	}
	m.Values["one sends, total with ip link"] = Value{Number: 100 * first(link) / first(none)}
	m.Remark = fmt.Sprintf("Over the eight minutes ip link carries %.1f %% of what is carried without control.",
		100*sum(gbits(r, 1))/sum(gbits(r, 0)))
	m.Values["total with DAQS"] = Value{Number: 100 * sum(gbits(r, 2)) / sum(gbits(r, 0))}
	return m, nil
}

// gbits returns the mean Gbit/s on the wire of each VM under the i-th allocator.
func gbits(r *scenario.Result, i int) (out []float64) {
	for _, vm := range r.Guaranteed.Allocators[i].VMs {
		out = append(out, vm.Sent/r.Duration.Seconds()/1e9)
	}
	return out
}

// minutes returns a VM's mean Gbit/s in each eighth of the run.
func minutes(k *scenario.Kept, vm int) []float64 {
	out := make([]float64, 8)
	bins := k.Plot.Sent[vm]
	for b, x := range bins {
		out[b*len(out)/len(bins)] += x / 1e9 / float64(len(bins)/len(out))
	}
	return out
}

func sum(list []float64) (all float64) {
	for _, x := range list {
		all += x
	}
	return all
}
