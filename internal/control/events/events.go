package events

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"sluice/internal/model"
)

// shortOver is how long a shortage must be over to be called so: loads that come and go make one shortage.
const shortOver = time.Minute

// solvedAfter is how long a problem must be gone to be called so.
const solvedAfter = time.Minute

// Watcher finds the events between Views. Its zero value has seen none. It is not safe for concurrent use.
type Watcher struct {
	// Examine finds problems in a Snapshot; nil: only those that the Snapshot has.
	Examine func(*model.Snapshot) []model.Problem

	count    uint64
	killed   bool // an earlier run ended without a stop
	started  bool
	ended    uint64 // ID of the Move that ended last
	mode     model.Mode
	policy   string
	reloaded time.Time
	failing  bool // the last View had errors
	links    map[string]model.Cause
	held     map[model.VFID]holder
	looked   time.Time // when held was seen
	asked    []model.Override
	short    map[string]shortage // by PF
	problems map[string]*problem // by what they are about
	examined time.Time           // the Snapshot whose problems were found

	out []model.Event // of the View that is looked at
}

type problem struct {
	event model.Event // that told of it
	seen  time.Time   // last
}

// shortage is what a link's NICs lack of what they are promised.
type shortage struct {
	seen  time.Time // last
	about []model.Party
}

type holder struct {
	id   model.VMID
	name string
}

// Next returns what happened since the previous View, oldest first.
func (w *Watcher) Next(v *model.View) []model.Event {
	w.out = nil
	w.errors(v)
	if s := v.Snapshot; s != nil && !s.Time.IsZero() {
		w.start(v)
		w.rules(v)
		w.requests(v)
		w.pfs(v)
		w.holders(v)
		w.moves(v)
		w.shortages(v)
		w.doctor(v)
	}
	slices.SortStableFunc(w.out, func(a, b model.Event) int { return a.At.Compare(b.At) })
	for i := range w.out {
		w.count++
		w.out[i].ID, w.out[i].At = w.count, w.out[i].At.Round(0) // wall-clock time
	}
	return w.out
}

// Resume continues after the last event of an earlier run. It must be called before Next.
func (w *Watcher) Resume(last *model.Event) {
	w.count, w.killed = last.ID, last.Kind != model.EventStop
}

// Stop returns the event that ends a run.
func (w *Watcher) Stop(at time.Time) model.Event {
	w.count++
	return model.Event{ID: w.count, At: at.Round(0), Kind: model.EventStop, Text: "Sluice stopped; VFs stay where they are"}
}

func (w *Watcher) add(e model.Event) { w.out = append(w.out, e) }

// errors tells when the daemon cannot do its work, and when it can again.
func (w *Watcher) errors(v *model.View) {
	now := v.Started
	if v.Snapshot != nil && v.Snapshot.Time.After(now) {
		now = v.Snapshot.Time
	}
	failing := len(v.Errors) > 0
	switch {
	case failing == w.failing:
	case failing:
		w.add(model.Event{
			At: now, Kind: model.EventError, Text: v.Errors[0], Alarm: true,
			Cause: model.Cause{Kind: model.CauseFailure, Detail: v.Errors[0]},
		})
	default:
		w.add(model.Event{At: now, Kind: model.EventErrorEnd, Text: "the daemon works again without errors"})
	}
	w.failing = failing
}

// start tells of the first View that shows the host. What it shows is not news.
func (w *Watcher) start(v *model.View) {
	if w.started {
		return
	}
	w.started = true
	w.links, w.held, w.short = map[string]model.Cause{}, map[model.VFID]holder{}, map[string]shortage{}
	w.mode, w.policy, w.reloaded, w.asked = v.Mode, v.Rules.Policy, v.Reloaded, v.Overrides
	e := model.Event{
		At: v.Snapshot.Time, Kind: model.EventStart, Text: fmt.Sprintf("Sluice started in %s mode, policy %s", v.Mode, v.Rules.Policy),
	}
	if w.killed {
		e.Text += ", after a run that ended without a stop"
	}
	w.add(e)
}

