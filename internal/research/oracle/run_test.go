package oracle

import (
	"context"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

// Run plays a workload through the daemon's own loop in virtual time.
type Run struct {
	Workload *Workload
	Rules    model.Rules
	Sensor   *workload.Sensor // nil: true rates, without lag
	Sample   time.Duration    // 0: 1 s
	Length   time.Duration    // 0: the workload's
	Timing   sim.Timing       // zero: sim.PaperTiming
	Fail     func(model.Step) error
	Setup    func(*sim.Engine) // last changes before it starts
}

// Do runs it and returns the Log.
func (r *Run) Do(ctx context.Context) (Log, error) {
	e := &sim.Engine{World: &sim.World{Now: epoch, Timing: r.Timing, Fail: r.Fail}, Sample: r.Sample}
	if r.Timing == (sim.Timing{}) {
		e.World.Timing = sim.PaperTiming
	}
	if e.Sample == 0 {
		e.Sample = time.Second
	}
	if r.Sensor != nil {
		e.World.Sense = r.Sensor.Sense
	}
	e.World.AddPF("pf0", "br0", r.Workload.VFs, 0)
	r.Workload.Install(e, "br0")
	opts := loop.DefaultOptions
	opts.Mode = model.ModeEnforce
	opts.Parallel = len(r.Workload.VMs) // in effect unlimited: only policies are compared
	core, err := loop.NewCore(r.Rules, opts, &sim.Journal{}, nil)
	if err != nil {
		return nil, err
	}
	e.Core = core
	rec := NewRecorder(e.World, r.names())
	e.OnEvent = rec.Note
	if r.Setup != nil {
		r.Setup(e)
	}
	e.Start()
	length := r.Length
	if length == 0 {
		length = r.Workload.For
	}
	err = e.Run(ctx, epoch.Add(length))
	return rec.Log, err
}

func (r *Run) names() []string {
	out := make([]string, len(r.Workload.VMs))
	for i := range out {
		out[i] = r.Workload.VMs[i].Name
	}
	return out
}

// epoch is when simulated time begins. Its value does not matter.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
