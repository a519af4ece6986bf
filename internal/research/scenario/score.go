package scenario

import (
	"context"
	"time"

	"sluice/internal/research/oracle"
)

// mostCells bounds the oracle's table of rates (VMs times rows). For the optimum, longer runs are averaged over several samples; the gains
// of policies are always measured at full resolution.
const mostCells = 1 << 20

// truth is what the VMs of one host really want to move.
type truth struct {
	s     *Scenario
	seed  uint64
	rates *oracle.Rates // averaged over rates.Step
	risk  float64       // packets charged for a plug
}

// walk calls do with the true rates of every sample, with packets counted by their value. It reuses the slice.
func (s *Scenario) walk(ctx context.Context, seed uint64, do func(tick int, pps []float64)) error {
	ms := s.members()
	loads := make([]*vmLoad, len(ms))
	for i, m := range ms {
		loads[i] = s.newLoad(m.group, m.n, s.epoch, seed)
	}
	pps := make([]float64, len(ms))
	worth := s.Worth.rules()
	for t := range s.ticks() {
		if t%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		since := time.Duration(t) * s.Sample
		for i, l := range loads {
			pps[i] = 0
			if g := ms[i].group; since >= g.From && (g.Until == 0 || since < g.Until) {
				x, bytes, _ := l.after(since)
				pps[i] = x * worth.OfLoad(x, bytes) * worth.OfSensitivity(g.Latency)
			}
		}
		do(t, pps)
	}
	return nil
}

func (s *Scenario) ticks() int { return int((s.Duration + s.Sample - 1) / s.Sample) }

// length returns how long a sample lasts: the last one ends with the run.
func (s *Scenario) length(tick int) time.Duration {
	return min(s.Sample, s.Duration-time.Duration(tick)*s.Sample)
}

// survey gathers the rates for the optimum.
func (s *Scenario) survey(ctx context.Context, seed uint64) (*truth, error) {
	n := s.count()
	fold := max(1, (s.ticks()*n+mostCells-1)/mostCells)
	rows := (s.ticks() + fold - 1) / fold
	r := &oracle.Rates{Step: s.Sample * time.Duration(fold), PPS: make([][]float64, rows)}
	for i := range r.PPS {
		r.PPS[i] = make([]float64, n)
	}
	for _, m := range s.members() {
		r.VMs = append(r.VMs, m.name)
	}
	err := s.walk(ctx, seed, func(t int, pps []float64) {
		// The last row and sample may be short; the mean is still over a full row.
		share := s.length(t).Seconds() / r.Step.Seconds()
		for i, x := range pps {
			r.PPS[t/fold][i] += x * share
		}
	})
	tr := &truth{s: s, seed: seed, rates: r}
	if !s.Charge.Free {
		tr.risk = s.Charge.Risk.Seconds() * r.Median()
	}
	return tr, err
}

func (s *Scenario) count() int {
	n := 0
	for i := range s.VMs {
		n += s.VMs[i].Count
	}
	return n
}

// gain is what a log of VF use was worth in packets, for each VM.
type gain struct {
	on    []time.Duration
	bits  []float64 // packets carried by VFs, per VM
	offer []float64 // packets wanted, per VM
	curve []float64 // packets carried by VFs, per bin of the run
}

// measure computes the gains of several logs in one walk.
func (tr *truth) measure(ctx context.Context, logs []oracle.Log, bins int) ([]gain, error) {
	n := tr.s.count()
	out := make([]gain, len(logs))
	tapes := make([]tape, len(logs))
	for k := range out {
		out[k] = gain{on: make([]time.Duration, n), bits: make([]float64, n), offer: make([]float64, n), curve: make([]float64, bins)}
		tapes[k] = tape{log: logs[k], used: make([]time.Duration, n), on: make([]bool, n)}
	}
	ticks := tr.s.ticks()
	err := tr.s.walk(ctx, tr.seed, func(t int, pps []float64) {
		from := time.Duration(t) * tr.s.Sample
		to := from + tr.s.length(t)
		for k := range out {
			g := &out[k]
			used := tapes[k].play(from, to)
			for i, d := range used {
				g.offer[i] += pps[i] * (to - from).Seconds()
				if d == 0 {
					continue
				}
				x := pps[i] * d.Seconds()
				g.on[i] += d
				g.bits[i] += x
				g.curve[t*bins/ticks] += x
			}
		}
	})
	return out, err
}

// tape plays a log sample by sample.
type tape struct {
	log  oracle.Log
	next int
	on   []bool
	used []time.Duration
}

// play returns how long each VM used a VF between two times. Calls must be in order of time.
func (t *tape) play(from, to time.Duration) []time.Duration {
	for i, on := range t.on {
		t.used[i] = 0
		if on {
			t.used[i] = to - from
		}
	}
	for ; t.next < len(t.log) && t.log[t.next].At < to; t.next++ {
		e := t.log[t.next]
		rest := to - max(e.At, from)
		switch {
		case e.On && !t.on[e.VM]:
			t.used[e.VM] += rest
		case !e.On && t.on[e.VM]:
			t.used[e.VM] -= rest
		}
		t.on[e.VM] = e.On
	}
	return t.used
}
