package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"sluice/internal/model"
	"sluice/internal/research/published"
	"sluice/internal/research/reproduce"
)

//go:embed reproduce.html
var reproducedText string

var reproducedPage = newPage("reproduce", reproducedText, template.FuncMap{
	"ours": ours, "stated": stated, "tolerance": tolerance, "remarks": remarks, "number": published.Number,
	"short": func(x float64) string { return published.Digits(x, 4) },
	"first": func(list []drawnFigure, i int) bool { return i == 0 || list[i-1].Paper != list[i].Paper },
})

// drawnFigure is a figure with its plots.
type drawnFigure struct {
	*reproduce.Outcome
	Plots []template.HTML // published, and ours
}

// ReproducedHTML writes a self-contained page with the papers' plots redrawn beside ours.
func ReproducedHTML(w io.Writer, list []*reproduce.Outcome, about About) error {
	d := struct {
		About   About
		Verdict string
		Figures []drawnFigure
		Counts  []Count
		Legend  string
	}{About: about, Verdict: reproducedVerdict(list), Counts: Counts(list), Legend: reproducedLegend}
	for _, x := range list {
		f := drawnFigure{Outcome: x}
		if x.Figure.Y != "" {
			var err error
			if f.Plots, err = beside(x); err != nil {
				return fmt.Errorf("%s, %s: %w", x.Paper.Name, x.Figure.Name, err)
			}
		}
		d.Figures = append(d.Figures, f)
	}
	return reproducedPage.Execute(w, &d)
}

// statement is a published point of a series.
type statement struct{ at, low, high float64 }

// line is what is drawn of a series: ours, and what is published.
type line struct {
	name      string
	ours      reproduce.Curve
	published []statement
}

// linesOf gathers the series of a figure in their order.
func linesOf(x *reproduce.Outcome) (out []line) {
	find := func(name string) *line {
		i := slices.IndexFunc(out, func(l line) bool { return l.name == name })
		if i < 0 {
			out, i = append(out, line{name: name}), len(out)
		}
		return &out[i]
	}
	for _, c := range x.Curves {
		find(c.Series).ours = c
	}
	for i := range x.Rows {
		r := &x.Rows[i]
		if r.Point.Series == "" {
			continue
		}
		l := find(r.Point.Series)
		l.published = append(l.published, statement{r.Point.At, r.Point.Paper.Low, r.Point.Paper.High})
		if !slices.ContainsFunc(x.Curves, func(c reproduce.Curve) bool { return c.Series == l.name }) {
			l.ours.X, l.ours.Y = append(l.ours.X, r.Point.At), append(l.ours.Y, r.Ours.Number)
		}
	}
	return out
}

// reproducedVerdict counts the experiments that come out.
func reproducedVerdict(list []*reproduce.Outcome) string {
	all := Counts(list)[len(Counts(list))-1]
	s := fmt.Sprintf("Of %s, %d can be run here: %d come out (%d of these by what was fitted to them) and %d do not, each with the reason.",
		model.Plural(all.Experiments, "experiment"), all.Experiments-all.OutOfScope, all.Derived+all.Fitted, all.Fitted, all.Contradicted)
	if n := reproduce.Unexpected(list); n > 0 {
		s += fmt.Sprintf(" %s not as said here.", map[bool]string{true: "One point is", false: fmt.Sprint(n, " points are")}[n == 1])
	}
	return s
}

// beside draws what is published, and ours on the same axes.
func beside(x *reproduce.Outcome) (out []template.HTML, err error) {
	lines := linesOf(x)
	left, right := panelOf(x, "published"), panelOf(x, "ours")
	if !slices.ContainsFunc(lines, func(l line) bool { return len(l.published) > 0 }) {
		left.Title.Text = "published: no numbers in the text"
	}
	frame(x.Figure, lines, left, right)
	for i, l := range lines {
		if err := drawOurs(x.Figure, right, &l, i, len(lines)); err != nil {
			return nil, err
		}
		if err := drawPublished(x.Figure, left, &l, i, len(lines)); err != nil {
			return nil, err
		}
	}
	for _, p := range []*plot.Plot{left, right} {
		c := vgsvg.New(380, 240)
		p.Draw(draw.Crop(draw.New(c), 0, -12, 0, -4)) // room for the last tick's label
		svg, err := element(c)
		if err != nil {
			return nil, err
		}
		out = append(out, svg)
	}
	return out, nil
}

