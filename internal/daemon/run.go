package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"sluice/internal/config"
	"sluice/internal/control/loop"
	"sluice/internal/daemon/journal"
	"sluice/internal/daemon/runner"
	"sluice/internal/daemon/virtualpf"
	"sluice/internal/edge/backend"
	"sluice/internal/edge/history"
	"sluice/internal/edge/page"
	"sluice/internal/edge/server"
	"sluice/internal/host/actuate"
	"sluice/internal/host/counters"
	"sluice/internal/host/guest"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/observe"
	"sluice/internal/host/others"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/model"
)

// host holds the adapters of the real host.
type host struct {
	kernel  *kernel.Host
	uplinks uplink.Set // all supported kinds of frame steering
	ovs     *ovs.Switch
	virt    *libvirt.Conn
	source  *observe.Source
	guests  *guest.Collector // what guests report
	shaper  *guest.Shaper    // nil: limits are not set in guests
	conf    atomic.Pointer[config.Config]

	reports  atomic.Pointer[reports] // of `sluice qualify`
	reserved reservedVFs
}

func openHost(ctx context.Context, c *config.Config, log *slog.Logger) (*host, error) {
	h := &host{}
	h.conf.Store(c)
	var err error
	// A guest with a new VF sends through its virtio NIC until the VF has carrier, seconds after it listens on the VF. If these
	// frames could move the pinned bridge entries, the guest's frames would go to the NIC on which it no longer listens.
	if h.kernel, err = kernel.New(kernel.Options{Logger: log, StickyPins: true}); err != nil {
		return nil, err
	}
	h.ovs = ovs.New(ctx, h.kernel, log)
	h.uplinks = uplink.Set{bridge.New(h.kernel), h.ovs.OVN(), h.ovs}
	if h.virt, err = libvirt.Open(ctx, libvirt.Options{
		URI: c.Libvirt.URI, Logger: log, NoMetadata: !c.Bandwidth.Metadata, Switches: h.uplinks,
	}); err != nil {
		h.ovs.Close()
		return nil, errors.Join(err, h.kernel.Close())
	}
	failover := func(name string, id model.VMID) model.Failover {
		rules := h.conf.Load().Rules()
		return rules.For(id, name).Failover
	}
	h.readReports(ctx, c)
	h.reserved = newReserved(log)
	options := observeOptions(c, failover)
	options.SetAside, options.Measured = h.reserved.look, h.measured
	if c.Bandwidth.InGuest && c.GuestAgent.Enabled {
		h.shaper = guest.NewShaper(libvirt.Patient{Agents: h.virt})
		options.InGuest = h.shaper
	}
	h.guests = guest.NewCollector(guest.New(h.virt))
	options.Reports = h.guests.Reports
	options.Others = func(list []others.Interface) []model.Problem { return others.Find("/", list) }
	h.source = observe.New(h.kernel, h.uplinks, h.virt, h.guests, options)
	return h, nil
}

func (h *host) close() error {
	h.source.Close()
	h.ovs.Close()
	return errors.Join(h.virt.Close(), h.kernel.Close())
}

// Options are the options of sluiced's command line.
type Options struct {
	Config  string     // path of sluice.yaml
	Mode    model.Mode // overrides the config's if set
	Socket  string     // overrides api.socket if set
	Version string     // for logs, metrics and status
	Lift    bool       // lift contracts too when stopping, whatever the config says
}

// Run runs the daemon until ctx ends.
func Run(ctx context.Context, o Options) error {
	c, err := load(o.Config)
	if err != nil {
		return err
	}
	level := &slog.LevelVar{}
	setLevel(level, c.Log.Level)
	log := newLogger(os.Stderr, c.Log.Format, level)
	h, err := openHost(ctx, c, log)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.checkWorld(ctx, c); err != nil {
		return err
	}
	d := &daemonState{o: o, host: h, log: log, level: level, started: c}
	return d.run(ctx, c)
}

