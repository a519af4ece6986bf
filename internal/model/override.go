package model

import (
	"cmp"
	"time"
)

// OverrideKind is what an Override asks for.
type OverrideKind string

// Values of OverrideKind.
const (
	OverridePin     OverrideKind = "pin"     // the VM always has a VF
	OverrideRelease OverrideKind = "release" // the VM never has one
	OverrideDrain   OverrideKind = "drain"   // no VF for any VM
	OverrideSLA     OverrideKind = "sla"     // an SLA for NICs of the VM
)

// Override is what a user requested at run time. It takes precedence over the config, and holds until it is revoked or Until has
// passed.
type Override struct {
	Kind   OverrideKind `json:"kind"`
	VM     VMID         `json:"uuid,omitempty"`   // "" for drain
	VMName string       `json:"domain,omitempty"` // at the time of the request
	By     string       `json:"by"`               // name of the user
	UID    int          `json:"uid"`              // -1: unknown
	At     time.Time    `json:"at"`
	Reason string       `json:"reason,omitempty"`
	Until  time.Time    `json:"until,omitzero"` // zero: no end
	NIC    string       `json:"nic,omitempty"`  // for an SLA: shell pattern on alias, MAC or network; "": each NIC
	SLA    SLA          `json:"sla,omitzero"`
}

// Places reports whether it decides whether a VM has a VF.
func (o *Override) Places() bool { return o.Kind == OverridePin || o.Kind == OverrideRelease }

// Ended reports whether its end has come.
func (o *Override) Ended(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// Rule returns a VM's override as a rule, which must precede those of the config.
func (o *Override) Rule() VMRule {
	match := cmp.Or(string(o.VM), o.VMName)
	if o.Kind == OverrideSLA {
		r := VMRule{Match: match, SLA: o.SLA, SLANIC: o.NIC, ByHand: true}
		r.SLA.Source = "sluice sla set by " + o.By
		return r
	}
	return VMRule{Match: match, Pin: o.Kind == OverridePin, Forbid: o.Kind == OverrideRelease, ByHand: true, By: o.By}
}
