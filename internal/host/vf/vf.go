package vf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Settings are the settings that SetVF applies: all but the MAC.
type Settings struct {
	VLAN       int // 0: none
	SpoofCheck bool
	Trust      bool
	MaxTxRate  uint64 // bits/s, 0: no limit; the kernel's resolution is 1 Mbit/s
	MinTxRate  uint64 // bits/s, 0: nothing is guaranteed
}

// SetVF applies settings to VF idx of a PF and verifies by reading back. It skips settings that the
// driver does not support and lists them in note.
func (h *Functions) SetVF(ctx context.Context, pf string, idx int, s Settings) (note string, err error) {
	e, err := h.editVF(ctx, pf, idx)
	if err != nil {
		return "", err
	}
	return e.apply(ctx, s.traits(e.caps))
}

// Rates are the maximum and the guaranteed rate of a VF, in bits/s; the kernel's resolution is 1 Mbit/s.
type Rates struct {
	Max uint64 // 0: no limit
	Min uint64 // guaranteed by the NIC; 0: nothing
}

// SetVFRates sets the rates of VF idx of a PF, and returns the rates that the driver then reports. It omits a guarantee that the
// driver does not support, or refuses in combination with those of other VFs, or would not keep because the VF is in somebody's rate node.
// No other setting of the VF changes, so it can be in
// use.
func (h *Functions) SetVFRates(ctx context.Context, pf string, idx int, want Rates) (Rates, error) {
	e, err := h.editVF(ctx, pf, idx)
	if err != nil {
		return Rates{}, err
	}
	return e.setRates(ctx, want)
}

func (e *vfEdit) setRates(ctx context.Context, want Rates) (Rates, error) {
	if e.caps.MinTxRate != model.Yes || e.before.RateNode != "" { // in a node, it is a share of what the node gets
		want.Min = 0
	}
	if want.Max > 0 {
		want.Min = min(want.Min, model.WholeMbit(want.Max)) // drivers refuse more
	}
	note, err := e.apply(ctx, []vfTrait{rateTrait(want, e.caps)})
	if want.Min > 0 && (note != "" || err != nil) {
		want.Min, e.notes = 0, nil
		note, err = e.apply(ctx, []vfTrait{rateTrait(want, e.caps)})
	}
	if note != "" && err == nil {
		err = errors.New(note)
	}
	return e.rates(ctx, err)
}

// rates returns the rates that the driver reports, and err.
func (e *vfEdit) rates(ctx context.Context, err error) (Rates, error) {
	now, rerr := e.state(ctx)
	return Rates{Max: now.MaxTxRate, Min: now.MinTxRate}, errors.Join(err, rerr)
}

// SetVFMAC sets the administrative MAC of a VF and verifies it by reading back. From then on the NIC steers frames for that MAC
// to the VF.
func (h *Functions) SetVFMAC(ctx context.Context, pf string, idx int, mac model.MAC) error {
	if err := sysif.WantUnicast(mac); err != nil {
		return sysif.Fail("set VF MAC to", mac.String(), err)
	}
	e, err := h.editVF(ctx, pf, idx)
	if err != nil {
		return err
	}
	is := func(s vfState) model.Tri { return model.TriOf(s.MAC == mac) }
	_, err = e.apply(ctx, []vfTrait{{change: changeMAC(mac), is: is, able: model.Yes}})
	return err
}

// ClearVF removes MAC, VLAN, rates and trust from a VF, enables spoof checking and reads back. If the driver refuses something
// that its Caps do not promise, note says so.
//
// Some drivers refuse the zero MAC. The old address must not stay, or the NIC would keep steering that VM's frames to an unused
// VF. ClearVF then parks the VF on an address that nobody uses; note reports it, and PFs returns it as zero.
func (h *Functions) ClearVF(ctx context.Context, pf string, idx int) (note string, err error) {
	e, err := h.editVF(ctx, pf, idx)
	if err != nil {
		return "", err
	}
	return e.clear(ctx)
}

