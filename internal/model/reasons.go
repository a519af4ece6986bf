package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Code is the stable name of a Reason, fit for metrics labels and tests.
type Code string

// Codes of Reasons; the table reasons explains them. Each policy lists in its file which ones it uses.
const (
	CodeEnough     Code = "enough-vfs"
	CodePinned     Code = "pinned"
	CodeForbidden  Code = "forbidden"
	CodeRank       Code = "rank"
	CodeOutranked  Code = "outranked"
	CodeTurn       Code = "turn"
	CodeWaiting    Code = "waiting"
	CodeKept       Code = "kept"
	CodeBlind      Code = "blind"
	CodeVeto       Code = "veto"
	CodeForeign    Code = "foreign"
	CodeNoVF       Code = "no-vf"
	CodeBackoff    Code = "backoff"
	CodeMoving     Code = "moving"
	CodeDrain      Code = "drain"
	CodeBudget     Code = "budget"
	CodeNotRunning Code = "not-running"
	CodeReleased   Code = "released-by-hand"
	CodeSLA        Code = "sla"
	CodeRepair     Code = "repair"
)

// words is the text for a Code, for people who know nothing of policies. In sentence and short, {rank}, {vfs} (as many as were given
// out), {other} and {gain} (of a swap, with its cost) are replaced by the Reason's values. A sentence stays true if it is cut off at a
// comma or a bracket, as `sluice top` does.
type words struct {
	means    string // in the help of `sluice vms`
	sentence string // after "holds a VF: " or "stays on virtio: "
	short    string // at most ShortReason columns with the values filled in
}

// reason is an entry of the table of Reasons.
type reason struct {
	code Code
	words
	not   *words // if the text differs for VMs without a VF
	alone string // the sentence if no other VM is named; unset: the same
}

func (c Code) find() *reason { return first(reasons, func(e *reason) bool { return e.code == c }) }

// reasons is the only table of Reasons: log, API, explain, page, top and the help take their text from it.
var reasons = []reason{
	{code: CodeRank, words: words{
		"it gains more from a VF than those without one",
		"it gains more from a VF than {other}, the next in line", "gains more than others",
	}, alone: "it is one of the VMs that gain most from a VF"},
	{code: CodeOutranked, words: words{
		"others gain more from a VF",
		"those with a VF gain more from it, the least of them {other}", "others gain more",
	}, alone: "others come first"},
	{code: CodeTurn, words: words{"fair: it is its turn", "it is its turn", "its turn"}},
	{code: CodeWaiting, words: words{
		"fair: its turn comes later",
		"its turn comes later, it is number {rank} in the queue for {vfs}", "its turn comes later",
	}, alone: "nobody gets a VF"},
	{code: CodeEnough, words: words{
		"there are enough VFs for all VMs on its network",
		"there are VFs for every VM on its network", "VFs for all on its network",
	}},
	{code: CodeKept, words: words{
		"a move would gain too little yet",
		"giving it to {other} instead would gain too little{gain}", "others gain too little",
	}, not: &words{
		sentence: "a move from {other} would gain too little{gain}", short: "a move gains too little",
	}, alone: "a move would gain too little"},
	{code: CodeBudget, words: words{
		"the moves allowed for now are used up",
		"the moves allowed for now are used up, or {other} would get it", "moves for now are used up",
	}, not: &words{
		sentence: "the moves allowed for now are used up, or it would get the VF of {other}", short: "moves for now are used up",
	}, alone: "the moves allowed for now are used up"},
	{code: CodePinned, words: words{"sluice.yaml or `sluice pin` always gives it a VF", "pinned", "pinned"}},
	{code: CodeForbidden, words: words{"sluice.yaml forbids it a VF", "forbidden", "forbidden"}},
	{code: CodeReleased, words: words{"`sluice release` took its VF away", "released by hand", "released by hand"}},
	{code: CodeSLA, words: words{
		"its SLA requires a VF, or cannot be enforced on one",
		"its SLA requires one", "its SLA requires a VF",
	}, not: &words{sentence: "its SLA could not be enforced on a VF", short: "no VF could keep its SLA"}},
	{code: CodeVeto, words: words{
		"it could not fall back to virtio; sluice doctor has the remedy",
		"it must not be moved", "must not be moved",
	}},
	{code: CodeBlind, words: words{"its load is not known", "its load is not known", "load not known"}},
	{code: CodeForeign, words: words{
		"its VF was attached by somebody else",
		"its VF was attached by somebody else", "VF attached by others",
	}},
	{code: CodeNoVF, words: words{
		"there is no usable VF on its network",
		"no usable VF on its network", "no usable VF on its network",
	}},
	{code: CodeNotRunning, words: words{"it is off", "it is not running", "not running"}},
	{code: CodeBackoff, words: words{
		"it waits for a while after a failed move",
		"waiting after a failed move", "waits after a failed move",
	}},
	{code: CodeMoving, words: words{"a move is under way", "a move is under way", "being moved"}},
	{code: CodeDrain, words: words{
		"all VFs are being taken back (sluice drain)",
		"all VFs are being taken back", "all VFs are taken back",
	}},
	{code: CodeRepair, words: words{"something is wrong and being repaired", "repair", "being repaired"}},
}

// Codes returns all codes, in the order in which help lists them.
func Codes() []Code {
	out := make([]Code, len(reasons))
	for i := range reasons {
		out[i] = reasons[i].code
	}
	return out
}

// Means returns what a Code says about a VM, in half a sentence; "" for an unknown code.
func (c Code) Means() string {
	if e := c.find(); e != nil {
		return e.means
	}
	return ""
}

// words returns the text for the Reason's code; for an unknown code, the code itself.
func (r *Reason) words() words {
	e := r.Code.find()
	if e == nil {
		return words{sentence: string(r.Code), short: string(r.Code)}
	}
	w := e.words
	if e.not != nil && !r.Hold {
		w = *e.not
	}
	if e.alone != "" && r.other() == "" {
		w.sentence = e.alone
	}
	return w
}

// fill replaces the placeholders by the Reason's values.
func (r *Reason) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	gain := ""
	if r.Cost > 0 {
		gain = fmt.Sprintf(" (%s packets; it costs %s)", SI(r.Gain), SI(r.Cost))
	}
	return strings.NewReplacer("{rank}", strconv.Itoa(r.Rank), "{vfs}", Plural(r.Slots, "VF"), "{other}", r.other(),
		"{gain}", gain).Replace(text)
}
