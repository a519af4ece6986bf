package placement

import (
	"maps"
	"slices"

	"sluice/internal/model"
)

// knownVM is the part of a VM on which its rules and duplicate MACs depend.
type knownVM struct {
	id   model.VMID
	name string
	off  bool
	nics []knownNIC
	slas []model.NICSLA
}

type knownNIC struct {
	alias, network string
	mac            model.MAC
}

// rulesFor resolves the rules of every VM and finds duplicate MACs; both are cached until the VMs or their NICs change.
func (d *Decider) rulesFor(snap *model.Snapshot) []model.VMRule {
	if d.unchanged(snap) {
		return d.ruledBy
	}
	d.known, d.ruledBy = make([]knownVM, len(snap.VMs)), make([]model.VMRule, len(snap.VMs))
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		d.ruledBy[i] = d.rules.For(vm.ID, vm.Name)
		k := knownVM{id: vm.ID, name: vm.Name, off: vm.State == model.VMStopped, slas: vm.SLAs, nics: make([]knownNIC, len(vm.NICs))}
		for j := range vm.NICs {
			k.nics[j] = known(&vm.NICs[j])
		}
		d.known[i] = k
	}
	d.duplicates, d.promises = duplicates(d.known), nil
	if d.rules.KeepSLAs {
		d.promises = promisesOf(&d.rules, snap)
	}
	return d.ruledBy
}

func known(n *model.NIC) knownNIC { return knownNIC{alias: n.Alias, network: n.Network, mac: n.MAC} }

func (d *Decider) unchanged(snap *model.Snapshot) bool {
	if d.known == nil || len(d.known) != len(snap.VMs) {
		return false
	}
	for i := range snap.VMs {
		k, vm := &d.known[i], &snap.VMs[i]
		if k.id != vm.ID || k.name != vm.Name || k.off != (vm.State == model.VMStopped) || len(k.nics) != len(vm.NICs) ||
			!slices.Equal(k.slas, vm.SLAs) {
			return false
		}
		for j := range vm.NICs {
			if k.nics[j] != known(&vm.NICs[j]) {
				return false
			}
		}
	}
	return true
}

// duplicates finds NICs of running VMs that have the same MAC on the same network, and names the NIC that each conflicts with.
// Frames for the MAC go to whichever sent last.
func duplicates(vms []knownVM) map[model.NICID]string {
	type address struct {
		network string
		mac     model.MAC
	}
	type place struct{ vm, nic int }
	first := make(map[address]place, len(vms))
	var out map[model.NICID]string
	note := func(a, b place) {
		if out == nil {
			out = map[model.NICID]string{}
		}
		vm, with := &vms[a.vm], &vms[b.vm]
		out[model.NICID{VM: vm.id, NIC: vm.nics[a.nic].alias}] = "NIC " + with.nics[b.nic].alias + " of " + with.name
	}
	for i := range vms {
		for j, n := range vms[i].nics {
			if vms[i].off || n.network == "" || n.mac.IsZero() {
				continue
			}
			at, here := address{n.network, n.mac}, place{i, j}
			if other, twice := first[at]; twice {
				note(other, here)
				note(here, other)
			} else {
				first[at] = here
			}
		}
	}
	return out
}

func samePolicy(a, b model.Rules) bool {
	return a.Policy == b.Policy && a.Interval == b.Interval && maps.Equal(a.Params, b.Params)
}