// vfIO is what editing VFs needs of the kernel. Tests replace it to simulate other drivers.
type vfIO interface {
	vfStates(ctx context.Context, pf string, ext uint32) ([]vfState, error)
	changeVF(ctx context.Context, pf string, idx int, c vfChange) error
}

func (h *Functions) changeVF(ctx context.Context, pf string, idx int, c vfChange) error {
	if c.attr == unix.IFLA_VF_RATE {
		if leaf, ok := h.devlinkRates(ctx, pf)[idx]; ok {
			return h.devlink.set(ctx, leaf, c.rates())
		}
	}
	return h.k.Write.Do(ctx, c.request(pf, idx))
}

// vfEdit is a set of changes to one VF.
type vfEdit struct {
	io     vfIO
	pf     string
	pfMAC  model.MAC
	idx    int
	driver string
	caps   model.Caps
	before vfState
	notes  []string
}

func (h *Functions) editVF(ctx context.Context, pf string, idx int) (*vfEdit, error) {
	addr := sysif.PCIOf(h.k.Sys, "class/net/"+pf+"/device")
	driver := h.driver(pf)
	device, _ := h.k.Sys.Text(sysif.PCIDir(addr) + "/device")
	e := &vfEdit{io: h, pf: pf, idx: idx, driver: driver}
	e.caps, _ = capsOf(driver, device, 0)
	if len(h.devlinkRates(ctx, pf)) > 0 {
		e.caps.MaxTxRate, e.caps.MinTxRate = model.Yes, model.Yes
	}
	if mac, err := h.k.Sys.Text("class/net/" + pf + "/address"); err == nil {
		e.pfMAC, _ = model.ParseMAC(mac)
	}
	var err error
	e.before, err = e.state(ctx)
	return e, err
}

func (e *vfEdit) subject() string { return fmt.Sprintf("VF %s/%d", e.pf, e.idx) }

func (e *vfEdit) state(ctx context.Context) (vfState, error) {
	all, err := e.io.vfStates(ctx, e.pf, netdev.ExtVF|netdev.ExtSkipStats)
	if err != nil {
		return vfState{}, err
	}
	i := slices.IndexFunc(all, func(s vfState) bool { return s.Index == e.idx })
	if i < 0 {
		return vfState{}, fmt.Errorf("read %s: %w: the PF has %d VFs", e.subject(), model.ErrGone, len(all))
	}
	return all[i], nil
}

func (e *vfEdit) change(ctx context.Context, c vfChange) error {
	err := e.io.changeVF(ctx, e.pf, e.idx, c)
	return sysif.Fail("set "+c.what+" of", e.subject(), err)
}

// vfTrait is one desired setting of a VF: how to set it, how to check it, and whether the driver supports it according to
// driverCaps.
type vfTrait struct {
	change vfChange
	is     func(vfState) model.Tri
	able   model.Tri
	off    bool // what a driver without support does anyway, so its refusal needs no note
}

// traits returns the settings as vfTraits.
func (s Settings) traits(c model.Caps) []vfTrait {
	same := func(have model.Tri, want bool) model.Tri {
		if have == model.Unknown {
			return model.Unknown
		}
		return model.TriOf(have == model.TriOf(want))
	}
	return []vfTrait{
		{
			change: changeVLAN(s.VLAN), able: model.Yes,
			is: func(v vfState) model.Tri { return model.TriOf(v.VLAN == s.VLAN) },
		},
		{
			change: changeSpoofCheck(s.SpoofCheck), able: model.Unknown, off: !s.SpoofCheck,
			is: func(v vfState) model.Tri { return same(v.SpoofCheck, s.SpoofCheck) },
		},
		{
			change: changeTrust(s.Trust), able: c.Trust, off: !s.Trust,
			is: func(v vfState) model.Tri { return same(v.Trust, s.Trust) },
		},
		rateTrait(Rates{Max: s.MaxTxRate, Min: s.MinTxRate}, c),
	}
}

