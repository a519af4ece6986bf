package measure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/host/qualify"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Options say what to measure, and with what.
type Options struct {
	PF      string
	Version string
	Kernel  Kernel
	Domains Domains
	Uplink  model.Uplink // of the PF
	// Free returns the VFs of the PF that are in Sluice's pool and unused, read afresh from the host.
	Free func(ctx context.Context) ([]model.VF, error)
	// SetAside waits until no daemon of this host assigns these VFs or has a move in progress with one. The journal already lists them when
	// it is called.
	SetAside func(ctx context.Context, vfs []model.VFID) error
	Space    func() (Space, error)
	Journal  string            // path of the journal
	Say      func(text string) // reports progress
	Counters time.Duration     // how long drivers may take to read VFs' counters from the NIC
}

// lendMost is the number of VFs used, if that many are free.
const lendMost = 2

// restoreWithin bounds the time to restore everything.
const restoreWithin = 2 * time.Minute

// errTaken means that somebody else now uses a VF, or has changed it.
var errTaken = errors.New("somebody else uses it")

// Run measures. When it returns, everything is restored, or Measured.Left says what is not. An error without Measured means that nothing
// was changed.
func Run(ctx context.Context, o Options) (*qualify.Measured, error) {
	held, err := lock(o.Journal)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if failed, err := restore(ctx, o.Kernel, o.Domains, o.Journal, nil); err != nil || len(failed) > 0 {
		return nil, errors.Join(fmt.Errorf("an earlier `sluice qualify` did not restore everything: %s", strings.Join(failed, "; ")), err)
	}
	r := &run{Options: o, m: &qualify.Measured{
		PF: o.PF, At: time.Now(), Version: o.Version, Passes: map[string]qualify.Count{}, Representors: o.Uplink.Representors,
	}}
	if err := r.choose(ctx); err != nil {
		return nil, err
	}
	if err := r.journal.write(o.Journal); err != nil {
		return nil, err
	}
	if err := o.SetAside(ctx, r.ids()); err != nil {
		return nil, errors.Join(err, os.Remove(o.Journal))
	}
	if r.space, err = o.Space(); err != nil {
		return nil, errors.Join(err, os.Remove(o.Journal))
	}
	if err := r.measure(ctx); err != nil {
		r.fail("all remaining measurements", err)
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWithin)
	defer cancel()
	r.Say("restoring everything")
	failed, err := restore(after, o.Kernel, o.Domains, o.Journal, r.space)
	if err := errors.Join(err, r.space.Close()); err != nil { // the interfaces must not return to the host before their drivers are unbound
		failed = append(failed, err.Error())
	}
	r.m.Left, r.m.Took = failed, time.Since(r.m.At)
	return r.m, ctx.Err()
}

// run is one measurement.
type run struct {
	Options
	m       *qualify.Measured
	journal Journal
	pf      model.PF
	vfs     []*lent
	space   Space
}

// lent is a VF in use by the measurement.
type lent struct {
	was    Found
	driver string // the driver that the measurement last bound
	mac    model.MAC
	name   string // of its interface in the Space; "": it is not there
	up     bool   // its interface is up and has carrier
	apart  string // why its representor is not connected; "": it is, or the VF has none
}

func (r *run) ids() (ids []model.VFID) {
	for _, l := range r.vfs {
		ids = append(ids, l.was.ID)
	}
	return ids
}

// choose selects free VFs and reads the hardware's description.
func (r *run) choose(ctx context.Context) error {
	hw, err := r.Kernel.Hardware(ctx, r.PF)
	if err != nil {
		return err
	}
	if r.pf, err = r.look(ctx); err != nil {
		return err
	}
	free, err := r.Free(ctx)
	if err != nil {
		return err
	}
	if len(free) == 0 {
		return &api.Error{
			Text:   "no VF of " + r.PF + " is free: none is both in Sluice's pool and unused",
			Remedy: "list one more under vfs: in sluice.yaml, or have a VM give up its VF for a while (`sluice release VM`)",
		}
	}
	slices.Reverse(free) // placement assigns the first ones first
	slices.SortStableFunc(free, func(a, b model.VF) int { return carries(&a) - carries(&b) })
	free = free[:min(lendMost, len(free))]
	r.journal = Journal{Version: journalVersion, PID: os.Getpid(), PF: r.PF, Switch: r.Uplink.Switch, Filters: madeUp()}
	for i := range free {
		found := Found{VF: free[i]}
		if found.Override, err = r.Kernel.DriverOverride(found.Address); err != nil {
			return err
		}
		if err = r.foundPort(ctx, &found); err != nil {
			return err
		}
		r.journal.VFs = append(r.journal.VFs, found)
		r.vfs = append(r.vfs, &lent{was: found, driver: free[i].Driver, mac: free[i].MAC})
	}
	r.m.VFs, r.m.Caps, r.m.Slots = r.ids(), r.pf.Caps, r.pf.SelfSlots
	r.m.Hardware = Describe(&hw, &r.pf)
	return nil
}

