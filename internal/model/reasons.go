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

// words is the text for a Code. In sentence and short, {policy}, {rank}, {slots}, {vfs} (slots with their noun) and {are} are
// replaced by the Reason's values.
type words struct {
	means    string // in the help of `sluice vms`
	sentence string // after "holds a VF: " or "stays on virtio: "
	short    string // at most ShortReason columns with the values filled in
}

// reasons is the only table of Reasons: log, API, explain, page, top and the help take their text from it.
var reasons = []struct {
	code Code
	words
	not *words // if the text differs for VMs without a VF
}{
	{code: CodeRank, words: words{
		"its score is among the first, so it should have a VF",
		"{policy} ranks it {rank} of the {slots} that get one", "place {rank}, VFs for {slots}",
	}},
	{code: CodeOutranked, words: words{
		"others gain more from a VF",
		"{policy} ranks it {rank} and there {are} {vfs} to share out", "place {rank}, VFs for {slots}",
	}},
	{code: CodeTurn, words: words{"fair: its turn has come", "its turn in the round", "its turn in the round"}},
	{code: CodeWaiting, words: words{
		"fair: its turn comes later",
		"place {rank} in the queue for {vfs}", "place {rank} in the queue",
	}},
	{code: CodeEnough, words: words{
		"there are VFs for all VMs on its network",
		"there are VFs for every VM on its network", "VFs for all on its network",
	}},
	{code: CodeKept, words: words{
		"a swap with another VM does not pay yet",
		"a swap does not pay yet", "a swap does not pay yet",
	}},
	{code: CodeBudget, words: words{
		"the moves allowed for now are used up",
		"the budget of moves is used up", "budget of moves is used up",
	}},
	{code: CodePinned, words: words{"sluice.yaml or somebody gives it a VF", "pinned", "pinned"}},
	{code: CodeForbidden, words: words{"sluice.yaml gives it none", "forbidden", "forbidden"}},
	{code: CodeReleased, words: words{"somebody took its VF, by sluice release", "released by hand", "released by hand"}},
	{code: CodeSLA, words: words{
		"its SLA asks for a VF, or cannot be kept on one",
		"its SLA asks for one", "its SLA asks for a VF",
	}, not: &words{sentence: "its SLA could not be kept on a VF", short: "no VF could keep its SLA"}},
	{code: CodeVeto, words: words{
		"it could not fall back; sluice doctor has the remedy",
		"it must not be moved", "must not be moved",
	}},
	{code: CodeBlind, words: words{"its load is not known", "its load is not known", "load not known"}},
	{code: CodeForeign, words: words{
		"somebody else gave it its VF",
		"its VF was attached by somebody else", "VF attached by others",
	}},
	{code: CodeNoVF, words: words{
		"no usable VF leads to its network",
		"no usable VF on its network", "no usable VF on its network",
	}},
	{code: CodeNotRunning, words: words{"it is off", "it is not running", "not running"}},
	{code: CodeBackoff, words: words{
		"it waits after a failed move",
		"waiting after a failed move", "rests after a failed move",
	}},
	{code: CodeMoving, words: words{"a move is under way", "a move is under way", "being moved"}},
	{code: CodeDrain, words: words{
		"all VFs are being given up, by sluice drain",
		"all VFs are being given up", "all VFs are given up",
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
	for i := range reasons {
		if reasons[i].code == c {
			return reasons[i].means
		}
	}
	return ""
}

// words returns the text for the Reason's code; for an unknown code, the code itself.
func (r *Reason) words() words {
	for i := range reasons {
		switch {
		case reasons[i].code != r.Code:
		case reasons[i].not != nil && !r.Hold:
			return *reasons[i].not
		default:
			return reasons[i].words
		}
	}
	return words{sentence: string(r.Code), short: string(r.Code)}
}

// fill replaces the placeholders by the Reason's values.
func (r *Reason) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	are := "are"
	if r.Slots == 1 {
		are = "is"
	}
	return strings.NewReplacer("{policy}", r.Policy, "{rank}", strconv.Itoa(r.Rank), "{slots}", fmt.Sprint(r.Slots),
		"{vfs}", Plural(r.Slots, "VF"), "{are}", are).Replace(text)
}
