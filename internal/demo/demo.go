package demo

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/base/calls"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/doctor"
	"sluice/internal/control/loop"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/backend"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/history"
	"sluice/internal/edge/page"
	"sluice/internal/edge/server"
	"sluice/internal/edge/whatif"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// frameTime is how often the demo advances its clock.
const frameTime = 50 * time.Millisecond

// How links are shared: with the daemon's default allocator, at twice its period.
const (
	allocator  = "waterfill"
	period     = 200 * time.Millisecond
	limitDelay = 20 * time.Millisecond // until a limit takes effect
)

// demo is the daemon's loop over a simulated host, faster than real time.
type demo struct {
	o      cli.DemoOptions
	engine *sim.Engine
	calls  calls.Queue // run between two frames
	back   *backend.Backend
}

// Run runs the loop until ctx ends or the virtual time is up.
func Run(ctx context.Context, o cli.DemoOptions) error {
	host := newHost(time.Now().Truncate(time.Second), o.VMs, o.VFs, o.Seed, o.Troubled())
	for _, p := range host.PFs() {
		host.Connect(p, sim.Uplink(o.Uplink))
	}
	world := host.World
	opts := loop.DefaultOptions
	opts.Mode = cmp.Or(o.Mode, model.ModeEnforce)
	opts.Parallel = 8
	rules := model.Rules{Policy: o.Policy, Interval: o.Interval, KeepSLAs: true}
	core, err := loop.NewCore(rules, opts, &sim.Journal{}, nil)
	if err != nil {
		return err
	}
	limits, err := bandwidth.NewCore(bandwidth.Options{Mode: opts.Mode, Allocator: allocator, Period: period})
	if err != nil {
		return err
	}
	d := &demo{o: o, engine: &sim.Engine{World: world, Core: core, Bandwidth: limits, Sample: time.Second}, calls: make(calls.Queue)}
	d.back = backend.New(core, d.calls.Do, &backend.Overrides{}, func() model.Rules { return rules })
	d.back.Config = "a simulated host"
	d.back.Now = func() time.Time { // virtual: the loop's clock
		if v, _ := d.back.View(); answer.Observed(v) {
			return v.Snapshot.Time
		}
		return time.Now()
	}
	past := history.New()
	past.Examine = doctor.Examine
	d.back.Seen = past.Add
	d.engine.OnTick = func(time.Time) { d.show() }
	world.StartTraffic(&sim.Traffic{Step: period, Delay: limitDelay})
	d.engine.Start()
	d.engine.StartControl(period)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	if o.Socket != "" || o.Listen != "" {
		whatIf := history.NewWhatIf(past, time.Duration(o.Speed*float64(history.WhatIfEvery)), d.back.Now, whatif.Compute)
		g.Go(func() error { return whatIf.Run(ctx) })
		server, err := server.New(server.Options{
			Backend: d.back, Version: o.Version, Socket: o.Socket, Listen: o.Listen, Now: d.back.Now,
			Examine: doctor.Examine, VirtualPFs: host.virtual, Preparer: &preparer{world, d.calls.Do, map[model.VMID]lacks{}}, History: past,
			WhatIf: whatIf, Page: page.Handler(o.Version), Claims: strconv.Itoa(os.Getuid()), Ports: strconv.Itoa(os.Getuid()),
		})
		if err != nil {
			return err
		}
		g.Go(func() error { return server.Run(ctx) })
		if o.Ready != nil {
			o.Ready(server.Addrs())
		}
	}
	g.Go(func() error {
		defer cancel()
		return d.run(ctx)
	})
	return g.Wait()
}

func (d *demo) show() {
	v := d.engine.Core.View()
	v.Snapshot, v.Bandwidth = sim.Copy(v.Snapshot), d.engine.Bandwidth.View()
	d.back.Publish(v)
	if d.o.Show != nil {
		d.o.Show(v)
	}
}

func (d *demo) run(ctx context.Context) error {
	world := d.engine.World
	begin := world.Now
	tick := time.NewTicker(frameTime)
	defer tick.Stop()
	for d.o.For == 0 || world.Now.Sub(begin) < d.o.For {
		err := d.engine.Run(ctx, world.Now.Add(time.Duration(float64(frameTime)*d.o.Speed)))
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case f := <-d.calls:
			f(world.Now)
		case <-tick.C:
		}
	}
	return nil
}
