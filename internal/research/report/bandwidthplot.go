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

var bandwidthPage = template.Must(template.New("bandwidth").Funcs(template.FuncMap{
	"percent": percent, "rate": rate, "span": model.Span, "bits": model.Bits,
}).Parse(bandwidthText))

// mostDrawn bounds the VMs whose rates are drawn.
const mostDrawn = 8

// panelHeight is the height of one VM's plot in points.
const panelHeight = 120

// keptPage is the data of the page.
type keptPage struct {
	*scenario.Result
	Summary string
	Legend  string
	Few     int // VMs drawn, of more; 0: all
	Plots   []drawing
}

// keptHTML writes a page with the rates of VMs over time under each allocator.
func keptHTML(w io.Writer, r *scenario.Result) error {
	d := keptPage{Result: r, Summary: Summary(r), Legend: keptLegend}
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
	at := func(bin int) float64 { return float64(r.Duration) / unit * float64(bin) / float64(len(b.Sent[vm])) }
	want := make([]float64, len(b.Want[vm]))
	for i, x := range b.Want[vm] {
		want[i] = min(x, p.Y.Max)
	}
	demand, err := between(at, make([]float64, len(want)), want)
	if err != nil {
		return nil, err
	}
	demand.Color = demandColour
	short, err := between(at, b.Sent[vm], upTo(b.Promised[vm], b.Sent[vm]))
	if err != nil {
		return nil, err
	}
	short.Color = shortColour
	p.Add(demand, short)
	for _, l := range []struct {
		rates  []float64
		colour color.RGBA
		dashes []vg.Length
	}{
		{b.Allowed[vm], allowedColour, nil},
		{promised(b.Promised[vm]), promisedColour, []vg.Length{4, 3}},
		{b.Sent[vm], sentColour, nil},
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

// between returns the area between two rates, bin by bin.
func between(at func(int) float64, low, high []float64) (*plotter.Polygon, error) {
	pts := make(plotter.XYs, 0, 4*len(low))
	for i := range low {
		pts = append(pts, plotter.XY{X: at(i), Y: high[i]}, plotter.XY{X: at(i + 1), Y: high[i]})
	}
	for i := len(low) - 1; i >= 0; i-- {
		pts = append(pts, plotter.XY{X: at(i + 1), Y: low[i]}, plotter.XY{X: at(i), Y: low[i]})
	}
	a, err := plotter.NewPolygon(pts)
	if err != nil {
		return nil, err
	}
	a.Width = 0
	return a, nil
}

// steps draws a rate, bin by bin, where it is within the plot and not NaN.
func steps(p *plot.Plot, at func(int) float64, rates []float64, c color.RGBA, dashes []vg.Length) error {
	var pts plotter.XYs
	end := func() error {
		if len(pts) == 0 {
			return nil
		}
		l, err := plotter.NewLine(pts)
		if err != nil {
			return err
		}
		l.Color, l.Width, l.Dashes = c, 1.1, dashes
		p.Add(l)
		pts = nil
		return nil
	}
	for i, x := range rates {
		if math.IsNaN(x) || x > p.Y.Max {
			if err := end(); err != nil {
				return err
			}
			continue
		}
		pts = append(pts, plotter.XY{X: at(i), Y: x}, plotter.XY{X: at(i + 1), Y: x})
	}
	return end()
}
