package measure

import (
	"context"
	"errors"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/sleep"
	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/netdev"
	"sluice/internal/host/qualify"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Amounts of test traffic.
const (
	passFrames  = 50
	countFrames = 200
	floodFor    = time.Second
	filtersMost = 512
)

// Numbers of the made-up MACs: those of VFs come first.
const (
	addrBehindBridge = lendMost + iota
	addrForeign
	addrFilters
)

// rateLeast is a limit that every driver accepts, bits/s: ixgbe rejects 10 Mbit/s.
const rateLeast = 15_000_000

const noInterface = "no VF could be set up on the host"

var broadcast = model.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// filters counts how many unicast filters the PF accepts, and removes them again.
func (r *run) filters(ctx context.Context) error {
	f := &r.m.Filters
	return r.step(ctx, "counting the filters of "+r.PF, func() error {
		before, err := r.Kernel.Selfs(ctx, r.PF)
		if err != nil {
			f.Error = err.Error()
			return err
		}
		f.Had = len(before)
		for f.Added < filtersMost && f.Refused == "" {
			if err := r.Kernel.AddSelf(ctx, r.PF, r.address(addrFilters+f.Added)); err != nil {
				f.Refused = reason(err)
				break
			}
			f.Added++
		}
		var errs []error
		for i := range f.Added {
			errs = append(errs, r.Kernel.DelSelf(ctx, r.PF, r.address(addrFilters+i)))
		}
		return errors.Join(errs...)
	})
}

// reason returns the text of the innermost error: the driver's own.
func reason(err error) string {
	for {
		switch next := errors.Unwrap(err); {
		case next != nil:
			err = next
		default:
			if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
				err = many.Unwrap()[len(many.Unwrap())-1]
				continue
			}
			return err.Error()
		}
	}
}

// minRate requests a min_tx_rate from the driver.
func (r *run) minRate(ctx context.Context) error {
	l, m := r.vfs[0], &r.m.MinRate
	return r.step(ctx, "setting a min_tx_rate", func() error {
		m.Asked = rateLeast
		now, err := r.Kernel.TryVFRates(ctx, l.was.ID.PF, l.was.ID.Index, vf.Rates{Min: m.Asked})
		if err != nil {
			m.Refused = reason(err)
		}
		m.Shown = now.Min
		_, err = r.Kernel.TryVFRates(ctx, l.was.ID.PF, l.was.ID.Index, vf.Rates{})
		if m.Refused != "" {
			return nil // there is nothing to revert after a rejection; the restoration verifies that
		}
		return err
	})
}

// Why checks are not tried where each VF has a representor.
const (
	noFilters  = "not tried: a PF whose VFs have representors needs no filters"
	countsThem = "not tried: Sluice reads what a VF sends and receives from its representor, which every driver counts"
)

