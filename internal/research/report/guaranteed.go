package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/internal/base/input"
	"sluice/internal/model"
	"sluice/internal/research/scenario"
)

// mostNamed bounds the VMs that the table lists individually; more are listed by group.
const mostNamed = 12

// guarantees prints a comparison of allocators: a line for each allocator, then a line for each VM.
func guarantees(p *writer, r *scenario.Result) {
	g := r.Guaranteed
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "ALLOCATOR\tPERIOD\tSATISFIED\tSHORT\tUTILISATION\tCHANGES/S/VM\tRECOVERY\tNEVER")
	for i := range g.Allocators {
		k := &g.Allocators[i]
		satisfied, short, recovery := "-", "-", "-"
		if g.Promised {
			satisfied, short, recovery = percent(k.Satisfied), model.Bits(k.Shortfall), model.Span(k.Recovery.Round(10*time.Millisecond))
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", input.Printable(k.Label), model.Span(k.Period), satisfied, short,
			percent(k.Utilisation), rate(k.Changes), recovery, k.Never)
	}
	_ = t.Flush()
	p.printf("\n")
	rows := rowsBy(g, r.Duration)
	head := "VM\tGUARANTEED\tIDEAL"
	for i := range g.Allocators {
		head += "\t" + input.Printable(g.Allocators[i].Label)
	}
	t = tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, head)
	for _, row := range rows {
		promised := "-"
		if row.guarantee > 0 {
			promised = model.Rate{Bits: row.guarantee}.String()
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s", input.Printable(row.name), promised, model.Bits(row.ideal))
		for _, c := range row.cells {
			s := model.Bits(c.rate)
			if row.guarantee > 0 {
				s += fmt.Sprintf(" (%s)%s", percent(c.satisfied), lacking(c.short))
			}
			_, _ = fmt.Fprintf(t, "\t%s", s)
		}
		_, _ = fmt.Fprintln(t)
	}
	_ = t.Flush()
	p.printf("\n%s", keptLegend)
}

const keptLegend = `SATISFIED: the share of the windows of 200 ms with demand under a guarantee in which the VM had 95 %
of what it was promised. SHORT: by how many bits promises were missed in all. UTILISATION: bits
carried, as a share of what an ideal allocator carries that knows all demands. CHANGES/S/VM: changes
of limits. RECOVERY: the longest time from when a VM began to send until it had what it was promised;
NEVER: how often it stopped, or the run ended, before that. For each VM: its mean rate, how often it
was satisfied, and by how much its mean rate was short of what it was promised; IDEAL: its rate under
the ideal allocator. A VM with a virtual PF: all its functions together, then each of them.
`

// keptRow is a VM, or a group, with a cell for each allocator.
type keptRow struct {
	name      string
	guarantee uint64
	ideal     float64
	cells     []keptCell
}

type keptCell struct{ rate, satisfied, short float64 }

// lacking returns the mean rate of a shortfall, for people; empty if negligible.
func lacking(short float64) string {
	if short < 1e6 {
		return ""
	}
	return ", " + model.Bits(short) + " short"
}

// rowsBy lists VMs, or groups with their total rates if there are many VMs.
func rowsBy(g *scenario.Guaranteed, length time.Duration) []keptRow {
	var rows []keptRow
	byName := map[string]int{}
	s, members := length.Seconds(), map[string]int{}
	for a := range g.Allocators {
		k := &g.Allocators[a]
		for i := range k.VMs {
			v := &k.VMs[i]
			name := v.Name()
			if len(k.VMs) > mostNamed {
				name = v.Group
			}
			at, ok := byName[name]
			if !ok {
				at = len(rows)
				byName[name] = at
				rows = append(rows, keptRow{name: name, guarantee: v.Guarantee, cells: make([]keptCell, len(g.Allocators))})
			}
			if a == 0 {
				rows[at].ideal += v.Ideal / s
				members[name]++
			}
			rows[at].cells[a].rate += v.Sent / s
			rows[at].cells[a].satisfied += v.Satisfied
			rows[at].cells[a].short += v.Shortfall / s
		}
	}
	for i := range rows {
		n := members[rows[i].name]
		for a := range rows[i].cells {
			rows[i].cells[a].satisfied /= float64(n)
		}
		if n > 1 {
			rows[i].name = fmt.Sprintf("%s (%d)", strings.TrimSuffix(rows[i].name, "-"), n)
		}
	}
	return rows
}

// keptCSV writes one row for each allocator, with an empty VM, and one for each of its VMs.
func keptCSV(w io.Writer, r *scenario.Result) error {
	rows := [][]string{{
		"allocator", "period_s", "vm", "guarantee_bits_s", "satisfied_percent", "short_bits", "sent_bits", "ideal_bits",
		"utilisation_percent", "changes_s_vm", "recovery_s", "never_recovered",
	}}
	for i := range r.Guaranteed.Allocators {
		k := &r.Guaranteed.Allocators[i]
		period := number(k.Period.Seconds())
		sent, best := 0.0, 0.0
		for j := range k.VMs {
			if k.VMs[j].Function == "" {
				sent, best = sent+k.VMs[j].Sent, best+k.VMs[j].Ideal
			}
		}
		rows = append(rows, []string{
			input.Cell(k.Label), period, "", "", number(k.Satisfied), number(k.Shortfall), number(sent), number(best),
			number(k.Utilisation), number(k.Changes), number(k.Recovery.Seconds()), fmt.Sprint(k.Never),
		})
		for j := range k.VMs {
			v := &k.VMs[j]
			rows = append(rows, []string{
				input.Cell(k.Label), period, input.Cell(v.Name()), fmt.Sprint(v.Guarantee), number(v.Satisfied),
				number(v.Shortfall), number(v.Sent), number(v.Ideal), "", "", "", "",
			})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// drawn returns the VMs to draw in their usual order: those with guarantees and the largest shortfall under any allocator, then those that
// sent most.
func drawn(g *scenario.Guaranteed, most int) []int {
	worth := make([]float64, len(g.Allocators[0].VMs))
	for a := range g.Allocators {
		for i := range g.Allocators[a].VMs {
			v := &g.Allocators[a].VMs[i]
			worth[i] = max(worth[i], v.Sent)
			if v.Guarantee > 0 {
				worth[i] = max(worth[i], 1e18+v.Shortfall)
			}
		}
	}
	rows := largest(worth, most)
	slices.Sort(rows)
	return rows
}
