package model

import (
	"cmp"
	"path"
	"regexp"
	"strings"
)

// uuid is the form in which libvirt prints UUIDs, in either case.
var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// IsUUID reports whether text has the form of a VM's UUID. Such text never refers to a VM by name: names are free, and a VM must
// not get the rules of another by taking its UUID as its name.
func IsUUID(text string) bool { return len(text) == 36 && uuid.MatchString(text) }

// Matches reports whether a rule's pattern matches the VM. A pattern in the form of a UUID matches the VM with that UUID;
// anything else is a shell pattern on names. A malformed pattern matches nothing; the config refuses those.
func Matches(pattern string, id VMID, name string) bool {
	if pattern == string(id) || IsUUID(pattern) {
		return strings.EqualFold(pattern, string(id))
	}
	if pattern == name {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// Names reports whether ref, as written by a user, refers to the VM: its UUID, or its whole name.
func (v *VM) Names(ref string) bool {
	if ref == string(v.ID) || IsUUID(ref) {
		return strings.EqualFold(ref, string(v.ID))
	}
	return v.Name == ref
}

// Named reports whether a rule's pattern matches the NIC by its alias, MAC or network. "" matches any NIC.
func (n *NIC) Named(pattern string) bool {
	if pattern == "" || pattern == n.Alias || pattern == n.Network {
		return true
	}
	for _, name := range []string{n.Alias, n.Network} {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	ok, err := path.Match(strings.ToLower(pattern), n.MAC.String())
	return ok && err == nil
}

// For merges the rules that match a VM: for each field the first rule that sets it counts, then the VM's class. Pin and Forbid
// count as one field, which includes ByHand and By. The weight is always positive, Match is empty.
func (r *Rules) For(id VMID, name string) VMRule {
	var out VMRule
	for i := range r.VMs {
		if v := &r.VMs[i]; Matches(v.Match, id, name) {
			out.fill(v)
		}
	}
	if c := r.FindClass(out.Class); c != nil {
		out.Weight, out.Priority = cmp.Or(out.Weight, c.Weight), cmp.Or(out.Priority, c.Priority)
		out.Sensitivity = cmp.Or(out.Sensitivity, c.Sensitivity)
	}
	if !(out.Weight > 0) {
		out.Weight = 1
	}
	return out
}

// fill takes over from a later rule the fields that no earlier one has set.
func (r *VMRule) fill(later *VMRule) {
	if !r.Pin && !r.Forbid {
		r.Pin, r.Forbid, r.ByHand = later.Pin, later.Forbid, later.ByHand && (later.Pin || later.Forbid)
		if r.ByHand {
			r.By = later.By
		}
	}
	r.Weight = cmp.Or(r.Weight, later.Weight)
	r.Priority = cmp.Or(r.Priority, later.Priority)
	r.Class = cmp.Or(r.Class, later.Class)
	r.NIC = cmp.Or(r.NIC, later.NIC)
	r.Failover = cmp.Or(r.Failover, later.Failover)
	r.Sensitivity = cmp.Or(r.Sensitivity, later.Sensitivity)
}
