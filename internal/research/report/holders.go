package report

import (
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/internal/research/oracle"
	"sluice/internal/research/scenario"
)

// mostRows bounds the VMs of a plot; it shows those that want to move most.
const mostRows = 100

// columns is the resolution in time of who held a VF.
const columns = 600

// rowsOf returns the VMs to draw in their usual order.
func rowsOf(p *scenario.Plot) []int {
	sums := make([]float64, len(p.VMs))
	for _, row := range p.Rates {
		for i, x := range row {
			sums[i] += x
		}
	}
	rows := largest(sums, mostRows)
	slices.Sort(rows)
	return rows
}

// rowPlot returns a plot with a row for each VM, the first one on top.
func rowPlot(r *scenario.Result, rows []int) (p *plot.Plot, row map[int]int, width float64) {
	p, unit := axes(r, "")
	row = map[int]int{}
	var names []plot.Tick
	every := (len(rows) + 33) / 34
	for i, vm := range rows {
		y := len(rows) - 1 - i
		row[vm] = y
		if i%every == 0 {
			names = append(names, plot.Tick{Value: float64(y) + 0.5, Label: r.Plot.VMs[vm]})
		}
	}
	p.Y.Min, p.Y.Max = 0, float64(len(rows))
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	return p, row, float64(r.Duration) / unit
}

// holderPlot shows who held a VF when.
func holderPlot(r *scenario.Result, log int, rows []int) *plot.Plot {
	p, row, width := rowPlot(r, rows)
	b := &bars{length: r.Duration, cells: make([][]time.Duration, len(rows))}
	b.fill(r.Plot.Logs[log], row)
	p.Add(&cellMap{rows: len(rows), columns: columns, width: width, shade: b.shade, shades: barShades})
	return p
}

// bars is the time with a VF by VM and cell: dark where a VF was in use for most of the cell, light where for less.
type bars struct {
	length time.Duration
	cells  [][]time.Duration // by row, then column
}

// fill adds the log to the cells.
func (b *bars) fill(log oracle.Log, row map[int]int) {
	for i := range b.cells {
		b.cells[i] = make([]time.Duration, columns)
	}
	since := map[int]time.Duration{}
	for _, e := range log {
		from, on := since[e.VM]
		switch {
		case e.On && !on:
			since[e.VM] = e.At
		case !e.On && on:
			b.use(row, e.VM, from, e.At)
			delete(since, e.VM)
		}
	}
	for vm, from := range since {
		b.use(row, vm, from, b.length)
	}
}

func (b *bars) use(row map[int]int, vm int, from, to time.Duration) {
	y, drawn := row[vm]
	if !drawn {
		return
	}
	cell := float64(b.length) / columns
	for c := int(float64(from) / cell); c < columns; c++ {
		left, right := float64(c)*cell, float64(c+1)*cell
		if left >= float64(to) {
			return
		}
		b.cells[y][c] += time.Duration(min(right, float64(to)) - max(left, float64(from)))
	}
}

// shade returns 0, 1 or 2 for none, some and most of a cell.
func (b *bars) shade(y, c int) int {
	switch share := float64(b.cells[y][c]) * columns / float64(b.length); {
	case share > 0.6:
		return 2
	case share > 0.02:
		return 1
	}
	return 0
}

var barShades = []color.Color{nil, color.RGBA{160, 200, 225, 255}, color.RGBA{0, 114, 178, 255}}

// cellMap draws rows of cells in shades; shade 0 is not drawn. Adjacent equal cells become one rectangle.
type cellMap struct {
	rows, columns int
	width         float64 // of all columns, on the x axis
	shade         func(y, column int) int
	shades        []color.Color
}

// Plot implements plot.Plotter.
func (m *cellMap) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	unit := m.width / float64(m.columns)
	for y := range m.rows {
		for from := 0; from < m.columns; {
			s, to := m.shade(y, from), from+1
			for to < m.columns && m.shade(y, to) == s {
				to++
			}
			if s > 0 {
				x0, x1 := tx(float64(from)*unit), tx(float64(to)*unit)
				y0, y1 := ty(float64(y)+0.12), ty(float64(y)+0.88)
				c.FillPolygon(m.shades[s], []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
			}
			from = to
		}
	}
}
