package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// summaryEvery is the time between two summary lines, by the Views' own clock.
const summaryEvery = time.Minute

// liveLines converts Views to lines: one for every change of a verdict, one for every move that ends, and periodic
// summaries.
type liveLines struct {
	hold    map[model.VMID]bool // the last verdicts
	done    map[moveKey]bool    // ended moves of the last View that were already printed
	summary time.Time           // time of the last summary
}

// moveKey identifies a move.
type moveKey struct {
	vm      model.VMID
	vf      model.VFID
	kind    model.MoveKind
	started time.Time
}

// print prints the new lines for v.
func (l *liveLines) print(w io.Writer, v *model.View) {
	for _, text := range l.next(v) {
		fmt.Fprintln(w, text)
	}
}

// next returns the new lines for v.
func (l *liveLines) next(v *model.View) []string {
	if !answer.Observed(v) {
		return nil
	}
	lines := l.verdicts(v)
	lines = append(lines, l.moves(v)...)
	if now := v.Snapshot.Time; l.summary.IsZero() || now.Sub(l.summary) >= summaryEvery {
		l.summary = now
		lines = append(lines, summaryLine(v))
	}
	return lines
}

// verdicts reports changed verdicts. VMs that stay on virtio from the start are not reported, and of those that get a VF from the start for
// the same reason the first and the number of others.
func (l *liveLines) verdicts(v *model.View) []string {
	var lines []string
	if v.Target == nil {
		return nil
	}
	now := make(map[model.VMID]bool, len(v.Target.Reasons))
	like := alike{}
	for i := range v.Target.Reasons {
		r := &v.Target.Reasons[i]
		now[r.VM] = r.Hold
		if r.Hold == l.hold[r.VM] {
			continue
		}
		said := cmp.Or(answer.Sentence(v, r.VM, *r), string(r.VM)+" "+r.String())
		if vm := v.Snapshot.FindVM(r.VM); vm != nil && l.hold == nil {
			verdict, _, _ := strings.Cut(strings.TrimPrefix(said, vm.Name), ":")
			if like.repeats(verdict+string(r.Code), len(lines)) {
				continue
			}
		}
		lines = append(lines, fmt.Sprintf("%s decide %s", clock(v.Snapshot.Time), printable(said)))
	}
	like.tell(lines)
	l.hold = now
	return lines
}

// alike counts lines that would say the same, by what they say: the index of the first, and how many more there would be.
type alike map[string]struct{ first, more int }

// repeats reports whether there is a line that says the same, and counts it. Otherwise there will be one with this index.
func (a alike) repeats(what string, next int) bool {
	c, is := a[what]
	if is {
		c.more++
	} else {
		c.first = next
	}
	a[what] = c
	return is
}

// tell adds to each line how many more there would be.
func (a alike) tell(lines []string) {
	for _, c := range a {
		if c.more > 0 {
			lines[c.first] += fmt.Sprintf(", and %d more of the same kind", c.more)
		}
	}
}

// moves reports the moves that have ended, oldest first. Of similar repairs that ended together, as when a bridge gets all
// its filters, it reports the first and the number of others.
func (l *liveLines) moves(v *model.View) []string {
	var lines []string
	like := alike{}
	now := make(map[moveKey]bool, len(v.Recent))
	for i := range slices.Backward(v.Recent) {
		m := &v.Recent[i]
		key := moveKey{m.Move.VM, m.Move.VF, m.Move.Kind, m.Started}
		now[key] = true
		if l.done[key] {
			continue
		}
		if m.Move.Kind == model.MoveRepair && m.Error == "" && like.repeats(firstStep(m), len(lines)) {
			continue
		}
		report := answer.MoveOf(m)
		report.Steps = []string{firstStep(m)}
		lines = append(lines, moveLine(report))
	}
	like.tell(lines)
	l.done = now
	return lines
}

// firstStep returns the name of the first step of a move, "" if it has none.
func firstStep(m *model.MoveStatus) string {
	if len(m.Move.Steps) == 0 {
		return ""
	}
	return string(m.Move.Steps[0].Kind)
}

func summaryLine(v *model.View) string {
	s := answer.Summary(v, "", 0)
	return fmt.Sprintf("%s status %d of %d VFs held, %d VMs, %s packets/s (%s by VMs with a VF), "+
		"%d plugs, %d unplugs, %d failed, %d under way",
		clock(v.Snapshot.Time), s.VFs.Held, s.VFs.Total, s.VMs.Total, model.SI(s.Load.PPS), percent(s.Load.VFShare),
		s.Moves.Plugs, s.Moves.Unplugs, s.Moves.Failed, s.Moves.Active)
}
