package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/internal/research/published"
	"sluice/internal/research/reproduce"
)

// Reproduced prints published figures beside ours for people, and, if there is more than one paper, a table of all.
func Reproduced(w io.Writer, list []*reproduce.Outcome) error {
	p := &writer{w: w}
	for i, x := range list {
		if i == 0 || list[i-1].Paper != x.Paper {
			p.printf("%s: %s\n\n", x.Paper.System, x.Paper.About)
		}
		figure(p, x)
		p.printf("\n")
	}
	totals(p, list)
	return p.err
}

// figure prints one figure.
func figure(p *writer, x *reproduce.Outcome) {
	p.printf("%s: %s (%s): %s\n", x.Figure.Name, x.Figure.Title, x.Figure.Source, x.Verdict())
	if x.Figure.Assumes != "" {
		p.printf("%s\n", wrapped("  ", x.Figure.Assumes))
	}
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for i := range x.Rows {
		r := &x.Rows[i]
		if i == 0 {
			_, _ = fmt.Fprintln(t, "  POINT\tPUBLISHED\t±\tOURS\tUNIT\tVERDICT")
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", r.Point.Name, stated(r), tolerance(r), ours(r), r.Point.Unit, r.Verdict)
	}
	_ = t.Flush()
	for _, s := range remarks(x) {
		p.printf("%s\n", wrapped("  ", s))
	}
	for i := range x.Sweeps {
		swept(p, &x.Sweeps[i])
	}
}

// stated returns what is published of a point.
func stated(r *reproduce.Row) string {
	if r.Point.Reading {
		return r.Point.Paper.String() + "*"
	}
	return r.Point.Paper.String()
}

// tolerance returns how far our value of a point may be from what is published; "": it is not judged, or words are compared.
func tolerance(r *reproduce.Row) string {
	if r.Point.Paper.Words != "" || r.Verdict == reproduce.Verdict(published.OutOfScope) {
		return ""
	}
	return published.Number(r.Point.Within)
}

// reading explains the mark of stated.
const reading = "* The paper says it in words; the number is our reading of them."

// ours returns our value of a point.
func ours(r *reproduce.Row) string {
	if r.Ours.Words != "" || r.Point.Paper.Words != "" {
		return r.Ours.Words
	}
	return published.Digits(r.Ours.Number, 4)
}

// remarks returns why points are fitted or contradicted, or why the figure is not run, each reason once.
func remarks(x *reproduce.Outcome) (out []string) {
	if slices.ContainsFunc(x.Figure.Points, func(p published.Point) bool { return p.Reading }) {
		out = append(out, reading)
	}
	if x.Figure.Outside != "" {
		s := "Out of scope: " + x.Figure.Outside + "."
		if x.Figure.Measure != "" {
			s += " Measured by: " + x.Figure.Measure
		}
		return append(out, s)
	}
	seen := map[string]bool{}
	for i := range x.Rows {
		r := &x.Rows[i]
		if r.Why == "" {
			continue
		}
		s := r.Why + "."
		if r.Verdict != reproduce.Verdict(published.Derived) {
			s = string(r.Verdict) + ": " + s
		}
		if !seen[s] {
			seen[s] = true
			out = append(out, strings.ToUpper(s[:1])+s[1:])
		}
	}
	if x.Remark != "" {
		out = append(out, x.Remark)
	}
	return out
}

// swept prints one sweep.
func swept(p *writer, s *reproduce.Swept) {
	p.printf("%s\n", wrapped("  ", fmt.Sprintf("Left open: %s (ours: %s). That %s holds %s.", s.Open, s.Ours, s.Conclusion, s.Range())))
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	defer t.Flush()
	value := strings.TrimSpace("VALUE " + s.Unit)
	_, _ = fmt.Fprintf(t, "    %s\t%s\tHOLDS\n", value, s.Measures)
	for i, v := range s.Values {
		holds := map[bool]string{true: "yes", false: "no"}[s.Holds[i]]
		_, _ = fmt.Fprintf(t, "    %s\t%s\t%s\n", published.Number(v), published.Digits(s.Measured[i], 4), holds)
	}
}

// Count counts a paper's figures by what became of them.
type Count struct {
	System       string `json:"system"`
	Experiments  int    `json:"experiments"` // all of the following, and what failed
	Derived      int    `json:"derived"`
	Fitted       int    `json:"fitted"`
	Contradicted int    `json:"contradicted"`
	OutOfScope   int    `json:"out_of_scope"`
}

// Counts counts figures by paper; a total follows if there is more than one.
func Counts(list []*reproduce.Outcome) []Count {
	var out []Count
	all := Count{System: "all"}
	for i, x := range list {
		if i == 0 || list[i-1].Paper != x.Paper {
			out = append(out, Count{System: x.Paper.System})
		}
		for _, c := range []*Count{&out[len(out)-1], &all} {
			c.Experiments++
			switch published.Status(x.Status()) {
			case published.Derived:
				c.Derived++
			case published.Fitted:
				c.Fitted++
			case published.Contradicted:
				c.Contradicted++
			case published.OutOfScope:
				c.OutOfScope++
			}
		}
	}
	if len(out) > 1 {
		out = append(out, all)
	}
	return out
}

func totals(p *writer, list []*reproduce.Outcome) {
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "PAPER\tEXPERIMENTS\tDERIVED\tFITTED\tCONTRADICTED\tOUT OF SCOPE")
	for _, c := range Counts(list) {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\n", c.System, c.Experiments, c.Derived, c.Fitted, c.Contradicted, c.OutOfScope)
	}
	_ = t.Flush()
	p.printf("%s\n", wrapped("", reproducedLegend))
	if n := reproduce.Unexpected(list); n > 0 {
		p.printf("%d points are not as they are said to be.\n", n)
	}
}

const reproducedLegend = "±: how far ours may be from what is published. An experiment counts as the worst of its points. " +
	"Derived: what is published follows from the model. Fitted: it comes out because something was fitted to it. Contradicted: it does not " +
	"come out. Out of scope: it needs the authors' applications or hardware, or the lab."

// wrapped breaks a text into indented lines of at most 100 characters.
func wrapped(indent, text string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) >= 100 {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ")
}