// checkWorld refuses a config with PFs that this host does not have or whose VFs no VM could use.
func (h *host) checkWorld(ctx context.Context, c *config.Config) error {
	pfs, err := h.kernel.PFs(ctx)
	if err != nil {
		return fmt.Errorf("list the physical functions: %w", err)
	}
	list, err := h.kernel.Links(ctx)
	if err != nil {
		return err
	}
	var links uplink.Links
	links.Index(list)
	host := make([]model.PF, len(pfs))
	for i := range pfs {
		host[i] = pfs[i].PF
		h.uplinks.Find(&links, &host[i])
	}
	return c.CheckWorld(host)
}

// daemonState is the running daemon.
type daemonState struct {
	o        Options
	host     *host
	log      *slog.Logger
	level    *slog.LevelVar
	runner   *runner.Placement
	limits   *runner.Bandwidth
	reader   *counters.Reader
	backend  *backend.Backend
	over     *backend.Overrides
	vpf      *virtualpf.Manager
	whatIf   *history.WhatIf
	incoming *incoming
	started  *config.Config // the config at the start, for keys that need a restart

	reloading sync.Mutex
	locks     locks
}

func (d *daemonState) run(ctx context.Context, c *config.Config) error {
	defer d.locks.close()
	// A host can be repaired without a state_dir; the journal reports what is wrong with it.
	if err := d.locks.state(c.StateDir); err != nil && !journal.Unusable(err) {
		return err
	}
	if err := d.locks.mode(d.options(c).Mode); err != nil {
		return err
	}
	moves, left, trouble, err := journal.OpenLate(filepath.Join(c.StateDir, "journal"), d.log)
	if err != nil {
		return err
	}
	defer moves.Close()
	d.over, err = backend.OpenOverrides(filepath.Join(c.StateDir, "overrides.json"))
	if err != nil {
		return err
	}
	core, err := loop.NewCore(d.over.Over(d.host.rules(c)), d.options(c), moves, left)
	if err != nil {
		return err
	}
	core.JournalFailed(trouble)
	dog := &watchdog{ping: pingSystemd, most: looks(c.Sample)}
	filters, err := journal.OpenFilters(filepath.Join(c.StateDir, "filters"), d.log)
	if err != nil {
		d.log.Error("filters of VMs that end while the daemon is stopped will remain", "error", err)
	} else {
		defer filters.Close()
		core.Remember(filters)
	}
	act := actuate.New(d.host.kernel, d.host.uplinks, d.host.virt, d.log)
	if c.GuestAgent.Enabled {
		act.Guests = guest.New(d.host.virt)
	}
	if err := d.virtual(c); err != nil {
		return err
	}
	applied := observe.Applied{Source: d.host.source, Uplinks: d.host.uplinks, Taps: seenPorts{d.host.kernel, d.vpf.Runner}}
	d.incoming = newIncoming(ctx, sharing{applied, d.vpf}, act, d.host.kernel.WaitEnabled, d.log)
	defer d.incoming.close()
	d.runner = (&runner.Placement{
		Core: core, Source: d.incoming, Sample: c.Sample, Log: d.log, Alive: dog.seen,
		Actuator: &refreshing{act, d.host.source},
	}).Init()
	if err := d.limit(c, act); err != nil {
		return err
	}
	d.restoreReserved(ctx, c)
	defer d.reader.Close()
	dog.call = d.runner.Call
	d.backend = backend.New(core, d.runner.Call, d.over, func() model.Rules { return d.host.rules(d.host.conf.Load()) })
	d.backend.Reload, d.backend.Config = d.reload, d.o.Config
	past := history.New()
	past.Examine = d.host.examine
	kept, earlier := journal.OpenEvents(filepath.Join(c.StateDir, "events"), d.log)
	defer kept.Close()
	past.Resume(earlier)
	past.Tell = func(e *model.Event) {
		d.tell(e)
		kept.Add(e)
	}
	d.backend.Seen = past.Add
	d.whatIf = history.NewWhatIf(past, history.WhatIfEvery, time.Now, computeWhatIf)
	d.runner.Publish = func(v *model.View) {
		d.addLeftovers(v)
		v.Findings = append(v.Findings, d.host.reserved.findings()...)
		d.backend.Publish(v)
	}
	socket := c.API.Socket
	if d.o.Socket != "" {
		socket = d.o.Socket
	}
	server, err := server.New(server.Options{
		Backend: d.backend, Logger: d.log, Version: d.o.Version, Socket: socket, Group: c.API.Group, Operate: c.API.Operate, Own: c.API.Own,
		Claims: c.API.Claims, Ports: c.API.Ports, Listen: c.API.Listen, Cert: c.API.TLSCert, Key: c.API.TLSKey, Tokens: c.API.Tokens,
		Hosts: c.API.Hosts, Examine: d.host.examine, Stale: staleAfter(c.Sample), Process: true, VirtualPFs: d.vpf, History: past,
		WhatIf: d.whatIf, Page: page.Handler(d.o.Version), Preparer: d.preparer(),
		Incoming: func(ctx context.Context, vm model.Subject, nics []model.NIC) ([]model.VFStep, error) {
			return d.incoming.ready(ctx, d.runner.Call, core, vm, nics)
		},
	})
	if err != nil {
		return err
	}
	d.log.Info("started", "version", d.o.Version, "mode", string(d.options(c).Mode), "policy", c.Policy, "interval", c.Interval,
		"unfinished_moves", len(left))
	warn(c.Warnings(), d.log)
	stop := d.onHangup(ctx)
	defer stop()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	defer daemon.SdNotify(false, daemon.SdNotifyStopping) //nolint:errcheck // there may be no listener
	if err := d.serve(ctx, server, dog); err != nil {
		return err
	}
	past.Stop(time.Now())
	d.log.Info("stopped; VFs stay where they are, and the next start continues")
	return nil
}

