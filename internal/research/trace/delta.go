package trace

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// changes returns what changed since an old Snapshot; all of s if old is nil.
func changes(old, s *model.Snapshot) *entry {
	e := &entry{Time: s.Time, Problems: s.Problems}
	if old == nil {
		e.Whole, e.PFs, e.VMs = true, s.PFs, s.VMs
		return e
	}
	for i := range s.PFs {
		if was := old.FindPF(s.PFs[i].Name); was == nil || !reflect.DeepEqual(*was, s.PFs[i]) {
			e.PFs = append(e.PFs, s.PFs[i])
		}
	}
	for i := range old.PFs {
		if s.FindPF(old.PFs[i].Name) == nil {
			e.GonePFs = append(e.GonePFs, old.PFs[i].Name)
		}
	}
	for i := range s.VMs {
		was := old.FindVM(s.VMs[i].ID)
		switch {
		case was == nil || !sameButLoad(was, &s.VMs[i]):
			e.VMs = append(e.VMs, s.VMs[i])
		case !sameLoad(was, &s.VMs[i]):
			e.Loads = append(e.Loads, loadOf(i, &s.VMs[i]))
		}
	}
	for i := range old.VMs {
		if s.FindVM(old.VMs[i].ID) == nil {
			e.Gone = append(e.Gone, old.VMs[i].ID)
		}
	}
	return e
}

// rates returns the figures of a Traffic that change all the time.
func rates(t *model.Traffic) [4]*float64 {
	return [4]*float64{&t.RxPPS, &t.TxPPS, &t.RxBytes, &t.TxBytes}
}

// still returns a NIC without its rates.
func still(n model.NIC) model.NIC {
	for _, t := range []*model.Traffic{&n.Virtio, &n.VFPath} {
		for _, x := range rates(t) {
			*x = 0
		}
	}
	return n
}

func sameButLoad(a, b *model.VM) bool {
	x, y := *a, *b
	x.CPU, y.CPU, x.NICs, y.NICs = 0, 0, nil, nil
	return reflect.DeepEqual(x, y) &&
		slices.EqualFunc(a.NICs, b.NICs, func(p, q model.NIC) bool { return still(p) == still(q) })
}

func sameLoad(a, b *model.VM) bool { return a.CPU == b.CPU && slices.Equal(a.NICs, b.NICs) }

func loadOf(i int, vm *model.VM) load {
	l := load{I: i, C: vm.CPU, N: make([][8]float64, len(vm.NICs))}
	for j := range vm.NICs {
		for k, t := range []*model.Traffic{&vm.NICs[j].Virtio, &vm.NICs[j].VFPath} {
			for m, x := range rates(t) {
				l.N[j][4*k+m] = *x
			}
		}
	}
	return l
}

// apply makes the next Snapshot from the one before and an entry.
func apply(old *model.Snapshot, e *entry) (*model.Snapshot, error) {
	if e.Whole {
		// Empty lists stay distinct from missing ones, so that they print as they did.
		return &model.Snapshot{Time: e.Time, PFs: append([]model.PF{}, e.PFs...), VMs: append([]model.VM{}, e.VMs...), Problems: e.Problems}, nil
	}
	if old == nil {
		return nil, fmt.Errorf("the first sample is not whole")
	}
	s := sim.Copy(old)
	s.Time, s.Problems = e.Time, e.Problems
	s.PFs = slices.DeleteFunc(s.PFs, func(p model.PF) bool { return slices.Contains(e.GonePFs, p.Name) })
	for _, p := range e.PFs {
		s.PFs = replace(s.PFs, p, func(a, b model.PF) int { return strings.Compare(a.Name, b.Name) })
	}
	s.VMs = slices.DeleteFunc(s.VMs, func(v model.VM) bool { return slices.Contains(e.Gone, v.ID) })
	for _, v := range e.VMs {
		s.VMs = replace(s.VMs, v, func(a, b model.VM) int { return cmp.Compare(a.ID, b.ID) })
	}
	for _, l := range e.Loads {
		if l.I < 0 || l.I >= len(s.VMs) || len(l.N) != len(s.VMs[l.I].NICs) {
			return nil, fmt.Errorf("a load of VM number %d, which is not there", l.I)
		}
		l.put(&s.VMs[l.I])
	}
	return s, nil
}

func (l *load) put(vm *model.VM) {
	vm.CPU = l.C
	for j := range vm.NICs {
		for k, t := range []*model.Traffic{&vm.NICs[j].Virtio, &vm.NICs[j].VFPath} {
			for m, x := range rates(t) {
				*x = l.N[j][4*k+m]
			}
		}
	}
}

// replace puts x into a sorted list in place of its equal, if there is one.
func replace[T any](list []T, x T, order func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(list, x, order)
	if found {
		list[i] = x
		return list
	}
	return slices.Insert(list, i, x)
}
