package model

import "cmp"

// CauseKind is the stable name of what brought a move, an alarm or a change of state about.
type CauseKind string

// Values of CauseKind.
const (
	CausePolicy   CauseKind = "policy"    // the policy: another VM gains more, or a VF is free
	CauseLinkDown CauseKind = "link-down" // the link of PF is down
	CauseLinkUp   CauseKind = "link-up"   // the link of PF is up again
	CausePFGone   CauseKind = "pf-gone"   // the host does not have PF any more
	CauseSwitch   CauseKind = "switch"    // PF is not connected to its switch as it must be
	CauseDrain    CauseKind = "drain"
	CausePin      CauseKind = "pin"
	CauseRelease  CauseKind = "release"  // released by hand, or forbidden by a rule
	CauseReload   CauseKind = "reload"   // other rules in sluice.yaml
	CauseRestart  CauseKind = "restart"  // a move that was under way when the daemon ended
	CauseSLA      CauseKind = "sla"      // a guarantee or limit that only one of the paths can keep
	CauseGuest    CauseKind = "guest"    // the VM itself: its guest does not use the VF, it was shut down
	CauseFailure  CauseKind = "failure"  // something failed
	CauseFinding  CauseKind = "finding"  // something that fsck found wrong
	CauseProblem  CauseKind = "problem"  // something that doctor lists
	CauseTaker    CauseKind = "taker"    // others send more than they are promised on PF
	CauseOutsider CauseKind = "outsider" // somebody else: not Sluice
)

// Cause is what brought something about. Only the fields that its kind needs are set. Two events with equal Causes have one cause.
type Cause struct {
	Kind    CauseKind `json:"kind"`
	PF      string    `json:"pf,omitempty"`
	By      string    `json:"by,omitempty"`    // who asked; "": sluice.yaml
	Other   VMID      `json:"other,omitempty"` // the VM that gets the VF, or had it; that VM's move has the same cause
	OtherNm string    `json:"other_name,omitempty"`
	Detail  string    `json:"detail,omitempty"` // what failed, what was found
}

// String says it in half a sentence.
func (c Cause) String() string {
	if c.Other != "" {
		return "gives way to " + cmp.Or(c.OtherNm, string(c.Other)) + c.Need()
	}
	return c.root()
}

// Need says why Other needs the VF, to be read after its name; "" if it only gains more.
func (c *Cause) Need() string {
	switch {
	case c.Kind == CausePolicy:
		return ""
	case c.Kind == CausePin:
		return ", " + c.root()
	case c.PF != "":
		return ", whose own VF cannot be used: " + c.root()
	}
	return ": " + c.root()
}

// root is String without the VM that it gives way to.
func (c *Cause) root() string {
	switch c.Kind {
	case CausePolicy:
		return cmp.Or(c.Detail, "decided by the policy")
	case CauseLinkDown:
		return "link of " + c.PF + " down"
	case CauseLinkUp:
		return "link of " + c.PF + " up again"
	case CausePFGone:
		return c.PF + " is gone from the host"
	case CauseSwitch:
		return cmp.Or(c.Detail, c.PF+" is not connected to its switch")
	case CauseDrain:
		return "drained" + c.by()
	case CausePin:
		return "pinned" + c.by()
	case CauseRelease:
		return cmp.Or(c.Detail, "released") + c.by()
	case CauseReload:
		return cmp.Or(c.Detail, "sluice.yaml changed")
	case CauseRestart:
		return "left unfinished by a restart" + bracketed(c.Detail)
	case CauseSLA:
		return "SLA" + bracketed(c.Detail)
	}
	return cmp.Or(c.Detail, string(c.Kind))
}

func (c *Cause) by() string {
	if c.By == "" {
		return " by sluice.yaml"
	}
	return " by " + c.By
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
