package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Target is what should be: which VM holds which VF behind which NIC and how much it
// may send, and why, for every VM. Applying a Target twice is harmless.
type Target struct {
	Time    time.Time    `json:"time"`
	Assign  []Assignment `json:"assign"`           // sorted by VM, then NIC
	Limits  []Limit      `json:"limits,omitempty"` // sorted by CompareKeys; what has none is not limited
	Reasons []Reason     `json:"reasons"`          // one for every VM of the Snapshot, in its order
	NICs    []Reason     `json:"nics,omitempty"`   // one for every NIC of the VMs that have several which may have a VF; in order of VM
}

// NIC is the Reason of one NIC of the VM at index i of the Snapshot: its own where the VM
// has several that may have a VF, else the VM's.
func (t *Target) NIC(i int, alias string) *Reason {
	why := &t.Reasons[i]
	at, _ := slices.BinarySearchFunc(t.NICs, why.VM, func(r Reason, vm VMID) int { return strings.Compare(string(r.VM), string(vm)) })
	for ; at < len(t.NICs) && t.NICs[at].VM == why.VM; at++ {
		if t.NICs[at].NIC == alias {
			return &t.NICs[at]
		}
	}
	return why
}

// Assignment gives a VF to a NIC of a VM.
type Assignment struct {
	VM  VMID   `json:"vm"`
	NIC string `json:"nic"`
	VF  VFID   `json:"vf"`
}

// Code is the stable name of a Reason, fit for metrics labels and tests.
type Code string

// The codes of a Reason. Each policy says in its file which it uses.
const (
	CodeEnough    Code = "enough-vfs"       // as many VFs as VMs: everyone has one
	CodePinned    Code = "pinned"           // a person or the config pinned it
	CodeForbidden Code = "forbidden"        // a person or the config forbids it
	CodeRank      Code = "rank"             // its score is among the first N
	CodeOutranked Code = "outranked"        // its score is not
	CodeTurn      Code = "turn"             // fair: its turn
	CodeWaiting   Code = "waiting"          // fair: not its turn yet
	CodeKept      Code = "kept"             // a challenger exists, but a swap does not pay yet
	CodeBlind     Code = "blind"            // its load is unknown; see Detail
	CodeVeto      Code = "veto"             // it cannot be given or robbed of a VF; Detail says why
	CodeForeign   Code = "foreign"          // somebody else attached a VF to it
	CodeNoVF      Code = "no-vf"            // no usable VF on its network
	CodeBackoff   Code = "backoff"          // a move failed; Until says when it is tried again
	CodeMoving    Code = "moving"           // a move is under way
	CodeDrain     Code = "drain"            // all VFs are being given up
	CodeBudget    Code = "budget"           // the budget of moves is used up
	CodeNotNeeded Code = "not-running"      // stopped
	CodeReleased  Code = "released-by-hand" // `sluice release`
	CodeSLA       Code = "sla"              // its SLA asks for a VF, or cannot be kept on one; Detail says which
	CodeRepair    Code = "repair"           // something was found wrong; Detail says what
)

// Reason says why a VM holds, gets, loses or does not get a VF. It is data; String
// renders the one sentence that log, API, explain and dashboard all print.
type Reason struct {
	VM      VMID      `json:"vm"`
	NIC     string    `json:"nic,omitempty"` // alias of the NIC that it is about, where the VM has several
	Code    Code      `json:"code"`
	Hold    bool      `json:"hold"`                   // the verdict: it should hold a VF
	Policy  string    `json:"policy,omitempty"`       // the policy that said so; "" for the rules around it
	Score   float64   `json:"score,omitempty"`        // the policy's figure of merit, packets/s unless it says otherwise
	Price   float64   `json:"price,omitempty"`        // the score at which a VF changes hands
	Regret  float64   `json:"regret,omitempty"`       // packets lost so far by not moving
	Rank    int       `json:"rank,omitempty"`         // 1 is first; 0: not ranked
	Slots   int       `json:"slots,omitempty"`        // how many VFs the ranking shared out
	Worth   float64   `json:"packet_worth,omitempty"` // what a packet of it counts in the score; 0: one
	Bursts  Bursts    `json:"bursts,omitzero"`        // what the policy learned of its load
	Other   VMID      `json:"other,omitempty"`        // runner-up (for a holder) or the holder to beat (for an outsider)
	OtherNm string    `json:"other_name,omitempty"`
	Rate    uint64    `json:"max_tx_rate_bits,omitempty"` // bits/s: the tier that the policy gives its VF, which becomes a Limit; 0: none
	Until   time.Time `json:"until,omitzero"`
	Detail  string    `json:"detail,omitempty"` // what a veto, backoff or blind figure is about, with the remedy
}

