package oracle

import (
	"math"
	"slices"
	"time"
)

// Best is the optimum with knowledge of the future.
type Best struct {
	Value float64 // benefit minus charges in packets; Log reaches it
	Upper float64 // no placement reaches more; equal to Value if the search was exact
	Log   Log     // who holds a VF when; plugs count from when they begin
	Moves int
}

// Rates with more than commit+look rows are solved in windows of that many, of which the first commit rows are kept. The time of a solution
// is proportional to rows, VMs, VFs and the detours of paths, which grow with the window. A placement hardly ever depends on what happens
// look rows later; Upper shows how much this costs.
const (
	commit = 240
	look   = 240
)

// Optimum finds the best placement: a min-cost flow of vfs units on the time-expanded graph. Few rows are solved exactly. Many rows are
// solved window by window, each continuing where the last one ended; this gives Value. The windows' prices of a VF give Upper by weak
// duality: whatever the prices, no placement gains more than the price of all VFs plus what each VM by itself can gain above it.
func Optimum(r *Rates, vfs int, c Charge) Best {
	p := newProblem(r, vfs, c)
	var best Best
	at, prices := []bool(nil), make([]int64, len(p.rows))
	for lo := 0; lo < len(p.rows); {
		hi := min(lo+commit+look, len(p.rows))
		keep := lo + commit
		if hi == len(p.rows) {
			keep = hi
		}
		f := p.solve(lo, hi, at)
		f.search()
		for b := lo; b < keep; b++ {
			prices[b] = f.pool[b-lo+1] - f.pool[b-lo]
		}
		at = best.add(f, p.rows[lo:keep], at)
		lo = keep
	}
	best.Log.finish(at, r.Length())
	best.Upper = float64(p.bound(prices)) / p.scale
	best.Value = float64(p.worth(best.Log)) / p.scale
	return best
}

// problem holds the numbers of the graph, as integers as fine as the largest sum allows.
type problem struct {
	rows   []row
	m, vfs int
	charge Charge
	scale  float64
}

func newProblem(r *Rates, vfs int, c Charge) *problem {
	return &problem{rows: mergeRows(r, c.Swap), m: len(r.VMs), vfs: min(vfs, len(r.VMs)), charge: c, scale: scaleOf(r, c)}
}

// gain returns what a VM carries in a row.
func (p *problem) gain(b, i int) int64 { return int64(p.rows[b].pps[i] * p.rows[b].span * p.scale) }

// plug returns the price of a plug at the start of a row: the risk, and what the VM moves during the plug.
func (p *problem) plug(b, i int) int64 {
	cost, left := p.charge.Risk, p.charge.Swap
	for ; b < len(p.rows) && left > 0; b++ {
		cost += min(left, p.rows[b].span) * p.rows[b].pps[i]
		left -= p.rows[b].span
	}
	return int64(cost * p.scale)
}

// row is a stretch of time with constant rates.
type row struct {
	at   time.Duration
	span float64 // seconds
	pps  []float64
}

// mergeRows merges equal ticks into one row, except the last ones, as many as a plug takes: the best time to plug is either at once or so
// that the plug completes when rates change.
func mergeRows(r *Rates, swap float64) []row {
	var out []row
	keep := max(1, int(math.Ceil(swap/r.Step.Seconds())))
	same := make([]int, len(r.PPS)) // number of equal ticks that follow
	for t := len(r.PPS) - 2; t >= 0; t-- {
		if slices.Equal(r.PPS[t], r.PPS[t+1]) {
			same[t] = same[t+1] + 1
		}
	}
	for t, pps := range r.PPS {
		more := same[t] >= keep
		if n := len(out); n > 0 && more && slices.Equal(out[n-1].pps, pps) {
			out[n-1].span += r.Step.Seconds()
			continue
		}
		out = append(out, row{at: time.Duration(t) * r.Step, span: r.Step.Seconds(), pps: pps})
	}
	return out
}

// scaleOf returns the factor from packets to integers, as large as the largest sum allows.
func scaleOf(r *Rates, c Charge) float64 {
	sum := 1.0
	for _, pps := range r.PPS {
		sum += slices.Max(append([]float64{0}, pps...))*(r.Step.Seconds()+c.Swap) + c.Risk
	}
	scale := 1.0
	for sum*scale < 1e14 && scale < 1e6 { // multiplied by all VFs it must fit an int64
		scale *= 10
	}
	return scale
}

// solve finds the best flow from row lo to hi. VMs that hold a VF at the start keep it for free and others must pay; with a nil start
// nobody pays at the start.
func (p *problem) solve(lo, hi int, start []bool) *flow {
	gain, plug := make([]int64, (hi-lo)*p.m), make([]int64, (hi-lo+1)*p.m)
	for i := range p.m {
		for b := range hi - lo {
			gain[b*p.m+i], plug[b*p.m+i] = p.gain(lo+b, i), p.plug(lo+b, i)
		}
		if start == nil || start[i] {
			plug[i] = 0
		}
		plug[(hi-lo)*p.m+i] = -never // nobody plugs at the end
	}
	f := newFlow(p.m, hi-lo, gain, plug)
	for range p.vfs {
		if !f.augment() {
			break
		}
	}
	return f
}

// bound returns the price of all VFs plus what each VM can gain above the prices.
func (p *problem) bound(prices []int64) int64 {
	total := int64(0)
	for _, x := range prices {
		total += int64(p.vfs) * x
	}
	for i := range p.m {
		out, in := int64(0), int64(0)
		for b, price := range prices {
			if b > 0 {
				out, in = max(out, in), max(in, out-p.plug(b, i))
			}
			in += p.gain(b, i) - price
		}
		total += max(out, in)
	}
	return total
}

// worth returns what a placement gains.
func (p *problem) worth(log Log) int64 {
	total := int64(0)
	on := make([]bool, p.m)
	for row := range p.rows {
		for len(log) > 0 && log[0].At <= p.rows[row].at {
			e := log[0]
			on[e.VM], log = e.On, log[1:]
			if e.On && row > 0 {
				total -= p.plug(row, e.VM)
			}
		}
		for i := range on {
			if on[i] {
				total += p.gain(row, i)
			}
		}
	}
	return total
}

// add appends a window's flow to the Log, and returns who holds a VF at its end.
func (best *Best) add(f *flow, rows []row, at []bool) []bool {
	now := make([]bool, f.m)
	copy(now, at)
	for b, w := range rows {
		for i := range now {
			on := f.held[b*f.m+i]
			if on == now[i] {
				continue
			}
			now[i] = on
			best.Log = append(best.Log, Event{At: w.at, VM: i, On: on})
			if on && (b > 0 || at != nil) {
				best.Moves++
			}
		}
	}
	return now
}

// finish ends the uses that last until the end.
func (l *Log) finish(at []bool, end time.Duration) {
	for i, on := range at {
		if on {
			*l = append(*l, Event{At: end, VM: i})
		}
	}
}
