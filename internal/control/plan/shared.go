package plan

import "sluice/internal/model"

// shared finds NICs of VMs that are not stopped which have one MAC on one network. Whatever the host does for one, it does to the
// other: no bridge entry and no filter is right for both.
type shared struct {
	seen []seenNIC
	with map[model.NICID]string // name of another VM that has the NIC's MAC, for messages
}

// seenNIC is the input of the search for one NIC.
type seenNIC struct {
	vm             model.VMID
	alias, network string
	mac            model.MAC
}

// look searches a Snapshot for shared MACs. It reuses the last result unless NICs have changed, which is rare.
func (s *shared) look(snap *model.Snapshot) {
	n, same := 0, true
	each(snap, func(vm *model.VM, nic *model.NIC) {
		is := seenNIC{vm.ID, nic.Alias, nic.Network, nic.MAC}
		if same = same && n < len(s.seen) && s.seen[n] == is; !same {
			s.seen = append(s.seen[:n], is)
		}
		n++
	})
	if same && n == len(s.seen) {
		return
	}
	s.seen, s.with = s.seen[:n], nil
	first := make(map[address]*model.VM, n)
	alias := map[address]string{}
	each(snap, func(vm *model.VM, nic *model.NIC) {
		at := address{nic.Network, nic.MAC}
		other, twice := first[at]
		if !twice {
			first[at], alias[at] = vm, nic.Alias
			return
		}
		if s.with == nil {
			s.with = map[model.NICID]string{}
		}
		s.with[model.NICID{VM: vm.ID, NIC: nic.Alias}] = other.Name
		s.with[model.NICID{VM: other.ID, NIC: alias[at]}] = vm.Name
	})
}

func each(snap *model.Snapshot, f func(vm *model.VM, nic *model.NIC)) {
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		if vm.State == model.VMStopped {
			continue
		}
		for j := range vm.NICs {
			if n := &vm.NICs[j]; n.Network != "" && !n.MAC.IsZero() {
				f(vm, n)
			}
		}
	}
}

// other returns the name of another VM that has the NIC's MAC, "" for none.
func (s *shared) other(vm *model.VM, n *model.NIC) string {
	if len(s.with) == 0 {
		return ""
	}
	return s.with[model.NICID{VM: vm.ID, NIC: n.Alias}]
}
