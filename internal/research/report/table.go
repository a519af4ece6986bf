package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/internal/base/input"
	"sluice/internal/model"
	"sluice/internal/research/scenario"
)

// Table prints a comparison for people.
func Table(w io.Writer, r *scenario.Result) error {
	p := &writer{w: w}
	if r.Text != "" {
		p.printf("%s\n", lines(r.Text))
	}
	p.printf("%s\n\n", Summary(r))
	if r.Guaranteed != nil {
		guarantees(p, r)
		return p.err
	}
	scores(p, r)
	p.printf("\n%s", legend(r))
	for i := range r.Policies {
		phases(p, r, &r.Policies[i])
	}
	return p.err
}

// Summary returns one line about what was run.
func Summary(r *scenario.Result) string {
	s := fmt.Sprintf("%s, %s, %s at %s", model.Plural(r.VMs, "VM"), model.Plural(r.VFs, "VF"), model.Span(r.Duration), r.Sample)
	if r.Hosts > 1 {
		s = fmt.Sprintf("%d hosts of %s", r.Hosts, s)
	}
	return fmt.Sprintf("%s, seed %d", s, r.Seed)
}

// scores prints a line for each policy and one for each optimum.
func scores(p *writer, r *scenario.Result) {
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) }
	row("POLICY", "GROSS", "NET", "MOVES/H/VM", "MOST", "ON VF", "WORST VM", "HAS", "COULD")
	for i := range r.Policies {
		o := &r.Policies[i]
		gross, net := "-", "-"
		if r.Optimum != nil {
			gross, net = percent(o.Gross), percent(o.Net)
		}
		w := worstOf(r, o)
		row(input.Printable(o.Label), gross, net, rate(o.MovesPerHour), rate(o.Busiest.PlugRate), percent(100*o.OnVF), w.VM, w.Has, w.Could)
	}
	for _, b := range optima(r) {
		row(b.Name, percent(b.Gross), percent(b.Net), rate(b.MovesPerHour), "", "", "", "", "")
	}
}

// worst is what is shown about the VM that lost most.
type worst struct{ VM, Has, Could string }

// worstOf returns the VM that lost most under a policy, unless the policy lost almost nothing: then the choice among VMs with equal loads
// would be arbitrary.
func worstOf(r *scenario.Result, o *scenario.Outcome) worst {
	const little = 0.1 // percent
	if r.Optimum == nil || o.Net > 100-little {
		return worst{"-", "-", "-"}
	}
	return worst{input.Printable(o.Worst.VM), percent(100 * o.Worst.Carried), percent(100 * o.Worst.Best)}
}

// optimum is what is shown about a best placement.
type optimum struct {
	Name                     string
	Gross, Net, MovesPerHour float64
}

// optima returns the best placements, none if they were not computed.
func optima(r *scenario.Result) []optimum {
	if r.Optimum == nil {
		return nil
	}
	var out []optimum
	hours := r.Duration.Hours() * float64(r.VMs*r.Hosts)
	for _, b := range []struct {
		name string
		best *scenario.BestStat
	}{{"optimum, moves charged", &r.Optimum.Charged}, {"optimum, moves free", &r.Optimum.Free}} {
		out = append(out, optimum{
			Name: b.name, Gross: 100 * ratio(b.best.Benefit, r.Optimum.Free.Value),
			Net:          100 * ratio(b.best.Benefit-r.Charge.Risk*float64(b.best.Moves), r.Optimum.Charged.Value),
			MovesPerHour: float64(b.best.Moves) / hours,
		})
	}
	return out
}

func legend(r *scenario.Result) string {
	s := fmt.Sprintf(`GROSS: packets carried by VFs, as a share of what the best placement with free moves carries.
NET: the same less %s packets for each move, as a share of the best placement at this price.
MOVES/H/VM: plugs beyond the first of each VF. MOST: plugs per hour of the VM with most.
WORST VM: the one that lost most against the best placement. HAS: the share of its packets that a
VF carried. COULD: the share that a VF could have carried. All -: the policy lost less than 0.1 %%.
`, model.SIDigits(r.Charge.Risk, 4))
	if r.Worth {
		s += "Packets count by their value, from the VM's latency sensitivity and the host's CPU time.\n"
	}
	if len(learnedRows(r)) > 0 {
		s += `LEARNED OF: what a policy knew about bursts at the end of the time: of how many VMs of a group, how
long their bursts and the time between them last (medians of these VMs), and how many bursts it saw
from start to end.
`
	}
	if o := r.Optimum; o != nil && o.Resolution > r.Sample {
		s += fmt.Sprintf("The best placement is found on rates averaged over %s.\n", o.Resolution)
	}
	if o := r.Optimum; o != nil && o.Charged.Upper > o.Charged.Value*1.0005 {
		better := 100 * (o.Charged.Upper/o.Charged.Value - 1)
		s += fmt.Sprintf("It was searched window by window: the true optimum is at most %.2f %% better.\n", better)
	}
	return s
}

