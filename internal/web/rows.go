package web

import (
	"slices"
	"strconv"

	"sluice/internal/model"
)

// VMs lists the VMs by name.
func VMs(v *model.View) []VM {
	x := newIndex(v)
	rows := make([]VM, 0, len(x.Snapshot.VMs))
	for i := range x.Snapshot.VMs {
		rows = append(rows, x.vm(&x.Snapshot.VMs[i]))
	}
	slices.SortStableFunc(rows, func(a, b VM) int { return Natural(a.Name, b.Name) })
	return rows
}

func (x *index) vm(vm *model.VM) VM {
	r := x.reason(vm.ID)
	row := VM{
		Name: vm.Name, ID: vm.ID, State: vm.State, Class: x.class(vm), CPU: vm.CPU,
		Hold: r.Hold, Code: r.Code, Score: r.Score, SetByHand: x.byHand(vm),
	}
	if r.Code != "" {
		row.Why = r.String()
	}
	if m := x.active[vm.ID]; m != nil {
		row.UnderWay = m.Move.Kind
	}
	if nic := x.pair(vm); nic != nil {
		row.Network, row.Tap, row.MAC, row.VF = nic.Network, nic.Tap, nic.MAC.String(), vfName(nic.VF)
		row.PPS, row.Bytes, row.Known = nic.Load()
		row.Sources, row.Proof = sources(nic)
	}
	return row
}

// sources says where a load comes from and how well the weakest part of it is proved.
func sources(nic *model.NIC) ([]model.Source, model.Proof) {
	var list []model.Source
	weakest := model.ProofNone
	for _, t := range []*model.Traffic{&nic.Virtio, &nic.VFPath} {
		if !t.Known {
			continue
		}
		if t.Proof != model.ProofNone && (weakest == model.ProofNone || t.Proof.Weaker(weakest)) {
			weakest = t.Proof
		}
		if t.Source != model.SourceNone && !slices.Contains(list, t.Source) {
			list = append(list, t.Source)
		}
	}
	return list, weakest
}

// vfName is "pf0/3", or "" for none.
func vfName(id model.VFID) string {
	if id == model.NoVF {
		return ""
	}
	return id.String()
}

// VFs lists the VFs of all PFs.
func VFs(v *model.View) []VF {
	x := newIndex(v)
	rows := []VF{}
	for i := range x.Snapshot.PFs {
		pf := &x.Snapshot.PFs[i]
		for j := range pf.VFs {
			rows = append(rows, x.vf(pf, &pf.VFs[j]))
		}
	}
	return rows
}

func (x *index) vf(pf *model.PF, vf *model.VF) VF {
	row := VF{
		Name: vf.ID.String(), PF: vf.ID.PF, Index: vf.ID.Index, Address: vf.Address, Driver: vf.Driver,
		Network: pf.Network, Owner: vf.Owner, OwnerWhy: vf.OwnerWhy, HolderID: vf.Holder,
		VLAN: vf.VLAN, Rate: vf.MaxTxRate, InGuest: vf.InGuest,
	}
	if vf.Holder != "" {
		row.Holder = x.nameOf(vf.Holder)
	}
	if !vf.MAC.IsZero() {
		row.MAC = vf.MAC.String()
	}
	return row
}

// Planned shows moves under way and moves to come.
func Planned(v *model.View) Plan {
	x := newIndex(v)
	p := Plan{Mode: x.Mode, Policy: x.Rules.Policy, Observed: x.Snapshot.Time, Active: []MoveReport{}, Pending: []MoveReport{}}
	for i := range x.Active {
		p.Active = append(p.Active, report(&x.Active[i]))
	}
	for i := range x.Pending {
		p.Pending = append(p.Pending, report(&model.MoveStatus{Move: x.Pending[i]}))
	}
	return p
}

func report(s *model.MoveStatus) MoveReport {
	m := &s.Move
	r := MoveReport{
		Kind: m.Kind, VM: m.VMName, ID: m.VM, VF: vfName(m.VF), Step: s.Step, Try: s.Try,
		Undoing: s.Undoing, Started: s.Started, Ended: s.Ended, Error: s.Error,
	}
	if m.Reason.Code != "" {
		r.Why = m.Reason.String()
	}
	for _, step := range m.Steps {
		r.Steps = append(r.Steps, step.String())
	}
	return r
}

// Checked shows what fsck found.
func Checked(v *model.View) Fsck {
	f := Fsck{Findings: []Finding{}}
	for _, one := range newIndex(v).Findings {
		row := Finding{Code: one.Code, Subject: one.Subject, Text: one.Text}
		for _, step := range one.Repair {
			row.Repair = append(row.Repair, step.String())
		}
		f.Findings = append(f.Findings, row)
	}
	return f
}

// Natural orders names as people do: web-2 before web-10.
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

// digits counts the digits a name begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// compareNumbers compares by value, and "07" with "7" by length.
func compareNumbers(a, b string) int {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	switch {
	case errX != nil || errY != nil || x == y:
		return len(a) - len(b)
	case x < y:
		return -1
	}
	return 1
}
