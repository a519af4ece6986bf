package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/daemon/journal"
	"sluice/internal/daemon/runner"
	"sluice/internal/edge/backend"
	"sluice/internal/host/actuate"
	"sluice/internal/host/observe"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// limit creates the bandwidth controller with the host's enforcers.
func (d *daemonState) limit(c *config.Config, act *actuate.Actuator) (err error) {
	core, err := bandwidth.NewCore(d.bandwidthOptions(c))
	if err != nil {
		return err
	}
	if d.reader, err = d.host.kernel.NewCounterReader(); err != nil {
		return err
	}
	d.limits = (&runner.Bandwidth{
		Core: core, Counters: &readings{Counters: observe.NewCounters(d.reader), taps: d.host.kernel}, Enforcers: d.enforcers(act),
		Period: c.Bandwidth.Period, LiftAll: d.o.Lift || liftAll(c), Log: d.log,
	}).Init()
	d.runner.Limits = d.limits
	d.runner.Core.LimitPlugs(d.limits)
	return nil
}

// LiftLimits cleans up after a daemon that was killed: it lifts current rates, and the contracts of SLAs only if everything is to
// be lifted. It refuses while a daemon runs.
func LiftLimits(ctx context.Context, o Options) error {
	c, err := load(o.Config)
	if err != nil {
		return err
	}
	c.Mode, o.Mode = model.ModeEnforce, model.ModeEnforce
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	h, err := openHost(ctx, c, log)
	if err != nil {
		return err
	}
	defer h.close()
	d := &daemonState{o: o, host: h, log: log, started: c}
	defer d.locks.close()
	if err := d.locks.state(c.StateDir); err != nil && !journal.Unusable(err) {
		return err
	}
	if err := d.locks.mode(model.ModeEnforce); err != nil {
		return err
	}
	rules := c.Rules()
	if over, err := backend.OpenOverrides(filepath.Join(c.StateDir, "overrides.json")); err != nil {
		log.Warn("limits that only SLAs set at run time require are lifted too", "error", err)
	} else {
		rules = over.Over(rules)
	}
	core, err := loop.NewCore(rules, d.options(c), loop.NoJournal{}, nil)
	if err != nil {
		return err
	}
	d.runner = &runner.Placement{Core: core}
	if err := d.limit(c, actuate.New(h.kernel, h.uplinks, h.virt, log)); err != nil {
		return err
	}
	defer d.reader.Close()
	snap, err := observe.Applied{Source: h.source, Uplinks: h.uplinks, Taps: h.kernel}.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the limits in place: %w", err)
	}
	err = d.limits.Lift(time.Now(), bandwidth.World{Snapshot: snap, Rules: rules})
	return errors.Join(err, d.limits.Sweep(snap)) // now no tap is directed to a tree any more
}

// enforcers returns the host's enforcers in order of preference. For VFs: the NIC itself, else the guest. For the virtio path: a
// tree that shares the link among the taps, else a program on each tap that drops the excess.
func (d *daemonState) enforcers(act *actuate.Actuator) []loop.Enforcer {
	list := []loop.Enforcer{&refreshingLimits{act.Limits(), d.host.source}}
	if d.host.shaper != nil {
		list = append(list, actuate.NewGuestHTB(d.host.shaper))
	}
	tree, police := actuate.NewHTB(d.host.kernel), actuate.NewPolice(d.host.kernel)
	if err := errors.Join(tree.Unable(), police.Unable()); err != nil {
		d.log.Warn("what VMs send and receive on virtio cannot be limited as configured", "error", err)
	}
	return append(list, tree, police)
}

// bandwidthOptions returns the bandwidth controller's options from the config.
func (d *daemonState) bandwidthOptions(c *config.Config) bandwidth.Options {
	b := &c.Bandwidth
	return bandwidth.Options{
		Mode: d.options(c).Mode, Allocator: b.Allocator, Period: b.Period, Packets: b.Packets.Packets, NoTree: b.Tree == "off", Off: !b.Enabled,
	}
}

// liftAll reports whether stopping lifts contracts too.
func liftAll(c *config.Config) bool { return c.Bandwidth.Stop == "lift" }

// readings adapts observe's counters to the controller.
type readings struct {
	*observe.Counters
	taps  tapDrops
	buf   []observe.Count
	drops []tap.Drops
	of    map[int]model.Dropped // by ifindex of the tap
}

// tapDrops reads what policers dropped.
type tapDrops interface {
	TapDrops(buf []tap.Drops) []tap.Drops
}

// Read implements runner.Counters.
func (c *readings) Read(ctx context.Context, buf []bandwidth.Reading) ([]bandwidth.Reading, error) {
	counts, err := c.Counters.Read(ctx, c.buf[:0])
	c.buf = counts
	c.drops = c.taps.TapDrops(c.drops[:0])
	if c.of == nil {
		c.of = map[int]model.Dropped{}
	}
	clear(c.of)
	for _, d := range c.drops {
		c.of[d.Index] = model.Dropped{Tx: d.Tx, Rx: d.Rx}
	}
	for i := range counts {
		n := &counts[i]
		r := bandwidth.Reading{
			NIC: n.NIC, Path: model.PathVirtio, Device: n.Device, At: n.At, Proof: model.ProofKernel,
			TxPackets: n.TxPackets, RxPackets: n.RxPackets, TxBytes: n.TxBytes, RxBytes: n.RxBytes,
		}
		r.Dropped = c.of[n.Device]
		if n.VF != model.NoVF {
			r.Path, r.Proof = model.PathVF, model.ProofHardware
			r.Device = n.Device<<16 + n.VF.Index // another VF of the PF starts at other counts
		}
		buf = append(buf, r)
	}
	return buf, err
}

// refreshingLimits makes the next Snapshot read the limits again.
type refreshingLimits struct {
	loop.Enforcer
	source *observe.Source
}

// Apply implements loop.Enforcer.
func (r *refreshingLimits) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	now, err := r.Enforcer.Apply(ctx, snap, batch)
	r.source.Invalidate()
	return now, err
}
