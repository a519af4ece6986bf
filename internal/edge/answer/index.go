package answer

import (
	"strconv"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Index looks up parts of one View by VM.
type Index struct {
	*model.View
	reasons map[model.VMID]*model.Reason
	active  map[model.VMID]*model.MoveStatus
	nets    map[string]bool // networks of the managed PFs
}

// NewIndex accepts nil, and a View from before the first observation or decision.
func NewIndex(v *model.View) *Index {
	x := &Index{View: v, reasons: map[model.VMID]*model.Reason{}, active: map[model.VMID]*model.MoveStatus{}}
	if v == nil {
		x.View = &model.View{}
	}
	if x.Snapshot == nil {
		c := *x.View
		c.Snapshot = &model.Snapshot{}
		x.View = &c
	}
	if x.Target != nil {
		for i := range x.Target.Reasons {
			x.reasons[x.Target.Reasons[i].VM] = &x.Target.Reasons[i]
		}
	}
	for i := range x.Active {
		x.active[x.Active[i].Move.VM] = &x.Active[i]
	}
	x.nets = Networks(x.Snapshot)
	return x
}

// Networks returns the networks of the managed PFs.
func Networks(s *model.Snapshot) map[string]bool {
	nets := map[string]bool{}
	for i := range s.PFs {
		if pf := &s.PFs[i]; pf.Managed {
			nets[pf.Network] = true
		}
	}
	return nets
}

// MayHaveVF reports whether a NIC has a VF, or may have one: it is on one of these networks and not a function of a virtual PF.
func MayHaveVF(n *model.NIC, nets map[string]bool) bool {
	return n.VF != model.NoVF || n.VirtualPF == "" && nets[n.Network]
}

// Pair returns the NIC that has a VF, else the first that may have one on these networks, else nil.
func Pair(vm *model.VM, nets map[string]bool) *model.NIC {
	if nic := vm.Held(); nic != nil {
		return nic
	}
	for i := range vm.NICs {
		if MayHaveVF(&vm.NICs[i], nets) {
			return &vm.NICs[i]
		}
	}
	return nil
}

// Observed reports whether the host has been observed.
func Observed(v *model.View) bool { return v != nil && v.Snapshot != nil && !v.Snapshot.Time.IsZero() }

// Reason returns why a VM holds a VF or not; zero before the first decision.
func (x *Index) Reason(id model.VMID) model.Reason {
	if r := x.reasons[id]; r != nil {
		return *r
	}
	return model.Reason{VM: id}
}

// pair returns the relevant NIC: the one that the VM's reason is about, else that of Pair, else the first.
func (x *Index) pair(vm *model.VM) *model.NIC {
	if r := x.reasons[vm.ID]; r != nil && r.NIC != "" {
		if nic := vm.FindNIC(r.NIC); nic != nil {
			return nic
		}
	}
	if nic := Pair(vm, x.nets); nic != nil {
		return nic
	}
	if len(vm.NICs) > 0 {
		return &vm.NICs[0]
	}
	return nil
}

// class returns the class of the first matching rule that sets one.
func (x *Index) class(vm *model.VM) string {
	for _, r := range x.Rules.VMs {
		if r.Class != "" && model.Matches(r.Match, vm.ID, vm.Name) {
			return r.Class
		}
	}
	return ""
}

// override returns what a user requested for the VM at run time, a pin or a release, or nil.
func (x *Index) override(vm *model.VM) *model.Override {
	for i := range x.Overrides {
		if o := &x.Overrides[i]; o.Places() && model.Matches(o.Rule().Match, vm.ID, vm.Name) {
			return o
		}
	}
	return nil
}

// nameOf returns a VM's name if known, else its UUID.
func (x *Index) nameOf(id model.VMID) string {
	if vm := x.Snapshot.FindVM(id); vm != nil {
		return vm.Name
	}
	return string(id)
}

// Find returns the VM with that name or UUID, or an *api.Error that suggests similar names.
func Find(v *model.View, ref string) (*model.VM, error) {
	x := NewIndex(v)
	for i := range x.Snapshot.VMs {
		if vm := &x.Snapshot.VMs[i]; vm.Names(ref) {
			return vm, nil
		}
	}
	return nil, &api.Error{
		Text:   "no VM " + strconv.Quote(model.Shorten(ref)) + " on this host",
		Remedy: x.similar(ref) + "`sluice vms` lists them",
	}
}

// similar suggests existing names similar to an unknown one.
func (x *Index) similar(ref string) string {
	var names []string
	for i := range x.Snapshot.VMs {
		names = append(names, x.Snapshot.VMs[i].Name)
	}
	const most = 3
	if names = model.Near(ref, names, most); len(names) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(names, " or ") + "? "
}
