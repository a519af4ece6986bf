package scenario

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/model"
)

// Guaranteed is what a comparison of allocators showed.
type Guaranteed struct {
	Allocators []Kept        `json:"allocators"`
	Delay      time.Duration `json:"delay_ns"`
	Noise      float64       `json:"noise,omitempty"`
	Promised   bool          `json:"guarantees"` // somebody is guaranteed something
}

// Kept is how well one allocator kept guarantees, and what it cost.
type Kept struct {
	Allocator   string         `json:"allocator"`
	Label       string         `json:"label"`
	Period      time.Duration  `json:"period_ns"`
	Satisfied   float64        `json:"satisfied_percent"`   // of the windows in which a guaranteed VM asked: it had 95 % of what is promised
	Shortfall   float64        `json:"shortfall_bits"`      // of what is promised, in all; a virtual PF and its functions count each for itself
	Utilisation float64        `json:"utilisation_percent"` // of what the ideal carries
	Changes     float64        `json:"changes_s_vm"`        // limits changed per second and VM
	Recovery    time.Duration  `json:"recovery_ns"`         // the longest from a wake until a VM had what it is promised
	Never       int            `json:"never_recovered"`     // wakes that ended before it had
	VMs         []KeptVM       `json:"vms"`
	Plot        *BandwidthPlot `json:"-"`
}

// KeptVM is what one VM had of it, or one function of its virtual PF.
type KeptVM struct {
	VM        string  `json:"vm"`
	Function  string  `json:"function,omitempty"` // of the VM's virtual PF; unset: all that the VM sends
	Group     string  `json:"group"`
	Guarantee uint64  `json:"guarantee_bits_s,omitempty"`
	Satisfied float64 `json:"satisfied_percent"` // 100 where it is promised nothing
	Shortfall float64 `json:"shortfall_bits"`
	Sent      float64 `json:"sent_bits"`   // on the wire
	Wanted    float64 `json:"wanted_bits"` // likewise
	Ideal     float64 `json:"ideal_bits"`  // what the ideal gives it
	Packets   float64 `json:"packets"`     // sent
}

// Name is the VM's, with the function if it is about one.
func (k *KeptVM) Name() string {
	if k.Function == "" {
		return k.VM
	}
	return k.VM + "/" + k.Function
}

// BandwidthPlot is what a report draws, bits/s by VM, then bin.
type BandwidthPlot struct {
	VMs, Groups                   []string
	Want, Allowed, Sent, Promised [][]float64 // Allowed: NaN where all
}

// window is the time over which a VM is to have what it is promised.
const window = 200 * time.Millisecond

// allocate compares the scenario's allocators.
func (s *Scenario) allocate(ctx context.Context, o RunOptions) (*Result, error) {
	r := &Result{
		File: s.file, Text: s.Text, Duration: s.Duration, Sample: s.Sample, Seed: s.Seed, Hosts: 1, VMs: s.count(),
		Guaranteed: &Guaranteed{Allocators: make([]Kept, len(s.Bandwidth.Allocators)), Delay: s.Bandwidth.Delay, Noise: s.Bandwidth.Noise},
	}
	for _, p := range s.PFs {
		r.VFs += p.VFs
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Workers)
	done := make(chan string, len(s.Bandwidth.Allocators))
	for i, a := range s.Bandwidth.Allocators {
		g.Go(func() error {
			k, err := s.keep(ctx, a)
			if err != nil {
				return err
			}
			r.Guaranteed.Allocators[i] = *k
			done <- a.Label
			if o.Progress != nil {
				o.Progress(float64(len(done))/float64(cap(done)), a.Label)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range s.VMs {
		r.Guaranteed.Promised = r.Guaranteed.Promised || !s.VMs[i].Guarantee.IsZero()
	}
	return r, nil
}

// keep runs one allocator.
func (s *Scenario) keep(ctx context.Context, a Allocator) (*Kept, error) {
	p := Policy{Name: "none", Interval: 300 * time.Second}
	if len(s.Policies) > 0 {
		p = s.Policies[0]
	}
	r := model.Rules{Policy: p.Name, Interval: p.Interval, Params: p.Params}
	s.slas(&r, a)
	h, err := newHostWith(s, p, r, uint64(s.Seed), a.Name == native) //nolint:gosec // a seed is never negative
	if err != nil {
		return nil, err
	}
	if err := h.share(a); err != nil {
		return nil, err
	}
	m := newBandwidthMeter(h)
	if err := h.engine.Run(ctx, s.epoch.Add(s.Duration)); err != nil {
		return nil, err
	}
	k := m.result()
	k.Allocator, k.Label, k.Period = a.Name, a.Label, a.Period
	return k, nil
}

// limits is a Rate as bits/s for packets of a size in bits; unset is the default.
func limits(r model.Rate, size, unset float64) float64 {
	out := math.Inf(1)
	if r.Bits > 0 {
		out = float64(r.Bits)
	}
	if r.Packets > 0 && size > 0 {
		out = min(out, float64(r.Packets)*size)
	}
	if r.IsZero() || math.IsInf(out, 1) {
		return unset
	}
	return out
}