func (w *Watcher) rules(v *model.View) {
	now := v.Snapshot.Time
	if !v.Reloaded.Equal(w.reloaded) {
		text := "sluice.yaml was reloaded with other rules"
		if v.Rules.Policy != w.policy {
			text += ": policy " + v.Rules.Policy + " instead of " + w.policy
		}
		w.add(model.Event{At: v.Reloaded, Kind: model.EventReload, Text: text, Cause: model.Cause{Kind: model.CauseReload}})
	}
	if v.Mode != w.mode {
		w.add(model.Event{
			At: now, Kind: model.EventMode, Text: fmt.Sprintf("%s mode instead of %s", v.Mode, w.mode), Cause: model.Cause{Kind: model.CauseReload},
		})
	}
	w.mode, w.policy, w.reloaded = v.Mode, v.Rules.Policy, v.Reloaded
}

// requests tells what people asked for at run time, and when that ends.
func (w *Watcher) requests(v *model.View) {
	same := func(o *model.Override, list []model.Override) bool {
		return slices.ContainsFunc(list, func(p model.Override) bool {
			return p.Kind == o.Kind && p.VM == o.VM && p.NIC == o.NIC && p.At.Equal(o.At)
		})
	}
	for i := range v.Overrides {
		if o := &v.Overrides[i]; !same(o, w.asked) {
			w.add(model.Event{At: o.At, Kind: model.EventAsked, VM: o.VM, VMName: o.VMName, Text: request(o), Cause: causeOf(o)})
		}
	}
	for i := range w.asked {
		if o := &w.asked[i]; !same(o, v.Overrides) {
			text := request(o) + " is over"
			if o.Ended(v.Snapshot.Time) {
				text += ", because its time was up"
			}
			w.add(model.Event{At: v.Snapshot.Time, Kind: model.EventAskedEnd, VM: o.VM, VMName: o.VMName, Text: text, Cause: causeOf(o)})
		}
	}
	w.asked = v.Overrides
}

// request says what was asked and by whom.
func request(o *model.Override) string {
	text := string(o.Kind)
	switch {
	case o.Kind == model.OverrideSLA:
		text = "SLA for " + o.VMName
	case o.VM != "":
		text += " of " + o.VMName
	}
	text += " by " + o.By
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	return text
}

func causeOf(o *model.Override) model.Cause {
	kinds := map[model.OverrideKind]model.CauseKind{
		model.OverridePin: model.CausePin, model.OverrideRelease: model.CauseRelease, model.OverrideDrain: model.CauseDrain,
		model.OverrideSLA: model.CauseSLA,
	}
	return model.Cause{Kind: kinds[o.Kind], By: o.By}
}

// pfs tells whether the VFs of each of our PFs can be used.
func (w *Watcher) pfs(v *model.View) {
	for _, name := range slices.Sorted(maps.Keys(w.links)) {
		if v.Snapshot.FindPF(name) != nil || w.links[name].Kind == model.CausePFGone {
			continue
		}
		gone := model.Cause{Kind: model.CausePFGone, PF: name}
		w.links[name] = gone
		w.add(model.Event{At: v.Snapshot.Time, Kind: model.EventLink, Text: gone.String(), Alarm: true, Cause: gone})
	}
	for i := range v.Snapshot.PFs {
		pf := &v.Snapshot.PFs[i]
		if !pf.Managed {
			delete(w.links, pf.Name)
			continue
		}
		var now model.Cause
		switch {
		case !pf.LinkUp:
			now = model.Cause{Kind: model.CauseLinkDown, PF: pf.Name}
		case pf.Uplink.Why != "":
			now = model.Cause{Kind: model.CauseSwitch, PF: pf.Name, Detail: pf.Uplink.Why}
		}
		before := w.links[pf.Name]
		w.links[pf.Name] = now
		e := model.Event{At: v.Snapshot.Time, Kind: model.EventLink, Text: now.String(), Alarm: true, Cause: now}
		switch now.Kind {
		case before.Kind:
			continue
		case "":
			e.Alarm, e.Cause = false, model.Cause{Kind: model.CauseLinkUp, PF: pf.Name}
			e.Text = e.Cause.String()
			switch before.Kind {
			case model.CausePFGone:
				e.Text = pf.Name + " is in the host again"
			case model.CauseSwitch:
				e.Text = pf.Name + " is connected to its switch again"
				e.Cause = model.Cause{Kind: model.CauseSwitch, PF: pf.Name, Detail: e.Text}
			}
		}
		w.add(e)
	}
}

