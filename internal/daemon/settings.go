package daemon

import (
	"context"
	"io"
	"log/slog"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/control/placement"
	"sluice/internal/control/plan"
	"sluice/internal/host/observe"
	"sluice/internal/model"
)

// poolOf returns observe's pool from the config's list of VFs.
func poolOf(c *config.Config) observe.Pool {
	pool := observe.Pool{}
	for _, pf := range c.PFs {
		p := observe.PoolPF{All: pf.VFs.All, Network: pf.Network, Speed: pf.Speed.Bits, NoRates: pf.VFRates == "none"}
		for _, r := range pf.VFs.Ranges {
			for i := r.First; i <= r.Last; i++ {
				p.VFs = append(p.VFs, i)
			}
		}
		pool[pf.Name] = p
	}
	return pool
}

// load reads the config and checks it against the existing policies.
func load(path string) (*config.Config, error) {
	return config.Load(path, config.Known{Policies: placement.Policies(), Allocators: bandwidth.Allocators()})
}

// openQuietly reads the config and opens the host, for a command that runs no daemon and logs nothing.
func openQuietly(ctx context.Context, path string) (*config.Config, *host, error) {
	c, err := load(path)
	if err != nil {
		return nil, nil, err
	}
	h, err := openHost(ctx, c, slog.New(slog.DiscardHandler))
	return c, h, err
}

// loopOptions returns the loop's options from the config.
func loopOptions(c *config.Config) loop.Options {
	o := loop.DefaultOptions
	o.Mode = c.Mode
	o.Parallel, o.Retries = c.Moves.Parallel, c.Moves.Retries
	o.Backoff, o.BackoffMax = c.Moves.Backoff, c.Moves.BackoffMax
	o.Timeouts = plan.Timeouts{
		Kernel: plan.DefaultTimeouts.Kernel, Attach: c.Moves.PlugTimeout, Guest: c.Moves.PlugTimeout, Detach: c.Moves.UnplugTimeout,
	}
	return o
}

// observeOptions returns observe's options from the config. failover looks the rules up each time, so that a reload takes effect.
func observeOptions(c *config.Config, failover func(string, model.VMID) model.Failover) observe.Options {
	o := observe.Options{Pool: poolOf(c), Failover: failover, Sample: c.Sample, AskEvery: c.GuestAgent.Every, AskFor: c.GuestAgent.Timeout}
	if !c.GuestAgent.Enabled {
		o.AskEvery = -1
	}
	return o
}

// newLogger returns a logger that writes to w at a level that can be changed later.
func newLogger(w io.Writer, format string, level *slog.LevelVar) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func setLevel(v *slog.LevelVar, text string) {
	var l slog.Level
	if l.UnmarshalText([]byte(text)) == nil { // the config checked it
		v.Set(l)
	}
}

// staleAfter is the age of the last Snapshot from which the daemon counts as unhealthy.
func staleAfter(sample time.Duration) time.Duration { return max(30*time.Second, 10*sample) }
