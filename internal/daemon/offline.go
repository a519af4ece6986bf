package daemon

import (
	"context"
	"slices"

	"sluice/internal/base/sleep"
	"sluice/internal/config"
	"sluice/internal/control/loop"
	"sluice/internal/edge/answer"
	"sluice/internal/host/observe"
	"sluice/internal/model"
)

// Offline observes the host without running as a daemon and without changing anything, and returns what a daemon would plan and
// check.
func Offline(ctx context.Context, path string) (*answer.Offline, error) {
	c, h, err := openQuietly(ctx, path)
	if err != nil {
		return nil, err
	}
	defer h.close()
	v, err := observeOnce(ctx, c, h)
	if err != nil {
		return nil, err
	}
	return answer.NewOffline(v), nil
}

// observeOnce returns what a daemon would see and plan. Rates need two samples, so it takes one sampling period.
func observeOnce(ctx context.Context, c *config.Config, h *host) (*model.View, error) {
	o := loopOptions(c)
	o.Mode = model.ModeObserve
	core, err := loop.NewCore(c.Rules(), o, loop.NoJournal{}, nil)
	if err != nil {
		return nil, err
	}
	var snap *model.Snapshot
	for i := range 2 {
		if i > 0 {
			if err := sleep.For(ctx, c.Sample); err != nil {
				return nil, err
			}
		}
		snap, err = observe.Applied{Source: h.source, Uplinks: h.uplinks, Taps: h.kernel}.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		core.Tick(snap.Time, snap)
	}
	snap.Problems = append(snap.Problems, virtualProblems(ctx, c.StateDir, h.virt.CheckVPF)...)
	v := core.View()
	v.Findings = slices.Concat(v.Findings, leftFindings(ctx, h, c, snap), h.reserved.findings())
	return v, nil
}
