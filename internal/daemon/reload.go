package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"sluice/internal/host/observe"
	"sluice/internal/model"
)

// reload reads the config again. Either all of it applies from now on, except the keys that the notes name, or none. The notes
// tell the user about the consequences.
func (d *daemonState) reload() (notes []string, err error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading)
	defer daemon.SdNotify(false, daemon.SdNotifyReady) //nolint:errcheck // there may be no listener
	c, err := load(d.o.Config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := d.host.checkWorld(ctx, c); err != nil {
		return nil, err
	}
	if err := d.locks.mode(d.options(c).Mode); err != nil {
		return nil, err
	}
	view, _ := d.backend.View()
	d.host.readReports(ctx, c)
	var failed error
	err = d.runner.Call(ctx, func(time.Time) {
		if failed = d.runner.Core.SetRules(d.over.Over(d.host.rules(c))); failed == nil {
			if failed = d.limits.SetOptions(d.bandwidthOptions(c), d.o.Lift || liftAll(c)); failed != nil {
				return
			}
			d.runner.Core.SetOptions(d.options(c))
			d.host.conf.Store(c)
			d.host.source.SetPool(poolOf(c))
			setLevel(d.level, c.Log.Level)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	notes = c.Warnings()
	for _, key := range c.AfterRestart(d.started) {
		notes = append(notes, key+" changed: it takes effect after a restart")
	}
	notes = append(notes, leaving(view, poolOf(c), d.options(c).Mode)...)
	warn(notes, d.log)
	d.log.Info("configuration reloaded", "policy", c.Policy, "mode", string(d.options(c).Mode))
	return notes, nil
}

// leaving describes what happens to VFs that VMs hold and that are no longer in the pool.
func leaving(v *model.View, pool observe.Pool, mode model.Mode) (notes []string) {
	for i := range v.Snapshot.PFs {
		pf := &v.Snapshot.PFs[i]
		_, listed := pool[pf.Name]
		var holders []string
		for j := range pf.VFs {
			vf := &pf.VFs[j]
			if vm := v.Snapshot.FindVM(vf.Holder); vm != nil && vf.Owner == model.OwnerSluice && (!listed || !pool.Has(vf.ID)) {
				holders = append(holders, fmt.Sprintf("%s (%s)", vm.Name, vf.ID))
			}
		}
		list := strings.Join(holders, ", ")
		switch {
		case len(holders) == 0:
		case listed:
			notes = append(notes, fmt.Sprintf("%s: VFs that `vfs:` no longer lists stay with their VMs until these give them up: %s", pf.Name, list))
		case mode == model.ModeEnforce:
			notes = append(notes, fmt.Sprintf("%s is no longer listed: its VFs are given up, and these VMs move to virtio or to a VF of "+
				"another PF: %s", pf.Name, list))
		default:
			notes = append(notes, fmt.Sprintf("%s is no longer listed: in enforce mode these VMs would give up its VFs: %s", pf.Name, list))
		}
	}
	return notes
}

// onHangup reloads on SIGHUP until the returned function is called.
func (d *daemonState) onHangup(ctx context.Context) func() {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				if _, err := d.backend.TryReload(); err != nil {
					d.log.Error("reload failed", "error", err)
				}
			}
		}
	}()
	return func() { signal.Stop(hup); cancel() }
}
