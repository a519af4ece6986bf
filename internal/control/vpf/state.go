package vpf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"sluice/internal/model"
)

// State is the desired state: the definitions with their policies, and the grants to guests. It is kept in a file. A State is never
// changed after it was handed out.
type State struct {
	Virtual []model.VirtualPF    `json:"virtual_pfs"` // by VM, then name
	Guests  map[model.VMID]Guest `json:"guests,omitempty"`

	Rev uint64 `json:"-"` // set by the Store: each change increases it
}

// Guest identifies the run of a VM, and of its guest's kernel, that holds the grants.
type Guest struct {
	Run  string `json:"run,omitempty"`  // of QEMU, as VM.Run
	Boot string `json:"boot,omitempty"` // the guest kernel's boot_id, as reported by the guest
}

// Find returns the virtual PF of that VM and name, or nil.
func (s *State) Find(vm model.VMID, name string) *model.VirtualPF {
	i, ok := slices.BinarySearchFunc(s.Virtual, model.VirtualPF{VM: vm, Name: name}, Compare)
	if !ok {
		return nil
	}
	return &s.Virtual[i]
}

// Of returns the virtual PFs of a VM.
func (s *State) Of(vm model.VMID) []model.VirtualPF {
	lo, _ := slices.BinarySearchFunc(s.Virtual, model.VirtualPF{VM: vm}, Compare)
	hi := lo
	for hi < len(s.Virtual) && s.Virtual[hi].VM == vm {
		hi++
	}
	return s.Virtual[lo:hi]
}

// Grants counts the VFs granted to a VM's guest.
func (s *State) Grants(vm model.VMID) (n int) {
	for _, p := range s.Of(vm) {
		for i := range p.VFs {
			if p.VFs[i].Grant != nil {
				n++
			}
		}
	}
	return n
}

// Compare orders virtual PFs by VM, then name.
func Compare(a, b model.VirtualPF) int {
	return cmp.Or(cmp.Compare(a.VM, b.VM), cmp.Compare(a.Name, b.Name))
}

// Put adds a virtual PF, or replaces it.
func (s *State) Put(p model.VirtualPF) {
	i, ok := slices.BinarySearchFunc(s.Virtual, p, Compare)
	if ok {
		s.Virtual[i] = p
		return
	}
	s.Virtual = slices.Insert(s.Virtual, i, p)
}

// Drop removes a virtual PF and, with the last one of a VM, what is known of its guest.
func (s *State) Drop(vm model.VMID, name string) {
	s.Virtual = slices.DeleteFunc(s.Virtual, func(p model.VirtualPF) bool { return p.VM == vm && p.Name == name })
	if len(s.Of(vm)) == 0 {
		delete(s.Guests, vm)
	}
}

// Forget revokes all grants of a VM's guest.
func (s *State) Forget(vm model.VMID) {
	delete(s.Guests, vm)
	of := s.Of(vm)
	for k := range of {
		for i := range of[k].VFs {
			of[k].VFs[i].Grant = nil
		}
	}
}

// VF returns the VF to be changed.
func (s *State) VF(f Function) (*model.VirtualVF, error) {
	p := s.Find(f.VM, f.Name)
	switch {
	case p == nil:
		return nil, fmt.Errorf("there is no %s: `sluice vpf list` shows all", Function{f.VM, f.Name, -1})
	case f.VF < 0 || f.VF >= len(p.VFs):
		return nil, fmt.Errorf("virtual PF %s has VFs 0 to %d, but no VF %d", p.Name, len(p.VFs)-1, f.VF)
	}
	return &p.VFs[f.VF], nil
}

// FreeName returns the first of vpf0, vpf1, ... that the VM does not use.
func (s *State) FreeName(p *model.VirtualPF) string {
	for i := 0; ; i++ {
		name := fmt.Sprint("vpf", i)
		if !slices.ContainsFunc(s.Virtual, func(o model.VirtualPF) bool { return (o.VM == p.VM || o.VMName == p.VMName) && o.Name == name }) {
			return name
		}
	}
}

// Clone returns a copy that may be changed. Policies are always replaced as a whole, so the copies share their lists.
func (s *State) Clone() *State {
	out := &State{Virtual: slices.Clone(s.Virtual), Guests: maps.Clone(s.Guests), Rev: s.Rev}
	if out.Guests == nil {
		out.Guests = map[model.VMID]Guest{}
	}
	for k := range out.Virtual {
		out.Virtual[k].VFs = slices.Clone(out.Virtual[k].VFs)
		for i := range out.Virtual[k].VFs {
			if g := out.Virtual[k].VFs[i].Grant; g != nil {
				copied := *g
				out.Virtual[k].VFs[i].Grant = &copied
			}
		}
	}
	return out
}

// Check rejects a State that Sluice cannot have written.
func (s *State) Check() error {
	for k := range s.Virtual {
		p := &s.Virtual[k]
		if k > 0 && Compare(s.Virtual[k-1], *p) >= 0 {
			return fmt.Errorf("virtual PF %s of VM %s is listed twice, or out of order", p.Name, p.VM)
		}
		if err := CheckDefinition(p); err != nil {
			return err
		}
		for i := range p.VFs {
			if g := p.VFs[i].Grant; g != nil {
				err := CheckPort(&g.Port)
				if err == nil {
					err = CheckGrant(p, g)
				}
				if err != nil {
					return fmt.Errorf("grant of VF %d of virtual PF %s of VM %s: %w", i, p.Name, p.VM, err)
				}
			}
		}
	}
	_, err := AllMACs(s, nil)
	return err
}

// AllMACs maps each MAC that any function may send from to that function. It leaves out the MACs of except.
func AllMACs(s *State, except *Function) (map[model.MAC]Function, error) {
	all := map[model.MAC]Function{}
	for k := range s.Virtual {
		p := &s.Virtual[k]
		for i := -1; i < len(p.VFs); i++ {
			f := Function{p.VM, p.Name, i}
			if except != nil && f == *except {
				continue
			}
			for _, m := range functionMACs(p, i) {
				if o, ok := all[m]; ok && o != f {
					return nil, fmt.Errorf("%s has MAC %s, which %s has too", f, m, o)
				}
				all[m] = f
			}
		}
	}
	return all, nil
}

// functionMACs returns the MACs that a function (VF -1: the PF) may send from, sorted and without duplicates.
func functionMACs(p *model.VirtualPF, vf int) []model.MAC {
	if vf < 0 {
		return []model.MAC{p.MAC}
	}
	v := &p.VFs[vf]
	list := append([]model.MAC{v.MAC}, v.Effective().MACs...)
	if v.Grant != nil && !v.Grant.MAC.IsZero() {
		list = append(list, v.Grant.MAC)
	}
	slices.SortFunc(list, compareMACs)
	return slices.Compact(list)
}

func compareMACs(a, b model.MAC) int { return slices.Compare(a[:], b[:]) }

// Function identifies a function of a virtual PF.
type Function struct {
	VM   model.VMID
	Name string
	VF   int // -1: the PF itself
}

func (f Function) String() string {
	if f.VF < 0 {
		return fmt.Sprintf("virtual PF %s of VM %s", f.Name, f.VM)
	}
	return fmt.Sprintf("VF %d of virtual PF %s of VM %s", f.VF, f.Name, f.VM)
}
