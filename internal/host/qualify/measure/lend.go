package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/base/sleep"
	"sluice/internal/host/vf"
)

// cycles is how often binding is timed.
const cycles = 3

// Timeouts of drivers.
const (
	netdevWithin = 15 * time.Second
	linkWithin   = 30 * time.Second
)

var errNoDriver = errors.New("the host has no driver for its VFs: load it (modprobe igbvf, iavf, ixgbevf, mlx5_core ...), " +
	"or measure with a scratch VM")

// times measures how long drivers take to release a VF and to bind to it.
func (r *run) times(ctx context.Context) error {
	l := r.vfs[0]
	for range cycles {
		if err := r.step(ctx, "binding VF "+l.was.ID.String()+" to vfio-pci", func() error { return r.toVFIO(ctx, l) }); err != nil {
			return err
		}
		if l.driver == "" || !vf.PassesThrough(l.driver) {
			return nil // it failed, and would fail again
		}
		if err := r.step(ctx, "binding VF "+l.was.ID.String()+" to the host's driver", func() error { return r.toHost(ctx, l) }); err != nil {
			return err
		}
		if vf.PassesThrough(l.driver) || l.driver == "" {
			return nil
		}
	}
	return nil
}

// toVFIO binds the VF to vfio-pci. It records the duration if another driver had the VF.
func (r *run) toVFIO(ctx context.Context, l *lent) error {
	from := l.driver
	begin := time.Now()
	err := r.Kernel.BindVFIO(ctx, l.was.Address)
	took := time.Since(begin)
	l.name = ""
	if err := errors.Join(err, r.refresh(ctx, l)); err != nil {
		return err
	}
	if from != "" && !vf.PassesThrough(from) {
		r.m.Unbind = append(r.m.Unbind, took)
	}
	return nil
}

// toHost binds the VF to the host's own driver and immediately moves its interface into the Space, before anything on the host configures
// it.
func (r *run) toHost(ctx context.Context, l *lent) error {
	begin := time.Now()
	err := r.Kernel.BindHost(ctx, l.was.Address, "")
	if err := errors.Join(err, r.refresh(ctx, l)); err != nil {
		return err
	}
	if l.driver == "" || vf.PassesThrough(l.driver) {
		return errNoDriver
	}
	r.m.Hardware.VFDriver = l.driver
	return r.takeIn(ctx, l, begin)
}

// takeIn waits for the interface that a VF's driver creates, and moves it into the Space.
func (r *run) takeIn(ctx context.Context, l *lent, begin time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, netdevWithin)
	defer cancel()
	name := inSpace(l.was.ID)
	var last error
	for {
		now, use, err := find(ctx, r.Kernel, l.was.ID)
		switch {
		case err != nil:
			return err
		case now.Driver != l.driver:
			return fmt.Errorf("VF %s: %w: its driver is %q, and it was left with %q", l.was.ID, errTaken, now.Driver, l.driver)
		case use.HostNetdevUp:
			return fmt.Errorf("VF %s: %w: its interface %s was set up as soon as it was there (by NetworkManager or the like?)", l.was.ID, errTaken,
				use.HostNetdev)
		case use.HostNetdev != "":
			took := time.Since(begin)
			// udev may have renamed it meanwhile: then the next iteration finds the new name.
			if last = r.Kernel.MoveLink(ctx, use.HostNetdev, name, r.space.FD()); last == nil {
				l.name = name
				r.m.Bind = append(r.m.Bind, took)
				return nil
			}
		}
		if sleep.For(ctx, 2*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("driver %s created no interface for VF %s that could be moved", l.driver, l.was.ID), last)
		}
	}
}

// refresh records the state of the VF after a change by this measurement.
func (r *run) refresh(ctx context.Context, l *lent) error {
	now, _, err := find(ctx, r.Kernel, l.was.ID)
	if err == nil {
		l.driver, l.mac = now.Driver, now.MAC
	}
	return err
}

// plain holds the settings with which a VF is measured.
var plain = vf.Settings{SpoofCheck: true}

// prepare assigns MACs to the VFs before any driver requests one.
func (r *run) prepare(ctx context.Context) error {
	for i, l := range r.vfs {
		id := l.was.ID
		err := r.step(ctx, fmt.Sprintf("giving VF %s an address", id), func() error {
			_, err := r.Kernel.SetVF(ctx, id.PF, id.Index, plain)
			return errors.Join(err, r.Kernel.SetVFMAC(ctx, id.PF, id.Index, r.address(i)), r.refresh(ctx, l))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lendAll binds all VFs to the host's driver and sets them up. Without a driver, measurements that need frames are skipped.
func (r *run) lendAll(ctx context.Context) error {
	for _, l := range r.vfs {
		err := r.step(ctx, fmt.Sprintf("setting VF %s up", l.was.ID), func() error {
			if l.name == "" {
				if err := errors.Join(r.Kernel.Unbind(ctx, l.was.Address), r.refresh(ctx, l), r.toHost(ctx, l)); err != nil {
					return err
				}
			}
			up, cancel := context.WithTimeout(ctx, linkWithin)
			defer cancel()
			begin := time.Now()
			if err := r.space.Up(up, l.name); err != nil {
				return err
			}
			l.up = true
			r.m.Link = append(r.m.Link, time.Since(begin))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sender returns the first VF that can send; if there is none, it returns nil and sets why.
func (r *run) sender(why *string) *lent {
	if ready := r.usable(); len(ready) > 0 {
		return ready[0]
	}
	*why = r.unusable()
	return nil
}

// unusable is why no VF can send.
func (r *run) unusable() string {
	for _, l := range r.vfs {
		if l.apart != "" {
			return l.apart
		}
	}
	return noInterface
}

// usable returns the VFs whose interface is in the Space and can send.
func (r *run) usable() (out []*lent) {
	for _, l := range r.vfs {
		if l.name != "" && l.up && l.apart == "" {
			out = append(out, l)
		}
	}
	return out
}
