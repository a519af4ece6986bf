package model

import "time"

// OverrideKind says what an Override asks for.
type OverrideKind string

// The kinds of Override.
const (
	OverridePin     OverrideKind = "pin"     // always a VF for the VM
	OverrideRelease OverrideKind = "release" // never one
	OverrideDrain   OverrideKind = "drain"   // no VF for any VM
	OverrideSLA     OverrideKind = "sla"     // an SLA for NICs of the VM
)

// Override is what a person asked for at run time. It goes before the config, and holds
// until it is taken back or its end.
type Override struct {
	Kind   OverrideKind `json:"kind"`
	VM     VMID         `json:"uuid,omitempty"`   // "" of drain
	VMName string       `json:"domain,omitempty"` // when it was asked for
	By     string       `json:"by"`               // the user's name
	UID    int          `json:"uid"`              // -1: not known
	At     time.Time    `json:"at"`
	Reason string       `json:"reason,omitempty"`
	Until  time.Time    `json:"until,omitzero"` // zero: no end
	NIC    string       `json:"nic,omitempty"`  // of an SLA: shell pattern on alias, MAC or network; "": each NIC
	SLA    SLA          `json:"sla,omitzero"`
}

// Places says whether it is about whether a VM has a VF.
func (o *Override) Places() bool { return o.Kind == OverridePin || o.Kind == OverrideRelease }

// Ended says whether its end has come.
func (o *Override) Ended(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// Rule is the override of a VM as a rule; it goes before those of the config.
func (o *Override) Rule() VMRule {
	match := string(o.VM)
	if match == "" {
		match = o.VMName
	}
	if o.Kind == OverrideSLA {
		r := VMRule{Match: match, SLA: o.SLA, SLANIC: o.NIC, ByHand: true}
		r.SLA.Source = "sluice sla set by " + o.By
		return r
	}
	return VMRule{Match: match, Pin: o.Kind == OverridePin, Forbid: o.Kind == OverrideRelease, ByHand: true}
}