// holders tells of VMs whose VF is gone without a move of ours.
func (w *Watcher) holders(v *model.View) {
	s := v.Snapshot
	now := make(map[model.VFID]holder, len(w.held))
	for i := range s.PFs {
		for k := range s.PFs[i].VFs {
			vf := &s.PFs[i].VFs[k]
			if vf.Owner != model.OwnerSluice || vf.Holder == "" {
				continue
			}
			who := holder{vf.Holder, ""}
			if vm := s.FindVM(vf.Holder); vm != nil {
				who.name = vm.Name
			}
			now[vf.ID] = who
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.held), model.VFID.Compare) {
		who := w.held[id]
		if now[id].id == who.id || slices.Contains(s.Unread, who.id) || moved(v, id, who.id, w.looked) {
			continue
		}
		c := model.Cause{Kind: model.CauseOutsider, Detail: "detached by somebody else"}
		if s.FindPF(id.PF) == nil {
			c = model.Cause{Kind: model.CausePFGone, PF: id.PF}
		}
		if vm := s.FindVM(who.id); vm == nil || vm.State == model.VMStopped {
			c = model.Cause{Kind: model.CauseGuest, Detail: "the VM ended"}
		}
		w.add(model.Event{At: s.Time, Kind: model.EventLost, VM: who.id, VMName: who.name, VF: id, Cause: c})
	}
	w.held, w.looked = now, s.Time
}

// moved reports whether a Move that is under way, or has ended since a little before the previous Snapshot, takes the VF from the VM.
func moved(v *model.View, vf model.VFID, vm model.VMID, previous time.Time) bool {
	ours := func(m model.MoveStatus) bool { return m.Move.VM == vm && m.Move.VF == vf }
	return slices.ContainsFunc(v.Active, ours) || slices.ContainsFunc(v.Recent, func(m model.MoveStatus) bool {
		return ours(m) && previous.Sub(m.Ended) < time.Minute
	})
}

// moves tells of the moves that ended.
func (w *Watcher) moves(v *model.View) {
	n := slices.IndexFunc(v.Recent, func(m model.MoveStatus) bool { return m.ID == w.ended }) // newest first
	if n < 0 {
		n = len(v.Recent)
	}
	for i := range slices.Backward(v.Recent[:n]) {
		s := &v.Recent[i]
		m := &s.Move
		e := model.Event{
			At: s.Ended, Kind: model.EventKind(m.Kind), VM: m.VM, VMName: m.VMName, VF: m.VF, Move: s.ID, Cause: m.Cause,
		}
		if m.Kind == model.MoveRepair {
			e.Text = m.Reason.Detail
		}
		if s.Error != "" {
			e.Kind, e.Alarm, e.Text = model.EventFailed, true, string(m.Kind)
			e.Cause = model.Cause{Kind: model.CauseFailure, Detail: s.Error}
		}
		w.add(e)
	}
	if len(v.Recent) > 0 {
		w.ended = v.Recent[0].ID
	}
}

// shortages tells who lacks what is promised on each link.
func (w *Watcher) shortages(v *model.View) {
	now := v.Snapshot.Time
	if v.Bandwidth != nil {
		for i := range v.Bandwidth.Links {
			l := &v.Bandwidth.Links[i]
			if l.Shortage == nil {
				continue
			}
			is, before := w.short[l.PF]
			is.seen, is.about = now, union(is.about, parties(v.Bandwidth, l))
			if !before {
				w.add(model.Event{
					At: now, Kind: model.EventShort, About: is.about, Text: l.Shortage.Text, Alarm: true,
					Cause: model.Cause{Kind: model.CauseTaker, PF: l.PF, Detail: l.Shortage.Text},
				})
			}
			w.short[l.PF] = is
		}
	}
	for _, pf := range slices.Sorted(maps.Keys(w.short)) {
		is := w.short[pf]
		if now.Sub(is.seen) >= shortOver {
			delete(w.short, pf)
			w.add(model.Event{
				At: is.seen, Kind: model.EventShortEnd, About: is.about, Text: "all that is promised on " + pf + " is kept again",
				Cause: model.Cause{Kind: model.CauseTaker, PF: pf},
			})
		}
	}
}