// Describe converts the hardware's description to a report's terms.
func Describe(hw *vf.Hardware, pf *model.PF) api.QualifiedHardware {
	return api.QualifiedHardware{
		Address: string(hw.Address), Device: hw.Device, Driver: hw.Driver, Version: hw.Version, Firmware: hw.Firmware,
		Kernel: hw.Kernel, Speed: pf.Speed, NumVFs: pf.NumVFs, Emulated: hw.Emulated,
	}
}

// carries returns 1 if a free VF still has settings, otherwise 0: VFs with settings are used last.
func carries(vf *model.VF) int {
	if vf.MAC.IsZero() && vf.VLAN == 0 && vf.MaxTxRate == 0 {
		return 0
	}
	return 1
}

// madeUp returns the prefix of this measurement's MACs: locally administered, unicast, and random.
func madeUp() model.MAC {
	m := model.MAC{0x02, 0x51}
	_, _ = rand.Read(m[2:prefixBytes])
	return m
}

func (r *run) address(n int) model.MAC { return r.journal.address(n) }

// address returns MAC number n of this measurement.
func (j *Journal) address(n int) model.MAC {
	m := j.Filters
	m[4], m[5] = byte(n>>8), byte(n)
	return m
}

// look reads the PF.
func (r *run) look(ctx context.Context) (model.PF, error) {
	pfs, err := r.Kernel.PFs(ctx)
	if err != nil {
		return model.PF{}, err
	}
	i := slices.IndexFunc(pfs, func(pf vf.PFInfo) bool { return pf.Name == r.PF })
	if i < 0 {
		return model.PF{}, fmt.Errorf("PF %s: %w", r.PF, model.ErrGone)
	}
	return pfs[i].PF, nil
}

// step runs one step if the VFs are still unused by others. Only a VF taken by somebody else ends the measurement: other errors are
// reported and the next step is tried.
func (r *run) step(ctx context.Context, what string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, l := range r.vfs {
		if err := r.ours(ctx, l); err != nil {
			return err
		}
	}
	r.Say(what)
	err := do()
	if err != nil && !errors.Is(err, errTaken) && ctx.Err() == nil {
		r.fail(what, err)
		return nil
	}
	return err
}

func (r *run) fail(what string, err error) {
	r.m.Failed = append(r.m.Failed, what+": "+err.Error())
}

// ours checks that a VF is as the measurement left it and that nobody else uses it.
func (r *run) ours(ctx context.Context, l *lent) error {
	held, err := r.Domains(ctx)
	if err != nil {
		return fmt.Errorf("list the VFs of domains: %w", err)
	}
	now, use, err := find(ctx, r.Kernel, l.was.ID)
	if err != nil {
		return err
	}
	why := taken(ctx, r.Kernel, now, use, held)
	switch {
	case why != "":
	case now.Address != l.was.Address:
		why = "it is another device now"
	case now.Driver != l.driver:
		why = fmt.Sprintf("its driver is %q, and it was left with %q", now.Driver, l.driver)
	case now.MAC != l.mac:
		why = fmt.Sprintf("its MAC is %s, and it was left with %s", now.MAC, l.mac)
	case l.name != "" && !r.space.Has(l.name):
		why = "its interface was moved away"
	default:
		why = movedAway(&l.was.VF, use, r.space)
	}
	if why != "" {
		return fmt.Errorf("VF %s: %w: %s", l.was.ID, errTaken, why)
	}
	return nil
}

// measure runs all parts, ordered so that none depends on a later one.
func (r *run) measure(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		r.prepare, r.filters, r.times, r.connect, r.lendAll, r.minRate, r.passes, r.counters, r.spoof, r.maxRate, r.packets,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