// phases prints a policy's phases if the scenario asks for it.
func phases(p *writer, r *scenario.Result, o *scenario.Outcome) {
	from := time.Duration(0)
	for i := range o.Phases {
		ph := &o.Phases[i]
		known := learnedIn(o, i)
		if len(ph.Groups) > 0 || len(ph.Scores) > 0 || len(known) > 0 || r.ShowHolders {
			p.printf("\n%s, %s to %s\n", input.Printable(o.Label), model.Span(from), model.Span(ph.Until))
		}
		from = ph.Until
		if r.ShowHolders {
			p.printf("holders: %s\n", cmp.Or(input.Printable(strings.Join(ph.Holders, " ")), "none"))
		}
		groups(p, ph)
		learned(p, known, len(ph.Learned))
		vmScores(p, ph)
	}
	together(p, o)
}

func groups(p *writer, ph *scenario.Phase) {
	if len(ph.Groups) == 0 {
		return
	}
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	defer t.Flush()
	_, _ = fmt.Fprintln(t, "GROUP\tVMS\tON VF\tPACKETS/S\tLEAST\tMOST\tMBIT/S"+waitHead(&ph.Groups[0]))
	for _, g := range ph.Groups {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%.0f\t%.0f\t%.0f\t%.1f", input.Printable(g.Group), g.VMs, percent(100*g.OnVF), g.PPS, g.Least, g.Most,
			g.Mbit)
		_, _ = fmt.Fprintln(t, waits(&g))
	}
}

// together prints a line for each phase about all VMs, as for the curve of a figure.
func together(p *writer, o *scenario.Outcome) {
	if len(o.Phases) == 0 || o.Phases[0].All == nil {
		return
	}
	p.printf("\n%s, all VMs together\n", input.Printable(o.Label))
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	defer t.Flush()
	_, _ = fmt.Fprintln(t, "UNTIL\tVMS\tON VF\tPACKETS/S\tMBIT/S"+waitHead(o.Phases[0].All))
	for _, ph := range o.Phases {
		g, n := ph.All, float64(ph.All.VMs)
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%.0f\t%.1f%s\n", model.Span(ph.Until), g.VMs, percent(100*g.OnVF), n*g.PPS, n*g.Mbit, waits(g))
	}
}

// waitHead returns the column heads for waits.
func waitHead(g *scenario.GroupStat) string {
	head := ""
	if len(g.Latency) > 0 {
		head += "\tLATENCY US: 5 %\t50 %\t95 %\tMEAN"
	}
	if g.Files != nil {
		head += "\tFILES\tSECONDS: 50 %\tMEAN\tMOST"
	}
	return head
}

// waits returns the latencies and file times of a group.
func waits(g *scenario.GroupStat) string {
	var b strings.Builder
	for _, l := range g.Latency {
		fmt.Fprintf(&b, "\t%.1f", float64(l))
	}
	if f := g.Files; f != nil {
		fmt.Fprintf(&b, "\t%d\t%.1f\t%.1f\t%.1f", f.Done, f.Median, f.Mean, f.Most)
	}
	return b.String()
}

func vmScores(p *writer, ph *scenario.Phase) {
	if len(ph.Scores) == 0 {
		return
	}
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	defer t.Flush()
	_, _ = fmt.Fprintln(t, "VM\tSCORE\tIO DEGREE\tVF")
	for _, s := range ph.Scores {
		io := "-"
		if s.IODegree > 0 {
			io = fmt.Sprintf("%.1f", s.IODegree)
		}
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\n", input.Printable(s.VM), s.Score, io, map[bool]string{true: "yes", false: "-"}[s.Hold])
	}
}

// lines makes text of several lines printable.
func lines(s string) string {
	list := strings.Split(s, "\n")
	for i := range list {
		list[i] = input.Printable(list[i])
	}
	return strings.Join(list, "\n")
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", x) }

func rate(x float64) string { return fmt.Sprintf("%.2f", x) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// writer remembers the first error of many writes.
type writer struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (p *writer) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	p.err = err
	return n, err
}

func (p *writer) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }
