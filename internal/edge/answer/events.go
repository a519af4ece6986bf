package answer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// EventsQuery selects events.
type EventsQuery struct {
	VM    string    // name or UUID; "": the whole host
	After uint64    // ID of an event: only newer ones; 0: all
	Last  int       // at most so many lines; 0: all
	Since time.Time // only events from then on; zero: all
	Until time.Time // only events up to then; zero: all
}

// Events of one cause are one line if each follows the one before within eventPause, and all of them begin within eventSpan.
const (
	eventPause = 30 * time.Second
	eventSpan  = 10 * time.Minute
)

// eventKey is what events of one line have in common.
type eventKey struct {
	kind  model.EventKind
	cause model.Cause
	text  string
}

func keyOf(e *model.Event) eventKey {
	k := eventKey{kind: e.Kind, cause: e.Cause}
	if e.Cause.Other != "" {
		k.cause.Other, k.cause.OtherNm = "others", ""
	}
	switch {
	case e.Cause.Kind == model.CausePolicy: // at one time, it takes from some what it gives to others
		k.cause = model.Cause{Kind: model.CausePolicy}
	case e.Kind == model.EventFailed:
		k.text = e.Text
	case e.VM == "":
		k.text = e.Text
	}
	return k
}

// wants reports whether an event is asked for.
func (q *EventsQuery) wants(e *model.Event) bool {
	return e.ID > q.After && (q.VM == "" || e.Concerns(q.VM)) && !e.At.Before(q.Since) && (q.Until.IsZero() || !e.At.After(q.Until))
}

// Events puts events, by ID, into lines, oldest first.
func Events(list []model.Event, q EventsQuery) api.Events {
	out := api.Events{Lines: []api.Event{}}
	if len(list) > 0 {
		out.Newest = list[len(list)-1].ID
	}
	open := map[eventKey]int{} // index of the last line of a kind
	var newest []*model.Event  // of each line
	for i := range list {
		e := &list[i]
		if e.Kind == model.EventStart || e.Kind == model.EventStop {
			clear(open) // a line is of one run
		}
		if !q.wants(e) {
			continue
		}
		k := keyOf(e)
		at, is := open[k]
		if !is || e.At.Sub(out.Lines[at].To) > eventPause || e.At.Sub(out.Lines[at].From) > eventSpan {
			at = len(out.Lines)
			open[k] = at
			out.Lines = append(out.Lines, api.Event{From: e.At, Kind: string(e.Kind), Text: eventText(e), Cause: causeOf(&e.Cause)})
			newest = append(newest, e)
		}
		newest[at] = e
		l := &out.Lines[at]
		l.ID, l.To, l.Count, l.Alarm = e.ID, e.At, l.Count+1, l.Alarm || e.Alarm
		if e.VM != "" {
			l.VMs = append(l.VMs, api.EventVM{VM: e.VMName, ID: string(e.VM), VF: vfName(e.VF), At: e.At, Text: eventText(e), Move: e.Move})
		}
	}
	for i, e := range newest {
		if l := &out.Lines[i]; l.Count > 1 {
			l.Text = together(e, l)
		}
	}
	slices.SortStableFunc(out.Lines, func(a, b api.Event) int { return a.From.Compare(b.From) }) // that something is over is known later
	if q.Last > 0 && len(out.Lines) > q.Last {
		out.Lines, out.More = slices.Clone(out.Lines[len(out.Lines)-q.Last:]), true
	}
	return out
}

// eventText is one event as a sentence.
func eventText(e *model.Event) string {
	name := cmp.Or(e.VMName, string(e.VM), "the host")
	why := ": " + cmp.Or(e.Cause.String(), "no cause is known")
	switch e.Kind {
	case model.EventPlug:
		return name + " got VF " + e.VF.String() + why
	case model.EventUnplug, model.EventLost:
		return name + " lost VF " + e.VF.String() + why
	case model.EventRepair:
		return "found and repaired: " + cmp.Or(e.Text, e.Cause.String())
	case model.EventFailed:
		if e.VM == "" {
			return "a " + e.Text + " failed" + why
		}
		return "a " + e.Text + " of " + name + " failed" + why
	case model.EventProblem:
		return about(e) + e.Text
	case model.EventSolved:
		return about(e) + "no longer a problem: " + e.Text
	}
	return e.Text
}

// about names the VM of a problem, if it is one's.
func about(e *model.Event) string {
	if e.VM == "" {
		return ""
	}
	return cmp.Or(e.VMName, string(e.VM)) + ": "
}

// together is a line of several events, of which e is one.
func together(e *model.Event, l *api.Event) string {
	vms := model.Plural(vmsIn(l), "VM")
	why := e.Cause
	if e.Cause.Kind == model.CausePolicy {
		why = model.Cause{Kind: model.CausePolicy, Detail: "decided by the policy"}
		if e.Cause.Other != "" {
			why.Detail = "they give way to VMs that gain more"
		}
	} else if why.Other != "" {
		return vms + " gave way to others" + why.Need()
	}
	switch e.Kind {
	case model.EventPlug:
		return vms + " got VFs: " + why.String()
	case model.EventUnplug, model.EventLost:
		return vms + " lost their VFs: " + why.String()
	case model.EventRepair:
		return fmt.Sprintf("found and repaired %d times, such as: %s", l.Count, cmp.Or(e.Text, why.String()))
	case model.EventFailed:
		what := fmt.Sprintf("%d %ss", l.Count, e.Text)
		if len(l.VMs) == l.Count { // a repair may be of a VF that nobody has
			what += " of " + vms
		}
		return what + " failed: " + why.String()
	case model.EventProblem:
		return vms + ": " + e.Text
	case model.EventSolved:
		return vms + ": no longer a problem: " + e.Text
	}
	return fmt.Sprintf("%s (%d times)", e.Text, l.Count)
}

func vmsIn(l *api.Event) int {
	seen := make(map[string]bool, len(l.VMs))
	for i := range l.VMs {
		seen[l.VMs[i].ID] = true
	}
	return len(seen)
}
