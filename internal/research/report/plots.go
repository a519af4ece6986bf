package report

import (
	"bytes"
	"cmp"
	"html/template"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"sluice/internal/model"
	"sluice/internal/research/scenario"
)

// colours are distinguishable in print and for most colour-blind readers (Okabe and Ito).
var colours = []color.RGBA{
	{0, 114, 178, 255},
	{213, 94, 0, 255},
	{0, 158, 115, 255},
	{204, 121, 167, 255},
	{86, 180, 233, 255},
	{230, 159, 0, 255},
	{110, 110, 110, 255},
	{148, 103, 30, 255},
}

func colour(i int) color.RGBA { return colours[i%len(colours)] }

const width = 600 // of plots that have a row of their own, in points: a phone shows their text in two thirds of its size

// render makes an SVG element of a plot.
func render(p *plot.Plot, height int) (template.HTML, error) {
	c := vgsvg.New(width, vg.Length(height))
	p.Draw(draw.Crop(draw.New(c), 0, -12, 0, 0)) // room for the last tick's label
	return element(c)
}

// element returns the SVG element of a canvas without the prolog, for use inside a page.
func element(c *vgsvg.Canvas) (template.HTML, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	svg := b.Bytes()
	svg = svg[max(0, bytes.Index(svg, []byte("<svg"))):]
	return template.HTML(svg), nil //nolint:gosec // gonum made it; names are escaped by it
}

// axes sets up the time axis that all plots share.
func axes(r *scenario.Result, title string) (*plot.Plot, float64) {
	p := plot.New()
	unit, name := timeUnit(r.Duration)
	p.X.Label.Text, p.Y.Label.Text = name, title
	p.X.Min, p.X.Max = 0, float64(r.Duration)/float64(unit)
	plain(p)
	return p, float64(unit)
}

// plain gives a plot the style that all share.
func plain(p *plot.Plot) {
	for _, s := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		s.Font.Variant, s.Font.Size = "Sans", 9
	}
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Color, p.Y.Color = color.Gray{150}, color.Gray{150}
}

func timeUnit(d time.Duration) (time.Duration, string) {
	switch {
	case d > 72*time.Hour:
		return 24 * time.Hour, "days"
	case d > 3*time.Hour:
		return time.Hour, "hours"
	case d > 3*time.Minute:
		return time.Minute, "minutes"
	}
	return time.Second, "seconds"
}

// lossPlot shows each policy's cumulative loss against the charged optimum.
func lossPlot(r *scenario.Result) (*plot.Plot, error) {
	if r.Optimum == nil {
		return nil, nil
	}
	p, unit := axes(r, "packets lost so far against the best placement")
	last := len(r.Plot.Curves) - 1
	best := r.Plot.Curves[last]
	for i, curve := range r.Plot.Curves[:last] {
		pts := plotter.XYs{{}}
		sum := 0.0
		for b := range curve {
			sum += best[b] - curve[b]
			pts = append(pts, plotter.XY{X: float64(r.Duration) / unit * float64(b+1) / float64(len(curve)), Y: sum})
		}
		l, err := plotter.NewLine(pts)
		if err != nil {
			return nil, err
		}
		l.Color, l.Width = colour(i), 1.3
		p.Add(l)
		p.Legend.Add(r.Plot.Names[i], l)
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(4)
	p.Y.Tick.Marker = siTicks{}
	return p, nil
}

// largest returns the indices of the n largest, largest first.
func largest(x []float64, n int) []int {
	out := make([]int, len(x))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	return out[:min(n, len(out))]
}

// siTicks labels an axis with k, M and G.
type siTicks struct{}

// Ticks implements plot.Ticker.
func (siTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = model.SIDigits(ticks[i].Value, 4)
		}
	}
	return ticks
}
