package answer

import (
	"cmp"
	"slices"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// VMs lists the VMs, sorted by name.
func VMs(v *model.View) []api.VM {
	x := NewIndex(v)
	rows := convert(x.Snapshot.VMs, x.VM)
	slices.SortStableFunc(rows, func(a, b api.VM) int { return Natural(a.Name, b.Name) })
	return rows
}

// VM returns a row of GET /v1/vms.
func (x *Index) VM(vm *model.VM) api.VM {
	r := x.Reason(vm.ID)
	row := api.VM{
		Name: vm.Name, ID: string(vm.ID), State: string(vm.State), Class: x.class(vm), CPU: vm.CPU,
		Hold: r.Hold, Code: string(r.Code), Score: r.Score, Worth: r.Worth,
	}
	if o := x.override(vm); o != nil {
		row.Override = string(o.Kind)
	}
	if m := x.active[vm.ID]; m != nil {
		row.UnderWay = string(m.Move.Kind)
	}
	nic := x.pair(vm)
	if r.Code != "" {
		row.Why, row.Short = x.verdict(nic, &r), r.Short()
	}
	if nic != nil {
		row.Network, row.Tap, row.MAC, row.VF = nic.Network, nic.Tap, nic.MAC.String(), vfName(nic.VF)
		row.PPS, row.Bytes, row.Known = nic.Load()
		row.Sources, row.Proof = sources(nic)
	}
	return row
}

// sources returns the sources of a load and the proof of its weakest part.
func sources(nic *model.NIC) ([]string, string) {
	var list []string
	weakest := model.ProofNone
	for _, t := range []*model.Traffic{&nic.Virtio, &nic.VFPath} {
		if !t.Known {
			continue
		}
		if t.Proof != model.ProofNone && (weakest == model.ProofNone || t.Proof.Weaker(weakest)) {
			weakest = t.Proof
		}
		if t.Source != model.SourceNone && !slices.Contains(list, string(t.Source)) {
			list = append(list, string(t.Source))
		}
	}
	return list, string(weakest)
}

// vfName returns a name such as "pf0/3", or "" for no VF.
func vfName(id model.VFID) string {
	if id == model.NoVF {
		return ""
	}
	return id.String()
}

// VFs lists the VFs of all PFs.
func VFs(v *model.View) []api.VF {
	x := NewIndex(v)
	rows := []api.VF{}
	for i := range x.Snapshot.PFs {
		pf := &x.Snapshot.PFs[i]
		for j := range pf.VFs {
			rows = append(rows, x.vf(pf, &pf.VFs[j]))
		}
	}
	return rows
}

func (x *Index) vf(pf *model.PF, vf *model.VF) api.VF {
	row := api.VF{
		Name: vf.ID.String(), PF: vf.ID.PF, Index: vf.ID.Index, Address: string(vf.Address), Driver: vf.Driver,
		Network: pf.Network, Owner: string(vf.Owner), OwnerWhy: vf.OwnerWhy, HolderID: string(vf.Holder),
		VLAN: vf.VLAN, Rate: vf.MaxTxRate, InGuest: vf.InGuest.String(),
	}
	if vf.Holder != "" {
		row.Holder = x.nameOf(vf.Holder)
	}
	if !vf.MAC.IsZero() {
		row.MAC = vf.MAC.String()
	}
	return row
}

// Planned returns the moves under way and pending.
func Planned(v *model.View) api.Plan {
	x := NewIndex(v)
	return api.Plan{
		Mode: string(x.Mode), Policy: x.Rules.Policy, Observed: x.Snapshot.Time, Active: convert(x.Active, report),
		Pending: convert(x.Pending, func(m *model.Move) api.MoveReport {
			r := report(&model.MoveStatus{Move: *m})
			r.Why = moveText(m, x.Mode == model.ModeObserve)
			return r
		}),
	}
}

// Checked returns what fsck found.
func Checked(v *model.View) api.Fsck {
	x := NewIndex(v)
	return api.Fsck{Observed: x.Snapshot.Time, Findings: convert(x.Findings, func(f *model.Finding) api.Finding {
		row := api.Finding{Code: f.Code, Subject: f.Subject, Text: f.Text, Remedy: f.Remedy, Repair: stepNames(f.Repair)}
		row.Repairing, row.LastError = x.repairs(f)
		return row
	})}
}

// repairs reports whether a repair of the finding is pending or under way, and why the last one failed.
func (x *Index) repairs(f *model.Finding) (now bool, lastError string) {
	is := func(m *model.Move) bool { return m.Kind == model.MoveRepair && m.Reason.Detail == f.Name() }
	now = slices.ContainsFunc(x.Active, func(m model.MoveStatus) bool { return is(&m.Move) }) ||
		x.Mode == model.ModeEnforce && slices.ContainsFunc(x.Pending, func(m model.Move) bool { return is(&m) })
	if i := slices.IndexFunc(x.Recent, func(m model.MoveStatus) bool { return is(&m.Move) }); i >= 0 {
		lastError = x.Recent[i].Error
	}
	return now, lastError
}

// Natural compares names with numbers by value: web-2 comes before web-10.
func Natural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			if c := compareNumbers(a[:da], b[:db]); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits counts the leading digits of a name.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// compareNumbers compares by value, and equal values such as "07" and "7" by length.
func compareNumbers(a, b string) int {
	x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(len(x)-len(y), strings.Compare(x, y), len(a)-len(b))
}
