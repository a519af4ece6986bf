package scenario

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/research/oracle"
)

// RunOptions say how to run a comparison.
type RunOptions struct {
	Workers int // simulations at a time; 0: one per CPU
	// Progress, when set, is called from time to time with the progress of the whole, 0..1. It may be called from several goroutines.
	Progress func(done float64, what string)
	// NoOptimum skips the oracle; there is then no gross and net.
	NoOptimum bool
}

// job is the state shared by all runs of a comparison.
type job struct {
	s     *Scenario
	o     RunOptions
	steps atomic.Int64 // samples simulated
	total int64
	hosts []hostRun
}

// hostRun gathers the results of one host.
type hostRun struct {
	truth *truth
	free  best
	paid  best
	runs  []policyRun
	gains []gain // of each run, then of the charged optimum
}

// policyRun is one policy's run on one host.
type policyRun struct {
	log       oracle.Log
	decisions []Decision
	phases    []Phase
	failed    uint64
}

// Run compares the scenario's policies.
func (s *Scenario) Run(ctx context.Context, o RunOptions) (*Result, error) {
	if len(s.Policies) == 0 && !s.Shares() {
		return nil, fmt.Errorf("%s does not name a policy; add one under policies: or pass --policy", s.file)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if s.Shares() {
		return s.allocate(ctx, o)
	}
	j := &job{s: s, o: o, hosts: make([]hostRun, s.Hosts)}
	j.total = int64(s.ticks()) * int64(s.Hosts) * int64(len(s.Policies))
	if err := j.simulate(ctx); err != nil {
		return nil, err
	}
	if err := j.measureAll(ctx); err != nil {
		return nil, err
	}
	return j.result(), nil
}

// simulate runs every policy on every host, and finds the optima.
func (j *job) simulate(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(j.o.Workers)
	for i := range j.hosts {
		h := &j.hosts[i]
		h.runs = make([]policyRun, len(j.s.Policies))
		seed := uint64(j.s.Seed) + uint64(i)*0x9e3779b9 //nolint:gosec // a seed is never negative
		for p := range j.s.Policies {
			g.Go(func() error { return j.policy(ctx, h, p, seed) })
		}
		g.Go(func() error { return j.optimum(ctx, h, seed) })
	}
	return g.Wait()
}

// measureAll measures the gains of all logs.
func (j *job) measureAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(j.o.Workers)
	for i := range j.hosts {
		g.Go(func() error { return j.measure(ctx, &j.hosts[i]) })
	}
	return g.Wait()
}

// policy simulates one policy on one host.
func (j *job) policy(ctx context.Context, out *hostRun, p int, seed uint64) error {
	h, err := newHost(j.s, j.s.Policies[p], seed)
	if err != nil {
		return err
	}
	m, ph := newMeter(h), newPhases(h)
	n := 0
	h.engine.OnTick = func(now time.Time) {
		ph.tick(now)
		if h.rerun != nil {
			h.rerun.tick()
		}
		if n++; n%1000 == 0 {
			j.progress(1000, j.s.Policies[p].Label)
		}
	}
	// The run ends just before its last moment: a decision made then would have no effect.
	if err := h.engine.Run(ctx, j.s.epoch.Add(j.s.Duration-1)); err != nil {
		return err
	}
	if err := h.faultsOver(); err != nil {
		return fmt.Errorf("policy %s: %w", j.s.Policies[p].Label, err)
	}
	ph.end()
	out.runs[p] = policyRun{log: m.log, decisions: m.decisions, phases: ph.done, failed: h.engine.Core.View().Totals.Failed}
	j.progress(int64(n%1000), j.s.Policies[p].Label)
	return nil
}

func (j *job) progress(n int64, what string) {
	if done := j.steps.Add(n); j.o.Progress != nil {
		j.o.Progress(float64(done)/float64(max(j.total, 1)), what)
	}
}

// optimum finds the best placements of one host, network by network.
func (j *job) optimum(ctx context.Context, out *hostRun, seed uint64) error {
	tr, err := j.s.survey(ctx, seed)
	if err != nil {
		return err
	}
	out.truth = tr
	if j.o.NoOptimum {
		return nil
	}
	swap := j.s.Charge.Swap.Seconds()
	for _, net := range j.s.networks() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rates := tr.only(net.vms)
		out.free.join(oracle.Optimum(rates, net.vfs, oracle.Charge{Swap: swap}), net.vms)
		out.paid.join(oracle.Optimum(rates, net.vfs, oracle.Charge{Swap: swap, Risk: tr.risk}), net.vms)
	}
	return nil
}

// measure measures the gains of one host's logs.
func (j *job) measure(ctx context.Context, h *hostRun) error {
	var logs []oracle.Log
	for i := range h.runs {
		logs = append(logs, h.runs[i].log)
	}
	logs = append(logs, delayed(h.paid.Log, j.s.Charge.Swap))
	var err error
	h.gains, err = h.truth.measure(ctx, logs, min(bins, j.s.ticks()))
	return err
}
