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
	"sluice/internal/research/scenario"
)

//go:embed bandwidth.html
var bandwidthText string

var bandwidthPage = newPage("bandwidth", bandwidthText, template.FuncMap{
	"percent": percent, "rate": rate, "span": model.Span, "bits": model.Bits,
})

// mostDrawn bounds the VMs whose rates are drawn.
const mostDrawn = 8

// panelHeight is the height of one VM's plot in points.
const panelHeight = 120

// keptPage is the data of the page.
type keptPage struct {
	*scenario.Result
	About   About
	Verdict string
	Summary string
	Legend  string
	Few     int // VMs drawn, of more; 0: all
	Plots   []drawing
}

// keptHTML writes a page with the rates of VMs over time under each allocator.
func keptHTML(w io.Writer, r *scenario.Result, about About) error {
	d := keptPage{Result: r, About: about, Verdict: keptVerdict(r.Guaranteed), Summary: Summary(r), Legend: keptLegend}
	g := r.Guaranteed
	rows := drawn(g, mostDrawn)
	if len(rows) < len(g.Allocators[0].VMs) {
		d.Few = len(rows)
	}
	top := highest(g, rows)
	for i := range g.Allocators {
		svg, err := panels(r, &g.Allocators[i], rows, top)
		if err != nil {
			return err
		}
		d.Plots = append(d.Plots, drawing{
			Title: fmt.Sprintf("%s, every %s", g.Allocators[i].Label, model.Span(g.Allocators[i].Period)),
			SVG:   svg,
		})
	}
	return bandwidthPage.Execute(w, &d)
}

// highest returns the top of each VM's axis, the same under all allocators so that they can be compared.
func highest(g *scenario.Guaranteed, rows []int) []float64 {
	top := make([]float64, len(rows))
	for a := range g.Allocators {
		p := g.Allocators[a].Plot
		for k, i := range rows {
			for b := range p.Sent[i] {
				top[k] = max(top[k], 1.15*p.Sent[i][b], 1.15*p.Promised[i][b])
			}
		}
	}
	return top
}

// panels draws the rates of VMs below each other on a common time axis.
func panels(r *scenario.Result, k *scenario.Kept, rows []int, top []float64) (template.HTML, error) {
	plots := make([][]*plot.Plot, len(rows))
	for n, i := range rows {
		p, err := panel(r, k.Plot, i, top[n])
		if err != nil {
			return "", err
		}
		if n < len(rows)-1 {
			p.X.Label.Text, p.X.Tick.Marker = "", unlabelled{}
		}
		plots[n] = []*plot.Plot{p}
	}
	c := vgsvg.New(width, vg.Length(panelHeight*len(rows)+20))
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: 6, PadRight: 12}
	for n, row := range plot.Align(plots, tiles, draw.New(c)) {
		plots[n][0].Draw(row[0])
	}
	return element(c)
}

// unlabelled are the usual ticks without their labels.
type unlabelled struct{}

// Ticks implements plot.Ticker.
func (unlabelled) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		ticks[i].Label = ""
	}
	return ticks
}

// The colours of the plots. All are opaque, because the SVG canvas writes the premultiplied channels of others wrongly.
var (
	demandColour   = color.RGBA{226, 226, 226, 255}
	sentColour     = color.RGBA{0, 114, 178, 255}
	allowedColour  = color.RGBA{230, 159, 0, 255}
	promisedColour = color.RGBA{60, 60, 60, 255}
	shortColour    = color.RGBA{213, 60, 40, 255}
)