// unit is that of Score and Price.
func (r *Reason) unit() string {
	if r.ofPackets() {
		return " packets/s"
	}
	return " s with a VF"
}

// ofPackets says whether the score is about packets: fair goes by how long a VM was served, over its weight.
func (r *Reason) ofPackets() bool { return r.Code != CodeTurn && r.Code != CodeWaiting }

// String renders the Reason as one sentence without a final full stop.
func (r Reason) String() string {
	if r.Code == CodeRepair {
		return "repair: " + r.Detail
	}
	var b strings.Builder
	switch {
	case r.Hold && r.NIC != "":
		b.WriteString("holds a VF behind " + r.NIC)
	case r.Hold:
		b.WriteString("holds a VF")
	case r.NIC != "":
		b.WriteString("stays on virtio with " + r.NIC)
	default:
		b.WriteString("stays on virtio")
	}
	b.WriteString(": ")
	switch r.Code {
	case CodeEnough:
		b.WriteString("there are VFs for every VM on its network")
	case CodePinned:
		b.WriteString("pinned")
	case CodeForbidden:
		b.WriteString("forbidden")
	case CodeRank:
		fmt.Fprintf(&b, "%s ranks it %d of the %d that get one", r.Policy, r.Rank, r.Slots)
	case CodeOutranked:
		are := "are"
		if r.Slots == 1 {
			are = "is"
		}
		fmt.Fprintf(&b, "%s ranks it %d and there %s %s to share out", r.Policy, r.Rank, are, Plural(r.Slots, "VF"))
	case CodeTurn:
		b.WriteString("its turn in the round")
	case CodeWaiting:
		fmt.Fprintf(&b, "place %d in the queue for %s", r.Rank, Plural(r.Slots, "VF"))
	case CodeKept:
		b.WriteString("a swap does not pay yet")
	case CodeBlind:
		b.WriteString("its load is not known")
	case CodeVeto:
		b.WriteString("it must not be moved")
	case CodeForeign:
		b.WriteString("its VF was attached by somebody else")
	case CodeNoVF:
		b.WriteString("no usable VF on its network")
	case CodeBackoff:
		b.WriteString("waiting after a failed move")
	case CodeMoving:
		b.WriteString("a move is under way")
	case CodeSLA:
		b.WriteString(map[bool]string{true: "its SLA asks for one", false: "its SLA could not be kept on a VF"}[r.Hold])
	case CodeDrain:
		b.WriteString("all VFs are being given up")
	case CodeBudget:
		b.WriteString("the budget of moves is used up")
	case CodeNotNeeded:
		b.WriteString("it is not running")
	case CodeReleased:
		b.WriteString("released by hand")
	default:
		b.WriteString(string(r.Code))
	}
	if r.Rank > 0 || r.Score != 0 {
		b.WriteString(", score " + SI(r.Score) + r.unit())
	}
	if r.Worth != 0 && r.ofPackets() {
		b.WriteString(", a packet worth " + SI(r.Worth))
	}
	if r.Price != 0 {
		b.WriteString(", price " + SI(r.Price) + r.unit())
	}
	if r.Regret != 0 {
		b.WriteString(", regret " + SI(r.Regret) + " packets")
	}
	if r.Rate != 0 {
		fmt.Fprintf(&b, ", tier %d Mbit/s", r.Rate/1e6)
	}
	if r.Other != "" {
		who := r.OtherNm
		if who == "" {
			who = string(r.Other)
		}
		if r.Hold {
			fmt.Fprintf(&b, ", runner-up %s", who)
		} else {
			fmt.Fprintf(&b, ", to beat %s", who)
		}
	}
	if r.Detail != "" {
		b.WriteString(" (" + r.Detail + ")")
	}
	if !r.Until.IsZero() {
		b.WriteString(", until " + r.Until.Format(time.TimeOnly))
	}
	return b.String()
}