func panelOf(x *reproduce.Outcome, title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x.Figure.X, x.Figure.Y
	plain(p)
	p.Title.TextStyle.Font.Variant, p.Title.TextStyle.Font.Size = "Sans", 10
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	if len(x.Figure.Bars) > 0 {
		p.NominalX(x.Figure.Bars...)
	} else {
		p.X.Tick.Marker = siTicks{}
	}
	p.Y.Tick.Marker = siTicks{}
	return p
}

// frame gives both plots the same axes, with room for the legend on top.
func frame(f *published.Figure, lines []line, plots ...*plot.Plot) {
	low, high, top := math.Inf(1), math.Inf(-1), 0.0
	see := func(x, y float64) {
		low, high = min(low, x), max(high, x)
		if !math.IsInf(y, 0) {
			top = max(top, y)
		}
	}
	for _, l := range lines {
		for i := range l.ours.X {
			see(l.ours.X[i], l.ours.Y[i])
		}
		for _, s := range l.published {
			see(s.at, s.low)
			see(s.at, s.high)
		}
	}
	if len(f.Bars) > 0 {
		low, high = -0.6, float64(len(f.Bars))-0.4
	} else {
		pad := 0.04 * (high - low)
		low, high = low-pad, high+pad
	}
	for _, p := range plots {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, high, 0, legendRoom(len(lines))*max(top, 1e-9)
	}
}

// legendRoom is the height of a plot with so many lines, as a multiple of what it shows: the legend is on top.
func legendRoom(lines int) float64 { return 1.15 + 0.08*float64(lines-1) }

// offset returns where the bar of a series is, beside those of the other series, and its width.
func offset(i, n int) (at, wide float64) {
	wide = 0.8 / float64(n)
	return (float64(i) - float64(n-1)/2) * wide, wide
}

// block is a bar, or the range of one.
func block(x, low, high, wide float64, c color.Color) (*plotter.Polygon, error) {
	left, right := x-wide/2, x+wide/2
	b, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
	if err != nil {
		return nil, err
	}
	b.Color, b.Width = c, 0
	return b, nil
}

// tint returns a light shade of a colour, opaque as all others.
func tint(c color.RGBA) color.RGBA {
	light := func(x uint8) uint8 { return uint8((int(x) + 2*255) / 3) } //nolint:gosec // at most 255
	return color.RGBA{light(c.R), light(c.G), light(c.B), 255}
}

func drawOurs(f *published.Figure, p *plot.Plot, l *line, i, n int) error {
	if len(f.Bars) == 0 {
		return curve(p, l.name, l.ours.X, l.ours.Y, i)
	}
	for k := range l.ours.X {
		at, wide := offset(i, n)
		b, err := block(l.ours.X[k]+at, 0, l.ours.Y[k], 0.9*wide, colour(i))
		if err != nil {
			return err
		}
		p.Add(b)
		if k == 0 {
			p.Legend.Add(l.name, b)
		}
	}
	return nil
}

// curve draws a line with a mark at each point.
func curve(p *plot.Plot, name string, x, y []float64, i int) error {
	pts := make(plotter.XYs, len(x))
	for k := range x {
		pts[k] = plotter.XY{X: x[k], Y: y[k]}
	}
	if len(pts) == 0 {
		return nil
	}
	l, marks, err := plotter.NewLinePoints(pts)
	if err != nil {
		return err
	}
	l.Color, l.Width = colour(i), 1.3
	marks.Color, marks.Radius, marks.Shape = colour(i), 2.4, draw.CircleGlyph{}
	p.Add(l, marks)
	p.Legend.Add(name, l, marks)
	return nil
}

func drawPublished(f *published.Figure, p *plot.Plot, l *line, i, n int) error {
	var x, y []float64
	for k, s := range l.published {
		low, high := s.low, s.high
		if low == high && len(f.Bars) == 0 {
			x, y = append(x, s.at), append(y, low)
			continue
		}
		at, wide := s.at, 0.012*(p.X.Max-p.X.Min)
		if len(f.Bars) > 0 {
			var shift float64
			shift, wide = offset(i, n)
			at, wide = at+shift, 0.9*wide
		}
		c := tint(colour(i)) // a range says less than a number
		if low == high {
			low, c = 0, colour(i)
		}
		b, err := block(at, max(low, 0), min(high, p.Y.Max/legendRoom(n)), wide, c)
		if err != nil {
			return err
		}
		p.Add(b)
		if k == 0 {
			p.Legend.Add(l.name, b)
		}
	}
	if len(x) == 0 {
		return nil
	}
	return curve(p, l.name, x, y, i)
}
