package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Reason is why a VM holds, gets, loses or does not get a VF. It is data; String renders the one plain sentence that log, API,
// explain and dashboard all print, and Figures the policy's figures behind it.
type Reason struct {
	VM      VMID      `json:"vm"`
	NIC     string    `json:"nic,omitempty"` // alias of the NIC that it is about, if the VM has several
	Code    Code      `json:"code"`
	Hold    bool      `json:"hold"`                   // the decision: it should hold a VF
	Policy  string    `json:"policy,omitempty"`       // the policy that decided; "" for the rules around it
	Score   float64   `json:"score,omitempty"`        // the policy's figure of merit, packets/s unless it says otherwise
	Price   float64   `json:"price,omitempty"`        // the score at which a VF changes holders
	Regret  float64   `json:"regret,omitempty"`       // packets lost so far by not moving
	Gain    float64   `json:"swap_gain,omitempty"`    // packets that a swap with Other would gain, if it does not pay yet
	Cost    float64   `json:"swap_cost,omitempty"`    // packets that the swap is taken to cost
	Style   string    `json:"style,omitempty"`        // how the policy looks at the load now
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
	switch {
	case r.Policy == "vnraf" || r.Policy == "random": // net_degree; the number drawn
		return ""
	case r.OfPackets():
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
	if r.Detail != "" {
		b.WriteString(" (" + r.Detail + ")")
	}
	if !r.Until.IsZero() {
		b.WriteString(", until " + r.Until.Format(time.TimeOnly))
	}
	return b.String()
}

// Figure is a figure of a policy behind a Reason.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Means string `json:"means"`
}

// Figures returns what the policy computed, for those who know it or want to: the name of each figure, its value, what it means.
func (r *Reason) Figures() []Figure {
	var out []Figure
	add := func(name, value, means string) { out = append(out, Figure{name, value, means}) }
	if r.Rank > 0 {
		add("rank", fmt.Sprintf("%d, VFs for %d", r.Rank, r.Slots), "its place in the order in which "+r.Policy+" gives out VFs")
	}
	if r.Rank > 0 || r.Score != 0 {
		add("score", SI(r.Score)+r.unit(), "how much it gains from a VF, as the policy measures it")
	}
	if r.Worth != 0 && r.OfPackets() {
		add("worth", SI(r.Worth), "how much one of its packets counts in the score")
	}
	if r.Price != 0 {
		add("price", SI(r.Price)+r.unit(), "the score at which a VF changes holders")
	}
	if r.Regret != 0 {
		add("regret", SI(r.Regret)+" packets", "what it has lost, or kept from others, by not moving")
	}
	if r.Cost != 0 {
		add("swap", SI(r.Gain)+" packets of "+SI(r.Cost), "what a swap with "+r.other()+" would gain, of what must be gained for it")
	}
	if r.Style != "" {
		add("style", r.Style, "how patient the policy is with its load now")
	}
	if r.Rate != 0 {
		add("tier", fmt.Sprintf("%d Mbit/s", r.Rate/1e6), "the limit that the policy sets on its VF")
	}
	return out
}

// FiguresText is Figures in a line.
func (r *Reason) FiguresText() string {
	var list []string
	for _, f := range r.Figures() {
		list = append(list, f.Name+" "+f.Value)
	}
	return strings.Join(list, "; ")
}

func (r *Reason) other() string { return cmp.Or(r.OtherNm, string(r.Other)) }

// ShortReason is the maximum width of what Short returns, in columns.
const ShortReason = 28

// Short renders the Reason in a few words without its figures, for a table column beside the path that the VM uses.
func (r *Reason) Short() string { return r.fill(r.words().short) }