func rateTrait(want Rates, c model.Caps) vfTrait {
	most, least := model.WholeMbit(want.Max), model.WholeMbit(want.Min)
	return vfTrait{
		change: changeRates(least, most), able: c.MaxTxRate,
		is: func(v vfState) model.Tri { return model.TriOf(v.MaxTxRate == most && v.MinTxRate == least) },
	}
}

// apply sets the traits that do not hold yet, continues after failures, and verifies by reading back.
func (e *vfEdit) apply(ctx context.Context, traits []vfTrait) (note string, err error) {
	var errs []error
	var done []vfTrait
	for _, t := range traits {
		was := t.is(e.before)
		if was == model.Yes {
			continue
		}
		switch err := e.change(ctx, t.change); {
		case err == nil:
			done = append(done, t)
		case !unsupported(err, t.able):
			errs = append(errs, err)
		case was == model.No || !t.off:
			e.notes = append(e.notes, fmt.Sprintf("driver %s does not support %s of a VF", e.driver, t.change.what))
		}
	}
	errs = append(errs, e.verify(ctx, done))
	return strings.Join(e.notes, "; "), errors.Join(errs...)
}

// verify reads back what was set. Settings that the driver does not report cannot be checked.
func (e *vfEdit) verify(ctx context.Context, traits []vfTrait) error {
	if len(traits) == 0 {
		return nil
	}
	now, err := e.state(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range traits {
		if t.is(now) == model.No {
			errs = append(errs, fmt.Errorf("set %s of %s: driver %s accepted it but does not show it", t.change.what, e.subject(), e.driver))
		}
	}
	return errors.Join(errs...)
}

// unsupported distinguishes a driver that lacks a feature from one that refuses it at the moment. Drivers without a feature
// return EOPNOTSUPP, or EINVAL if they implement half of it.
func unsupported(err error, able model.Tri) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || able != model.Yes && errors.Is(err, unix.EINVAL)
}

// clear resets everything, the MAC first because it steers frames.
func (e *vfEdit) clear(ctx context.Context) (note string, err error) {
	macErr := e.clearMAC(ctx)
	cleared := Settings{SpoofCheck: true}
	note, err = e.apply(ctx, cleared.traits(e.caps))
	return note, errors.Join(macErr, err)
}

// clearMAC removes the old address from the VF.
func (e *vfEdit) clearMAC(ctx context.Context) error {
	parked := parkedMAC(e.pfMAC, e.idx)
	if e.before.MAC.IsZero() || e.before.MAC == parked {
		return nil
	}
	err := e.change(ctx, changeMAC(model.MAC{}))
	if err != nil {
		if perr := e.change(ctx, changeMAC(parked)); perr != nil {
			return fmt.Errorf("%w; the NIC still steers %s to this VF: set another address by hand (ip link set %s vf %d mac ...): %w",
				err, e.before.MAC, e.pf, e.idx, perr)
		}
		e.notes = append(e.notes, fmt.Sprintf("driver %s refuses the zero MAC: %s is parked on %s", e.driver, e.subject(), parked))
	}
	return e.verifyCleared(ctx, parked)
}

func (e *vfEdit) verifyCleared(ctx context.Context, parked model.MAC) error {
	now, err := e.state(ctx)
	switch {
	case err != nil:
		return err
	case now.MAC == e.before.MAC:
		return fmt.Errorf("clear MAC of %s: driver %s accepted it but still shows %s", e.subject(), e.driver, now.MAC)
	case !now.MAC.IsZero() && now.MAC != parked:
		e.notes = append(e.notes, fmt.Sprintf("driver %s gave %s the address %s instead of none", e.driver, e.subject(), now.MAC))
	}
	return nil
}

// parkedMAC is the address of an unused VF of a driver that refuses zero: locally administered, unicast, and different for every
// VF of the PF and from the PF's own.
func parkedMAC(pf model.MAC, idx int) model.MAC {
	m := pf
	m[0] = m[0]&^1 | 2
	m[1] ^= byte(idx + 1)
	m[2] ^= byte((idx + 1) >> 8)
	return m
}