func (d *daemonState) options(c *config.Config) loop.Options {
	o := loopOptions(c)
	if d.o.Mode != "" {
		o.Mode = d.o.Mode
	}
	return o
}

// warn logs settings of the config that may not have the expected effect.
func warn(list []string, log *slog.Logger) {
	for _, w := range list {
		log.Warn(w)
	}
}

// tell logs what has happened. Moves and failures of the loop log themselves.
func (d *daemonState) tell(e *model.Event) {
	level := slog.LevelInfo
	switch {
	case e.Move != 0 || e.Kind == model.EventStart || e.Kind == model.EventStop || e.Kind == model.EventError || e.Kind == model.EventErrorEnd:
		return
	case e.Alarm:
		level = slog.LevelWarn
	}
	text := e.Text
	if e.Kind == model.EventLost {
		text = "a VM lost its VF"
	}
	d.log.Log(context.Background(), level, text, "event", string(e.Kind), "vm", e.VMName, "vf", e.VF.String(), "cause", e.Cause.String())
}

// refreshing makes the next Snapshot read again what a Step has changed.
type refreshing struct {
	runner.Actuator
	source *observe.Source
}

// Do implements runner.Actuator.
func (r *refreshing) Do(ctx context.Context, s model.Step) error {
	err := r.Actuator.Do(ctx, s)
	r.source.Invalidate()
	return err
}

// serve runs the API beside the loops until one of them ends. Limits are enforced until the last move is over.
func (d *daemonState) serve(ctx context.Context, s *server.Server, dog *watchdog) error {
	for _, a := range s.Addrs() {
		d.log.Info("listening", "address", a.String())
	}
	after, moved := context.WithCancel(context.WithoutCancel(ctx))
	defer moved()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { defer moved(); return d.runner.Run(ctx) })
	g.Go(func() error { return d.limits.Run(after) })
	g.Go(func() error { return d.runVirtual(ctx) })
	g.Go(func() error { return d.whatIf.Run(ctx) })
	g.Go(func() error { dog.run(ctx, watchdogPeriod()); return nil })
	return g.Wait()
}