// parties are the VMs that lack what they are promised on a link, and those that have it instead.
func parties(b *model.Bandwidth, l *model.LinkState) (list []model.Party) {
	for _, nics := range [][]model.NICBandwidth{b.NICs, b.VirtualPFs} {
		for i := range nics {
			if n := &nics[i]; n.Short > 0 && n.PF == l.PF {
				list = append(list, model.Party{VM: n.VM, VMName: n.VMName})
			}
		}
	}
	for i := range l.Shortage.Takers {
		if t := &l.Shortage.Takers[i]; t.VM != "" {
			list = append(list, model.Party{VM: t.VM, VMName: t.VMName})
		}
	}
	return union(nil, list)
}

// union returns a new list of all in either, each once, in their order.
func union(a, b []model.Party) []model.Party {
	all := slices.Clone(a)
	for _, p := range b {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// doctor tells what doctor lists and did not list before. Moves that failed and guarantees that are short are told as such.
func (w *Watcher) doctor(v *model.View) {
	now := v.Snapshot.Time
	if now.Equal(w.examined) {
		return
	}
	first := w.problems == nil // what the first View shows is not news
	if first {
		w.problems = map[string]*problem{}
	}
	w.examined = now
	for _, p := range w.listed(v) {
		key := p.Subject + " " + figures.ReplaceAllString(p.Text, "${1}#")
		is := w.problems[key]
		if is == nil && w.links[p.Subject].Kind != "" {
			continue // told as a link that is down
		}
		if is == nil {
			e := model.Event{
				At: now, Kind: model.EventProblem, Text: p.Text, Alarm: true, Cause: model.Cause{Kind: model.CauseProblem, Detail: p.Text},
			}
			if i := slices.IndexFunc(v.Snapshot.VMs, func(vm model.VM) bool { return vm.Name == p.Subject }); i >= 0 {
				e.VM, e.VMName = v.Snapshot.VMs[i].ID, p.Subject
			} else if p.Subject != "" {
				e.Text = p.Subject + ": " + p.Text
			}
			is = &problem{event: e}
			w.problems[key] = is
			if !first {
				w.add(e)
			}
		}
		is.seen = now
	}
	for _, key := range slices.Sorted(maps.Keys(w.problems)) {
		is := w.problems[key]
		if now.Sub(is.seen) < solvedAfter {
			continue
		}
		delete(w.problems, key)
		e := is.event
		e.At, e.Kind, e.Alarm = is.seen, model.EventSolved, false
		w.add(e)
	}
}

// listed returns the problems of the Snapshot, and those of SLAs but the shortages, that are not for information only.
func (w *Watcher) listed(v *model.View) []model.Problem {
	list := v.Snapshot.Problems
	if w.Examine != nil {
		list = w.Examine(v.Snapshot)
	}
	if v.Bandwidth == nil {
		return without(list, nil)
	}
	return without(slices.Concat(list, v.Bandwidth.Problems), v.Bandwidth.Links)
}

func without(list []model.Problem, links []model.LinkState) []model.Problem {
	return slices.DeleteFunc(slices.Clone(list), func(p model.Problem) bool {
		return p.Info || slices.ContainsFunc(links, func(l model.LinkState) bool {
			return l.Shortage != nil && l.PF == p.Subject && l.Shortage.Text == p.Text
		})
	})
}

// figures are what a problem's text may change in while it is the same problem. Numbers in names are none.
var figures = regexp.MustCompile(`(^|[\s(])[0-9]+(?:\.[0-9]+)?`)
