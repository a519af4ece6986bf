package report

import (
	"cmp"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"sluice/internal/base/input"
	"sluice/internal/model"
	"sluice/internal/research/scenario"
)

// learnedIn returns what to show of a policy's knowledge at the end of a phase: nothing unless groups are shown or the run ends there, and
// of many groups those with most bursts seen.
func learnedIn(o *scenario.Outcome, phase int) []scenario.LearnedStat {
	ph := &o.Phases[phase]
	if len(ph.Groups) == 0 && phase < len(o.Phases)-1 {
		return nil
	}
	if len(ph.Learned) <= mostNamed {
		return ph.Learned
	}
	list := slices.Clone(ph.Learned)
	slices.SortStableFunc(list, func(a, b scenario.LearnedStat) int { return cmp.Compare(b.Seen, a.Seen) })
	return list[:mostNamed]
}

// learned prints such a list, of so many groups in all.
func learned(p *writer, list []scenario.LearnedStat, all int) {
	if len(list) == 0 {
		return
	}
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "LEARNED OF\tVMS\tKNOWN\tBURST\tBETWEEN\tSEEN")
	for i := range list {
		l := &list[i]
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%d\n", input.Printable(l.Group), l.VMs, l.Known, model.Lasting(l.Burst),
			model.Lasting(l.Between), l.Seen)
	}
	_ = t.Flush()
	if more := all - len(list); more > 0 {
		p.printf("and of %s more: see -o json\n", model.Plural(more, "group"))
	}
}

// learnedRow is a line of the page's table.
type learnedRow struct {
	Policy string
	Until  time.Duration
	scenario.LearnedStat
}

// learnedRows lists what all policies had learned.
func learnedRows(r *scenario.Result) []learnedRow {
	var rows []learnedRow
	for i := range r.Policies {
		o := &r.Policies[i]
		for k := range o.Phases {
			for _, l := range learnedIn(o, k) {
				rows = append(rows, learnedRow{Policy: o.Label, Until: o.Phases[k].Until, LearnedStat: l})
			}
		}
	}
	return rows
}
