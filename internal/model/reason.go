package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Reason is why a VM holds, gets, loses or does not get a VF. It is data; String renders the one sentence that log, API, explain
// and dashboard all print.
type Reason struct {
	VM      VMID      `json:"vm"`
	NIC     string    `json:"nic,omitempty"` // alias of the NIC that it is about, if the VM has several
	Code    Code      `json:"code"`
	Hold    bool      `json:"hold"`                   // the decision: it should hold a VF
	Policy  string    `json:"policy,omitempty"`       // the policy that decided; "" for the rules around it
	Score   float64   `json:"score,omitempty"`        // the policy's figure of merit, packets/s unless it says otherwise
	Price   float64   `json:"price,omitempty"`        // the score at which a VF changes holders
	Regret  float64   `json:"regret,omitempty"`       // packets lost so far by not moving
	Rank    int       `json:"rank,omitempty"`         // 1 is first; 0: not ranked
	Slots   int       `json:"slots,omitempty"`        // how many VFs the ranking shared out
	Worth   float64   `json:"packet_worth,omitempty"` // how much one of its packets counts in the score; 0: one
	Bursts  Bursts    `json:"bursts,omitzero"`        // what the policy has learned of its load
	Other   VMID      `json:"other,omitempty"`        // runner-up (for a holder) or the holder to beat (for an outsider)
	OtherNm string    `json:"other_name,omitempty"`
	Rate    uint64    `json:"max_tx_rate_bits,omitempty"` // bits/s: the tier that the policy gives its VF, which becomes a Limit; 0: none
	By      string    `json:"by,omitempty"`               // who asked for it, if a person did
	Until   time.Time `json:"until,omitzero"`
	Detail  string    `json:"detail,omitempty"` // details of a veto, backoff or unknown load, with the remedy
}

// unit returns the unit of Score and Price.
func (r *Reason) unit() string {
	if r.OfPackets() {
		return " packets/s"
	}
	return " s with a VF"
}

// OfPackets reports whether the score counts packets: fair counts how long a VM was served, over its weight.
func (r *Reason) OfPackets() bool { return r.Code != CodeTurn && r.Code != CodeWaiting }

// String renders the Reason as one sentence without a final full stop: decision and cause.
func (r Reason) String() string {
	verdict := "stays on virtio"
	switch {
	case r.Code == CodeRepair:
		return "repair: " + r.Detail
	case r.Hold && r.NIC != "":
		verdict = "holds a VF behind " + r.NIC
	case r.Hold:
		verdict = "holds a VF"
	case r.NIC != "":
		verdict += " with " + r.NIC
	}
	return verdict + ": " + r.Because()
}

// Because is String without the decision.
func (r *Reason) Because() string {
	var b strings.Builder
	b.WriteString(r.fill(r.words().sentence))
	if r.Rank > 0 || r.Score != 0 {
		b.WriteString(", score " + SI(r.Score) + r.unit())
	}
	if r.Worth != 0 && r.OfPackets() {
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
		who := ", to beat "
		if r.Hold {
			who = ", runner-up "
		}
		b.WriteString(who + cmp.Or(r.OtherNm, string(r.Other)))
	}
	if r.Detail != "" {
		b.WriteString(" (" + r.Detail + ")")
	}
	if !r.Until.IsZero() {
		b.WriteString(", until " + r.Until.Format(time.TimeOnly))
	}
	return b.String()
}

// ShortReason is the maximum width of what Short returns, in columns.
const ShortReason = 28

// Short renders the Reason in a few words without its figures, for a table column beside the path that the VM uses.
func (r *Reason) Short() string { return r.fill(r.words().short) }
