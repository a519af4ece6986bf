package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/loop"
	"sluice/internal/model"
	"sluice/internal/sim"
	"sluice/internal/web"
)

// DemoOptions say how `sluice demo` runs.
type DemoOptions struct {
	Policy   string
	Interval time.Duration // between rounds, in virtual time
	Speed    float64       // virtual seconds per second
	For      time.Duration // virtual time to run; 0: until ctx ends
	Views    chan<- *model.View
}

// demoFrame is how often the demo catches up with its clock.
const demoFrame = 50 * time.Millisecond

// Demo runs the daemon's loop over a simulated host, faster than real time.
func Demo(ctx context.Context, o DemoOptions) error {
	world := sim.DemoWorld(time.Now().Truncate(time.Second))
	opts := loop.DefaultOptions
	opts.Mode = model.ModeEnforce
	opts.Parallel = 8
	core, err := loop.NewCore(model.Rules{Policy: o.Policy, Interval: o.Interval}, opts, &sim.Journal{}, nil)
	if err != nil {
		return err
	}
	begin := world.Now
	e := &sim.Engine{World: world, Core: core, Sample: time.Second}
	e.OnTick = func(time.Time) {
		v := core.View()
		v.Snapshot, v.Config = sim.Copy(v.Snapshot), "simulated host: 100 VMs, 63 VFs"
		select {
		case o.Views <- v:
		default: // a slow terminal sees fewer pictures, not later ones
		}
	}
	e.Start()
	tick := time.NewTicker(demoFrame)
	defer tick.Stop()
	for o.For == 0 || world.Now.Sub(begin) < o.For {
		if err := e.Run(ctx, world.Now.Add(time.Duration(float64(demoFrame)*o.Speed))); err != nil {
			return ignoreEnd(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serve runs the API beside the loop until either ends.
func serve(ctx context.Context, s *web.Server, r *loop.Runner, log *slog.Logger) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return r.Run(ctx) })
	for _, a := range s.Addrs() {
		log.Info("listening", "address", a.String())
	}
	return g.Wait()
}
