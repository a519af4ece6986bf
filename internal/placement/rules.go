package placement

import (
	"cmp"
	"maps"
	"path"

	"sluice/internal/model"
)

// vmRule is what all matching rules say of one VM, with defaults filled in.
type vmRule struct {
	Pin, Forbid, ByHand bool
	Weight              float64
	Priority            int
	Failover            model.Failover
}

// rulesFor resolves the rules of every VM; the result is kept while the VMs are the same.
func (d *Decider) rulesFor(snap *model.Snapshot) []vmRule {
	if d.ruledAlready(snap) {
		return d.ruledBy
	}
	d.ruled, d.ruledBy = make([]model.VMID, len(snap.VMs)), make([]vmRule, len(snap.VMs))
	for i := range snap.VMs {
		d.ruled[i], d.ruledBy[i] = snap.VMs[i].ID, resolve(&d.rules, &snap.VMs[i])
	}
	return d.ruledBy
}

func (d *Decider) ruledAlready(snap *model.Snapshot) bool {
	if len(d.ruled) != len(snap.VMs) {
		return false
	}
	for i := range snap.VMs {
		if d.ruled[i] != snap.VMs[i].ID {
			return false
		}
	}
	return true
}

// resolve merges the rules that match: field by field the first one that sets it
// counts, and then what the VM's class says. Pin and Forbid are one field: what is said by hand comes before the config.
func resolve(rules *model.Rules, vm *model.VM) vmRule {
	out := vmRule{}
	placed := false
	class := ""
	for _, r := range rules.VMs {
		if !Matches(r.Match, vm) {
			continue
		}
		if !placed && (r.Pin || r.Forbid) {
			out.Pin, out.Forbid, out.ByHand, placed = r.Pin, r.Forbid, r.ByHand, true
		}
		if out.Weight == 0 {
			out.Weight = r.Weight
		}
		if out.Priority == 0 {
			out.Priority = r.Priority
		}
		if out.Failover == "" {
			out.Failover = r.Failover
		}
		if class == "" {
			class = r.Class
		}
	}
	for _, c := range rules.Classes {
		if c.Name == class && class != "" {
			out.Weight, out.Priority = cmp.Or(out.Weight, c.Weight), cmp.Or(out.Priority, c.Priority)
		}
	}
	if !(out.Weight > 0) {
		out.Weight = 1
	}
	return out
}

// Matches says whether a rule's pattern names the VM: its UUID, or a shell pattern on
// its name. A malformed pattern matches nothing; the config refuses those.
func Matches(pattern string, vm *model.VM) bool {
	if pattern == string(vm.ID) || pattern == vm.Name {
		return true
	}
	ok, err := path.Match(pattern, vm.Name)
	return err == nil && ok
}

func samePolicy(a, b model.Rules) bool {
	return a.Policy == b.Policy && a.Interval == b.Interval && maps.Equal(a.Params, b.Params)
}