// panel draws one VM's demand, allowance, rate and shortfall.
func panel(r *scenario.Result, b *scenario.BandwidthPlot, vm int, top float64) (*plot.Plot, error) {
	p, unit := axes(r, b.VMs[vm])
	p.Y.Min, p.Y.Max = 0, max(top, 1)
	p.Y.Tick.Marker = siTicks{}
	at := func(bin int) float64 {
		return float64(r.Duration) / unit * float64(bin*binsPerStep) / float64(len(b.Sent[vm]))
	}
	sent, due := coarse(b.Sent[vm]), coarse(b.Promised[vm])
	want := coarse(b.Want[vm])
	for i := range want {
		want[i] = min(want[i], p.Y.Max)
	}
	if err := area(p, at, make([]float64, len(want)), want, demandColour); err != nil {
		return nil, err
	}
	if err := area(p, at, sent, upTo(due, sent), shortColour); err != nil {
		return nil, err
	}
	for _, l := range []struct {
		rates  []float64
		colour color.RGBA
		dashes []vg.Length
	}{
		{coarse(b.Allowed[vm]), allowedColour, nil},
		{promised(due), promisedColour, []vg.Length{4, 3}},
		{sent, sentColour, nil},
	} {
		if err := steps(p, at, l.rates, l.colour, l.dashes); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// promised returns what a VM is promised while it asks for it; nil for a VM without a guarantee, whose line would coincide with the axis.
func promised(rates []float64) []float64 {
	if slices.Max(rates) > 0 {
		return rates
	}
	return nil
}

// upTo returns what is promised where that is noticeably more than what is sent, elsewhere what is sent.
func upTo(promised, sent []float64) []float64 {
	out := slices.Clone(sent)
	for i := range out {
		if promised[i] > 1.01*sent[i] {
			out[i] = promised[i]
		}
	}
	return out
}

// binsPerStep is how many bins become one in a plot: more would be finer than a screen shows, and make pages of megabytes.
const binsPerStep = 2

// coarse returns the means of neighbouring bins. A bin without a limit (NaN) counts only if its neighbour has none either.
func coarse(rates []float64) []float64 {
	out := make([]float64, 0, len(rates)/binsPerStep+1)
	for part := range slices.Chunk(rates, binsPerStep) {
		sum, n := 0.0, 0
		for _, x := range part {
			if !math.IsNaN(x) {
				sum, n = sum+x, n+1
			}
		}
		out = append(out, sum/float64(n))
	}
	return out
}

// area fills what is between two rates, bin by bin, with one polygon for each stretch in which they differ.
func area(p *plot.Plot, at func(int) float64, low, high []float64, c color.RGBA) error {
	for from := 0; from < len(low); {
		to := from
		for to < len(low) && high[to] > low[to] {
			to++
		}
		if to > from {
			pts := outline(at, high, from, to)
			under := outline(at, low, from, to)
			slices.Reverse(under)
			a, err := plotter.NewPolygon(append(pts, under...))
			if err != nil {
				return err
			}
			a.Width, a.Color = 0, c
			p.Add(a)
		}
		from = to + 1
	}
	return nil
}

// outline returns the corners of a rate in some bins; equal neighbours share one step.
func outline(at func(int) float64, rates []float64, from, to int) (pts plotter.XYs) {
	for i := from; i < to; i++ {
		if n := len(pts); i > from && rates[i] == rates[i-1] {
			pts[n-1].X = at(i + 1)
			continue
		}
		pts = append(pts, plotter.XY{X: at(i), Y: rates[i]}, plotter.XY{X: at(i + 1), Y: rates[i]})
	}
	return pts
}

// steps draws a rate, bin by bin, where it is within the plot and not NaN.
func steps(p *plot.Plot, at func(int) float64, rates []float64, c color.RGBA, dashes []vg.Length) error {
	for from := 0; from < len(rates); {
		to := from
		for to < len(rates) && rates[to] <= p.Y.Max { // not of NaN
			to++
		}
		if to > from {
			l, err := plotter.NewLine(outline(at, rates, from, to))
			if err != nil {
				return err
			}
			l.Color, l.Width, l.Dashes = c, 1.1, dashes
			p.Add(l)
		}
		from = to + 1
	}
	return nil
}
