// Package reproduce runs the experiments of the five papers that this software implements, and compares what comes out with what is
// published (package published). Printing is package report's.
//
// # How to add an experiment
//
// There is one file per paper, in both packages. In published, add a Figure with its Points to the paper's list. Here, add an Experiment
// of the same name to the paper's list, which registry names: Run returns a Measured with a value for every point, by the point's name,
// and may add curves to draw. If the paper leaves something open that the conclusion may hang on, add a Sweep. TestExperiments then holds
// the run to every point: a derived or fitted point must come out within its tolerance, a contradicted one must not. A figure without an
// Experiment must say why (Figure.Outside).
package reproduce

import (
	"context"
	"fmt"
	"slices"

	"sluice/internal/research/published"
)

// registry lists the experiments of each paper, by the paper's name.
var registry = map[string][]Experiment{
	"flexvf": flexvf,
	"vnraf":  vnraf,
	"daqs":   daqs,
	"dba-vm": dbavm,
}

// Experiment runs what stands behind a figure.
type Experiment struct {
	Figure string // its name in package published
	Run    func(context.Context) (*Measured, error)
	Sweeps []Sweep
}

// Measured is what came out of a run.
type Measured struct {
	Values map[string]Value // by the name of the point
	Curves []Curve          // to draw; series that are missing here are drawn from Values
	Remark string           // what else came out, in a sentence
}

// Value is a number or words, as the published statement is.
type Value struct {
	Number float64
	Words  string
}

// Curve is a series of a plot.
type Curve struct {
	Series string    `json:"series"`
	X      []float64 `json:"x"`
	Y      []float64 `json:"y"`
}

// Verdict is what the comparison with a published point gave: a Status, or one of the two that fail.
type Verdict string

// The verdicts that fail.
const (
	Differs Verdict = "DIFFERS" // it should come out, but does not
	Agrees  Verdict = "AGREES"  // it comes out, although it is said to be contradicted
)

// Row is a point beside our value.
type Row struct {
	Point   *published.Point
	Ours    Value
	Verdict Verdict
	Why     string
}

// Outcome is a figure with what came out.
type Outcome struct {
	Paper  *published.Paper
	Figure *published.Figure
	Rows   []Row
	Curves []Curve
	Remark string
	Sweeps []Swept
}

// Options say what is run.
type Options struct {
	Paper, Figure string // names; unset: all
	Sweep         bool
	Progress      func(done float64, what string) // may be nil
}

// Run runs the experiments that the options select.
func Run(ctx context.Context, o Options) ([]*Outcome, error) {
	var out []*Outcome
	for _, p := range published.Papers() {
		if o.Paper != "" && o.Paper != p.Name {
			continue
		}
		for i := range p.Figures {
			if f := &p.Figures[i]; o.Figure == "" || o.Figure == f.Name {
				out = append(out, &Outcome{Paper: p, Figure: f})
			}
		}
	}
	for i, x := range out {
		if o.Progress != nil {
			o.Progress(float64(i)/float64(len(out)), x.Paper.Name+" "+x.Figure.Name)
		}
		if err := x.run(ctx, o.Sweep); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", x.Paper.Name, x.Figure.Name, err)
		}
	}
	return out, nil
}

// experiment returns the experiment behind the figure, nil if there is none.
func (x *Outcome) experiment() *Experiment {
	list := registry[x.Paper.Name]
	i := slices.IndexFunc(list, func(e Experiment) bool { return e.Figure == x.Figure.Name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func (x *Outcome) run(ctx context.Context, sweep bool) error {
	e := x.experiment()
	if e == nil {
		x.unmeasured()
		return nil
	}
	m, err := e.Run(ctx)
	if err != nil {
		return err
	}
	if err := x.compare(m); err != nil {
		return err
	}
	for i := range e.Sweeps {
		if !sweep {
			break
		}
		s, err := e.Sweeps[i].run(ctx)
		if err != nil {
			return err
		}
		x.Sweeps = append(x.Sweeps, s)
	}
	return nil
}

// unmeasured lists the points of a figure that is not run.
func (x *Outcome) unmeasured() {
	for i := range x.Figure.Points {
		x.Rows = append(x.Rows, Row{Point: &x.Figure.Points[i], Ours: Value{Words: "-"}, Verdict: Verdict(published.OutOfScope)})
	}
}

// compare puts our values beside the published ones.
func (x *Outcome) compare(m *Measured) error {
	why := ""
	for i := range x.Figure.Points {
		p := &x.Figure.Points[i]
		v, ok := m.Values[p.Name]
		if !ok {
			return fmt.Errorf("the run gives no value for %q", p.Name)
		}
		status := published.Derived
		if p.Status != "" {
			status = p.Status
		}
		switch {
		case p.Why != "":
			why = p.Why
		case status == published.Derived:
			why = ""
		}
		x.Rows = append(x.Rows, Row{Point: p, Ours: v, Verdict: judge(p, v, status), Why: why})
	}
	if len(m.Values) != len(x.Figure.Points) {
		return fmt.Errorf("the run gives %d values for %d points", len(m.Values), len(x.Figure.Points))
	}
	x.Curves, x.Remark = m.Curves, m.Remark
	return nil
}

// judge compares a value with a point.
func judge(p *published.Point, v Value, status published.Status) Verdict {
	comesOut := p.Paper.Words == v.Words
	if p.Paper.Words == "" {
		comesOut = p.Paper.Off(v.Number) <= p.Within
	}
	switch {
	case comesOut && status == published.Contradicted:
		return Agrees
	case !comesOut && status != published.Contradicted:
		return Differs
	}
	return Verdict(status)
}

// Status returns the worst status of the figure's points.
func (x *Outcome) Status() Verdict {
	worst := Verdict(published.OutOfScope)
	for _, v := range []Verdict{
		Verdict(published.Derived), Verdict(published.Fitted), Verdict(published.Contradicted), Differs, Agrees,
	} {
		if slices.ContainsFunc(x.Rows, func(r Row) bool { return r.Verdict == v }) {
			worst = v
		}
	}
	return worst
}

// Verdict returns the status in words: of how many points, if not of all.
func (x *Outcome) Verdict() string {
	status, n := x.Status(), 0
	for _, r := range x.Rows {
		if r.Verdict == status {
			n++
		}
	}
	if n == len(x.Rows) {
		return string(status)
	}
	return fmt.Sprintf("%s (%d of %d points)", status, n, len(x.Rows))
}

// Unexpected counts points that are not as they are said to be.
func Unexpected(list []*Outcome) (n int) {
	for _, x := range list {
		for _, r := range x.Rows {
			if r.Verdict == Differs || r.Verdict == Agrees {
				n++
			}
		}
	}
	return n
}