// passes determines which frames arrive where.
func (r *run) passes(ctx context.Context) error {
	ready := r.usable()
	if len(ready) == 0 {
		for _, code := range []string{api.ClaimVFToPF, api.ClaimPFToVF} {
			r.m.Passes[code] = qualify.Count{Error: r.unusable()}
		}
		return nil
	}
	a := ready[0]
	host, behind := r.hostEnd(a), r.address(addrBehindBridge)
	type probe struct {
		code, from, to string
		f              frames.Frame
	}
	list := []probe{
		{api.ClaimVFToPF, a.name, host, frames.Frame{To: r.pf.MAC, From: a.mac}},
		{api.ClaimPFToVF, host, a.name, frames.Frame{To: a.mac, From: r.pf.MAC}},
		{api.ClaimNeedsSelf, a.name, r.PF, frames.Frame{To: behind, From: a.mac}},
		{api.ClaimSelfFDB, a.name, r.PF, frames.Frame{To: behind, From: a.mac}},
		{api.ClaimLoopsToVF, a.name, a.name, frames.Frame{To: broadcast, From: a.mac}},
		{api.ClaimLoopsToPF, r.PF, r.PF, frames.Frame{To: broadcast, From: r.pf.MAC}},
	}
	if len(ready) > 1 {
		b := ready[1]
		list = append(list, probe{api.ClaimVFToVF, a.name, b.name, frames.Frame{To: b.mac, From: a.mac}})
	}
	for _, p := range list {
		if why := r.untried(p.code); why != "" {
			r.m.Passes[p.code] = qualify.Count{Error: why}
			continue
		}
		err := r.step(ctx, "sending test frames: "+p.code, func() error {
			if p.code == api.ClaimSelfFDB {
				if err := r.Kernel.AddSelf(ctx, r.PF, behind); err != nil {
					r.m.Passes[p.code] = qualify.Count{Error: reason(err)}
					return err
				}
			}
			c := r.pass(ctx, p.from, p.to, p.f)
			r.m.Passes[p.code] = c
			if p.code == api.ClaimSelfFDB {
				return r.Kernel.DelSelf(ctx, r.PF, behind)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untried is why a check of what passes has no meaning on this uplink; "": it has.
func (r *run) untried(code string) string {
	if !r.Uplink.Representors {
		return ""
	}
	switch code {
	case api.ClaimNeedsSelf, api.ClaimSelfFDB:
		return noFilters
	case api.ClaimVFToVF:
		if !r.bridged() {
			return r.vmsOnly()
		}
	}
	return ""
}

func (r *run) pass(ctx context.Context, from, to string, f frames.Frame) qualify.Count {
	got, err := r.space.Pass(ctx, from, to, f, passFrames)
	c := qualify.Count{Sent: passFrames, Got: got}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}

// counters compares the PF's counters of a VF with what the VF sent and received.
func (r *run) counters(ctx context.Context) error {
	c := &r.m.Counters
	if r.Uplink.Representors {
		c.Error = countsThem
		return nil
	}
	a := r.sender(&c.Error)
	if a == nil {
		return nil
	}
	return r.step(ctx, "comparing the counters of VF "+a.was.ID.String(), func() error {
		before, err := r.Kernel.VFCounters(ctx, r.PF)
		if err == nil {
			c.Sent, err = r.space.Pass(ctx, a.name, r.PF, frames.Frame{To: r.pf.MAC, From: a.mac}, countFrames)
		}
		if err == nil {
			c.Received, err = r.space.Pass(ctx, r.PF, a.name, frames.Frame{To: a.mac, From: r.pf.MAC}, countFrames)
		}
		if err == nil {
			err = r.awaitCounters(ctx, before[a.was.ID.Index], a.was.ID.Index)
		}
		if err != nil {
			c.Error = err.Error()
		}
		return err
	})
}

func (r *run) awaitCounters(ctx context.Context, before netdev.Counters, vf int) error {
	c := &r.m.Counters
	for until := time.Now().Add(r.Counters); ; {
		all, err := r.Kernel.VFCounters(ctx, r.PF)
		if err != nil {
			return err
		}
		now := all[vf]
		c.TxCounted, c.RxCounted = int(now.TxPackets-before.TxPackets), int(now.RxPackets-before.RxPackets) //nolint:gosec // hundreds
		if c.TxCounted >= c.Sent && c.RxCounted >= c.Received || time.Now().After(until) {
			return nil
		}
		if err := sleep.For(ctx, min(200*time.Millisecond, r.Counters)); err != nil {
			return err
		}
	}
}

// spoof sends from a foreign source address, with and without spoof checking.
func (r *run) spoof(ctx context.Context) error {
	s := &r.m.Spoof
	a := r.sender(&s.Error)
	if a == nil {
		return nil
	}
	id := a.was.ID
	forged := frames.Frame{To: r.pf.MAC, From: r.address(addrForeign)}
	return r.step(ctx, "sending from a foreign address", func() error {
		s.On = r.pass(ctx, a.name, r.hostEnd(a), forged)
		_, err := r.Kernel.SetVF(ctx, id.PF, id.Index, vf.Settings{})
		if err == nil {
			s.Off = r.pass(ctx, a.name, r.hostEnd(a), forged)
			_, err = r.Kernel.SetVF(ctx, id.PF, id.Index, plain)
		}
		if err != nil {
			s.Error = err.Error()
		}
		return err
	})
}

// maxRate tries a max_tx_rate.
func (r *run) maxRate(ctx context.Context) error {
	m := &r.m.MaxRate
	a := r.sender(&m.Error)
	if a == nil {
		return nil
	}
	id := a.was.ID
	f := frames.Frame{To: r.pf.MAC, From: a.mac, Size: frames.MaxSize}
	return r.limit(ctx, m, limitTrial{
		name: "a max_tx_rate",
		flood: func() (float64, error) {
			n, err := r.space.Flood(ctx, a.name, r.hostEnd(a), f, floodFor)
			return n * frames.MaxSize * 8, err
		},
		choose: func(quarter uint64) uint64 {
			limit := model.WholeMbit(max(rateLeast, quarter))
			if r.pf.Speed > 0 {
				limit = min(limit, r.pf.Speed)
			}
			return limit
		},
		set: func(limit uint64) error {
			_, err := r.Kernel.TryVFRates(ctx, id.PF, id.Index, vf.Rates{Max: limit})
			return err
		},
	})
}
