package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/model"
)

// Guaranteed is the result of a comparison of allocators.
type Guaranteed struct {
	Allocators []Kept        `json:"allocators"`
	Delay      time.Duration `json:"delay_ns"`
	Noise      float64       `json:"noise,omitempty"`
	Promised   bool          `json:"guarantees"` // there is a guarantee
}

// Kept is how well one allocator kept guarantees, and what it cost.
type Kept struct {
	Allocator   string         `json:"allocator"`
	Label       string         `json:"label"`
	Period      time.Duration  `json:"period_ns"`
	Satisfied   float64        `json:"satisfied_percent"`   // of the windows in which a guaranteed VM asked: those with 95 % of the promise
	Shortfall   float64        `json:"shortfall_bits"`      // of all promises; a virtual PF and its functions count separately
	Utilisation float64        `json:"utilisation_percent"` // of what the ideal allocator carries
	Changes     float64        `json:"changes_s_vm"`        // changes of limits per second and VM
	Recovery    time.Duration  `json:"recovery_ns"`         // the longest from a wake until a VM had what it is promised
	Never       int            `json:"never_recovered"`     // wakes that ended before that
	VMs         []KeptVM       `json:"vms"`
	Plot        *BandwidthPlot `json:"-"`
}

// KeptVM is what one VM got under an allocator, or one function of its virtual PF.
type KeptVM struct {
	VM        string  `json:"vm"`
	Function  string  `json:"function,omitempty"` // of the VM's virtual PF; unset: the whole VM
	Group     string  `json:"group"`
	Guarantee uint64  `json:"guarantee_bits_s,omitempty"`
	Satisfied float64 `json:"satisfied_percent"` // 100 if it is promised nothing
	Shortfall float64 `json:"shortfall_bits"`
	Sent      float64 `json:"sent_bits"`   // on the wire
	Wanted    float64 `json:"wanted_bits"` // on the wire
	Ideal     float64 `json:"ideal_bits"`  // what the ideal allocator gives it
	Packets   float64 `json:"packets"`     // sent
}

// Name returns the VM's name, with the function if there is one.
func (k *KeptVM) Name() string {
	if k.Function == "" {
		return k.VM
	}
	return k.VM + "/" + k.Function
}

// BandwidthPlot is what a report draws, in bits/s by VM, then bin.
type BandwidthPlot struct {
	VMs, Groups                   []string
	Want, Allowed, Sent, Promised [][]float64 // Allowed is NaN where there is no limit
}

// window is the time over which promises are judged.
const window = 200 * time.Millisecond

// allocate compares the scenario's allocators.
func (s *Scenario) allocate(ctx context.Context, o RunOptions) (*Result, error) {
	r := s.newResult()
	r.Hosts = 1
	r.Guaranteed = &Guaranteed{Allocators: make([]Kept, len(s.Bandwidth.Allocators)), Delay: s.Bandwidth.Delay, Noise: s.Bandwidth.Noise}
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
	r.Guaranteed.Promised = slices.ContainsFunc(s.VMs, func(g Group) bool { return !g.Guarantee.IsZero() })
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
	if err := h.faultsOver(); err != nil {
		return nil, fmt.Errorf("allocator %s: %w", a.Label, err)
	}
	k := m.result()
	k.Allocator, k.Label, k.Period = a.Name, a.Label, a.Period
	return k, nil
}

// limits returns a Rate in bits/s for packets of a size in bits; unset if there is no limit.
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
