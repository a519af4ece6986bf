package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// tapWay is a way to keep the guarantees: an allocator, whose limits policers enforce, or what before sets up.
type tapWay struct {
	name      string
	allocator string
	before    func(*tapBench, []tapGuest) error // after undoes it
	after     func(*tapBench) error
}

// tapWays returns native, native with tc, and the allocators with the policer.
func tapWays(allocators []string) []tapWay {
	out := []tapWay{{name: "native"}, {name: "native + tc", before: shapeByTC, after: unshapeByTC}}
	for _, a := range allocators {
		if a == "dbavm" || a == "waterfill" {
			out = append(out, tapWay{name: a, allocator: a, after: removePolicers})
		}
	}
	return out
}

// shapeByTC gives each guest an HTB class at the uplink, which cannot limit packet rates.
func shapeByTC(_ *tapBench, guests []tapGuest) error {
	var lines []string
	for i := range guests {
		id := tapClassID(i)
		lines = append(lines, tapClass("1:1", id, float64(guests[i].sla.Bits)), tapQueue(id),
			fmt.Sprintf("filter add dev up1 parent 1: protocol ip prio %d u32 match ip src %s/32 flowid %s", i+1, tapIP(i), id))
	}
	return batch("tc", lines...)
}

func unshapeByTC(b *tapBench) error {
	lines := []string{"filter del dev up1 parent 1:"}
	for i := range b.bed.taps {
		lines = append(lines, "class del dev up1 classid "+tapClassID(i))
	}
	return batch("tc", lines...)
}

func tapClassID(i int) string { return fmt.Sprintf("1:1%d", i+1) }

// police limits what a tap lets in, by Sluice's own policer.
func (b *tapBench) police(name string, r model.Rate) error {
	_, err := b.host.UpdateTap(context.Background(), name, func(t *tap.Policy) { t.Tx.Now = r })
	return err
}

func removePolicers(b *tapBench) (err error) {
	for i := range b.bed.taps {
		err = cmp.Or(err, b.host.RemoveTap(context.Background(), tapName(i)))
	}
	return err
}

const tapLength = 6 * time.Second

// measureTaps runs DBA-VM's experiments.
func measureTaps(ctx context.Context, o options, names []string) error {
	bed, err := newTapBed(len(promised))
	if err != nil {
		return err
	}
	b := &tapBench{bed: bed}
	if b.counted, err = countPorts(len(promised), tapName); err != nil {
		return err
	}
	wanted := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	heading := fmt.Sprintf("\nuplink of %.0f Mbit/s, period %v, %v, median of %d; load %s at the beginning\n\n", tapLink/1e6, o.period,
		tapLength, o.repeats, load()) +
		"| scenario | way | guest | promised | Mbit/s | kpps | offered kpps | lost % | delay us | 99 % | jitter us |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
	for _, sc := range tapScenarios() {
		for _, way := range tapWays(o.allocators) {
			if !wanted(sc.name) {
				continue
			}
			if heading != "" {
				fmt.Println(heading)
				heading = ""
			}
			if err := b.repeat(ctx, o, &sc, &way, o.period); err != nil {
				return fmt.Errorf("%s, %s: %w", sc.name, way.name, err)
			}
		}
	}
	if wanted("tap-period") {
		if err := b.periods(o); err != nil {
			return err
		}
	}
	if wanted("tap-drops") {
		return b.drops(o)
	}
	return nil
}

func (b *tapBench) once(sc *tapScenario, way *tapWay, period time.Duration) (r tapResult, err error) {
	if way.before != nil {
		if err := way.before(b, sc.guests); err != nil {
			return r, err
		}
	}
	r, err = b.run(sc, way.allocator, period)
	if way.after != nil {
		err = cmp.Or(err, way.after(b))
	}
	return r, err
}

func (b *tapBench) repeat(ctx context.Context, o options, sc *tapScenario, way *tapWay, period time.Duration) error {
	var runs []tapResult
	for range o.repeats {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := b.once(sc, way, period)
		if err != nil {
			return err
		}
		runs = append(runs, r)
		if err := o.keep(tapEntry{time.Now().UTC(), sc.name, way.name, period.String(), load(), r}); err != nil {
			return err
		}
	}
	for g := range sc.guests {
		m := func(of func(tapPart) float64) float64 {
			return medianOf(runs, func(r tapResult) float64 { return of(r.Guests[g]) })
		}
		fmt.Printf("| %s | %s | %d | %s | %.1f | %.1f | %.0f | %.1f | %.0f | %.0f | %.0f |\n", sc.name, way.name, g+1, sc.guests[g].sla,
			m(func(p tapPart) float64 { return p.Mbit }), m(func(p tapPart) float64 { return p.Kpps }),
			m(func(p tapPart) float64 { return p.Offered }),
			m(func(p tapPart) float64 { return p.Loss }), m(func(p tapPart) float64 { return p.Delay }),
			m(func(p tapPart) float64 { return p.Delay99 }), m(func(p tapPart) float64 { return p.Jitter }))
	}
	return nil
}

// periods measures the controller's cost as a function of its period.
func (b *tapBench) periods(o options) error {
	sc := tapScenarios()[0]
	fmt.Println("\n| tap-1500 | period | controller, % of a core | all with senders and kernel | resident MB | " +
		"worst deviation from what is promised % |\n| --- | --- | --- | --- | --- | --- |")
	for _, way := range tapWays(o.allocators) {
		for _, period := range []time.Duration{100, 200, 300, 500, 900, 1000, 2000} {
			period *= time.Millisecond
			r, err := b.once(&sc, &way, period)
			if err != nil {
				return err
			}
			if err := o.keep(tapEntry{time.Now().UTC(), "tap-period", way.name, period.String(), load(), r}); err != nil {
				return err
			}
			shown := period.String()
			if way.allocator == "" {
				shown = "-"
			}
			fmt.Printf("| %s | %s | %.2f | %.0f | %.1f | %.1f |\n", way.name, shown, r.Control, r.CPU, float64(r.Memory)/1024, deviation(&sc, &r))
			if way.allocator == "" {
				break
			}
		}
	}
	return nil
}

// deviation returns the largest deviation of a guest's rate from its guarantee, in percent.
func deviation(sc *tapScenario, r *tapResult) (worst float64) {
	for i, g := range sc.guests {
		due := min(float64(g.sla.Bits)/1e6, float64(g.sla.Packets)*wireBits(g.size)/1e6)
		worst = max(worst, 100*math.Abs(r.Guests[i].Mbit/due-1))
	}
	return worst
}

// tapEntry is what is written to the file: the result and parameters of a run.
type tapEntry struct {
	Time     time.Time `json:"time"`
	Scenario string    `json:"scenario"`
	Way      string    `json:"way"`
	Period   string    `json:"period"`
	Load     string    `json:"loadavg"`
	tapResult
}

// keep appends an entry to the results file, if there is one.
func (o *options) keep(entry any) error {
	if o.json == "" {
		return nil
	}
	f, err := os.OpenFile(o.json, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewEncoder(f).Encode(entry)
}

func medianOf[T any](list []T, of func(T) float64) float64 {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = of(list[i])
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return values[len(values)/2]
}
