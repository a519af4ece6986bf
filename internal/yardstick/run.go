package yardstick

import (
	"context"
	"time"

	"sluice/internal/model"
	"sluice/internal/sim"
	"sluice/internal/workload"
)

// Run plays a workload through the daemon's own loop in virtual time.
type Run struct {
	Workload *workload.Workload
	Rules    model.Rules
	Sensor   *workload.Sensor // nil: true rates, without lag
	Sample   time.Duration    // 0: 1 s
	Length   time.Duration    // 0: the workload's
	Timing   sim.Timing       // zero: sim.PaperTiming
	Fail     func(model.Step) error
	Setup    func(*sim.Engine) // last changes before it starts
}

// Do runs it and returns the Log.
func (r *Run) Do(ctx context.Context) (Log, error) { panic("not written yet") }
