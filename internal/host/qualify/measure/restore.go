package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Restore restores what a killed measurement has left. It returns what it could not restore; in that case the VFs stay set aside. It is not
// an error if there is nothing to restore.
func Restore(ctx context.Context, k Kernel, domains Domains, path string) (failed []string, err error) {
	held, err := lock(path)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	return restore(ctx, k, domains, path, nil)
}

// restore also takes back what is in the Space, if there is one.
func restore(ctx context.Context, k Kernel, domains Domains, path string, space Space) (failed []string, err error) {
	j, err := ReadJournal(path)
	if j == nil || err != nil {
		return nil, err
	}
	r := restorer{k: k, j: j, space: space}
	if r.held, err = domains(ctx); err != nil {
		return nil, fmt.Errorf("list the VFs of domains: %w", err)
	}
	failed = r.filters(ctx)
	for i := range j.VFs {
		if err := r.vf(ctx, &j.VFs[i]); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if len(failed) > 0 {
		return failed, nil
	}
	return nil, os.Remove(path)
}

type restorer struct {
	k     Kernel
	j     *Journal
	space Space // nil: none
	held  map[model.PCIAddress]string
}

// filters removes the filters of this measurement from the PF.
func (r *restorer) filters(ctx context.Context) (failed []string) {
	macs, err := r.k.Selfs(ctx, r.j.PF)
	if err != nil && !errors.Is(err, model.ErrGone) {
		return []string{err.Error()}
	}
	for _, mac := range macs {
		if !r.j.made(mac) {
			continue
		}
		if err := r.k.DelSelf(ctx, r.j.PF, mac); err != nil {
			failed = append(failed, err.Error())
		}
	}
	return failed
}

// vf restores the previous state of a VF, unless somebody else now uses it.
func (r *restorer) vf(ctx context.Context, was *Found) error {
	if err := r.representor(ctx, was); err != nil {
		return err
	}
	now, use, err := find(ctx, r.k, was.ID)
	switch {
	case errors.Is(err, model.ErrGone):
		return nil // gone with its PF, and all settings with it
	case err != nil:
		return err
	case now.Address != was.Address:
		return nil // another device
	}
	why := taken(ctx, r.k, now, use, r.held)
	if why == "" {
		why = movedAway(&was.VF, use, r.space)
	}
	if why != "" {
		return errors.Join(
			r.leave(ctx, was),
			fmt.Errorf("VF %s is left unchanged: %s; run `sluice qualify --restore` when that has ended", was.ID, why),
		)
	}
	// A VF bound to a host driver is always unbound first: its interface may be in a namespace that nobody holds any more, and a driver
	// requests MACs of its own.
	if now.Driver != "" && !vf.PassesThrough(now.Driver) || was.Driver == "" {
		if err := r.k.Unbind(ctx, was.Address); err != nil {
			return err
		}
	}
	if err := r.settings(ctx, &was.VF); err != nil {
		return err
	}
	if err := r.driver(ctx, was); err != nil {
		return err
	}
	if err := r.leave(ctx, was); err != nil {
		return err
	}
	return r.verify(ctx, &was.VF)
}

// driver binds the VF to its previous driver.
func (r *restorer) driver(ctx context.Context, was *Found) error {
	var err error
	switch {
	case was.Driver == "":
	case vf.PassesThrough(was.Driver):
		err = r.k.BindVFIO(ctx, was.Address)
	default:
		err = r.k.BindHost(ctx, was.Address, was.Driver)
	}
	if err != nil {
		return err
	}
	is, err := r.k.DriverOverride(was.Address)
	if err != nil || is == was.Override {
		return err
	}
	return r.k.SetDriverOverride(ctx, was.Address, was.Override)
}

func (r *restorer) settings(ctx context.Context, was *model.VF) error {
	pf, i := was.ID.PF, was.ID.Index
	var err error
	if was.MAC.IsZero() {
		_, err = r.k.ClearVF(ctx, pf, i)
	} else {
		err = r.k.SetVFMAC(ctx, pf, i, was.MAC)
	}
	if err != nil {
		return err
	}
	s := vf.Settings{VLAN: was.VLAN, SpoofCheck: was.SpoofCheck != model.No, Trust: was.Trust == model.Yes, MaxTxRate: was.MaxTxRate}
	if _, err := r.k.SetVF(ctx, pf, i, s); err != nil {
		return err
	}
	if was.MinTxRate > 0 {
		_, err = r.k.TryVFRates(ctx, pf, i, vf.Rates{Max: was.MaxTxRate, Min: was.MinTxRate})
	}
	return err
}

// verify compares the VF with its previous state.
func (r *restorer) verify(ctx context.Context, was *model.VF) error {
	now, _, err := find(ctx, r.k, was.ID)
	if err != nil {
		return err
	}
	var unlike []string
	for _, x := range []struct {
		what    string
		is, was any
	}{
		{"driver", now.Driver, was.Driver},
		{"MAC", now.MAC, was.MAC},
		{"VLAN", now.VLAN, was.VLAN},
		{"max_tx_rate", now.MaxTxRate, was.MaxTxRate},
		{"min_tx_rate", now.MinTxRate, was.MinTxRate},
		{"spoofchk", now.SpoofCheck, was.SpoofCheck},
		{"trust", now.Trust, was.Trust},
	} {
		if x.is != x.was {
			unlike = append(unlike, fmt.Sprintf("%s is %v and was %v", x.what, x.is, x.was))
		}
	}
	if len(unlike) > 0 {
		return fmt.Errorf("VF %s is not as it was: %s", was.ID, strings.Join(unlike, ", "))
	}
	return nil
}

// find returns a VF and its use. If it does not exist, the error wraps model.ErrGone.
func find(ctx context.Context, k Kernel, id model.VFID) (*model.VF, vf.Use, error) {
	pfs, err := k.PFs(ctx)
	if err != nil {
		return nil, vf.Use{}, fmt.Errorf("read VF %s: %w", id, err)
	}
	for i := range pfs {
		for j := range pfs[i].VFs {
			if pfs[i].VFs[j].ID == id {
				return &pfs[i].VFs[j], pfs[i].Uses[j], nil
			}
		}
	}
	return nil, vf.Use{}, fmt.Errorf("VF %s: %w", id, model.ErrGone)
}

// taken returns who uses a VF, "" for nobody. A VF whose state cannot be read counts as used.
func taken(ctx context.Context, k Kernel, now *model.VF, use vf.Use, held map[model.PCIAddress]string) string {
	if vm, is := held[now.Address]; is {
		return "VM " + vm + " has it"
	}
	if use.HostNetdevUp {
		return "its interface " + use.HostNetdev + " is up"
	}
	if !vf.PassesThrough(now.Driver) {
		return ""
	}
	switch open, err := k.DriverOpen(ctx, now.Address); {
	case err != nil:
		return err.Error()
	case open != model.No:
		return "a process has it open"
	}
	return ""
}

// movedAway returns a reason if somebody moved the VF's interface to another network namespace, as containers do, otherwise "". space is
// the measurement's own, or nil. The check is impossible for a VF that had no host driver before, because not every driver creates an
// interface.
func movedAway(was *model.VF, use vf.Use, space Space) string {
	found := was.Driver != "" && !vf.PassesThrough(was.Driver)
	if !found || !use.OtherNetns || space != nil && space.Has(inSpace(was.ID)) {
		return ""
	}
	return "its interface is in another network namespace"
}

// inSpace returns the name of a VF's interface in the Space.
func inSpace(id model.VFID) string { return fmt.Sprintf("sluicevf%d", id.Index) }
