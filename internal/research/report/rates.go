package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"

	"sluice/internal/research/scenario"
)

// rateShades go from light to dark sand; the first is for nearly nothing.
var rateShades = []color.Color{
	nil,
	color.RGBA{253, 233, 205, 255},
	color.RGBA{250, 205, 150, 255},
	color.RGBA{242, 168, 92, 255},
	color.RGBA{222, 123, 44, 255},
	color.RGBA{176, 78, 14, 255},
	color.RGBA{110, 40, 5, 255},
}

// ratePlot shows what the VMs wanted to move, darker for more. The darkest shade is for rates from top on.
func ratePlot(r *scenario.Result, rows []int) (p *plot.Plot, top float64) {
	p, row, width := rowPlot(r, rows)
	cols := min(columns, len(r.Plot.Rates))
	cells := make([][]float64, len(rows))
	var all []float64
	for _, vm := range rows {
		cells[row[vm]] = means(r.Plot.Rates, vm, cols)
		all = append(all, cells[row[vm]]...)
	}
	slices.Sort(all)
	if len(all) > 0 {
		top = all[len(all)-1-len(all)/200] // a few spikes must not make everything else pale
	}
	shade := func(y, c int) int {
		x := cells[y][c]
		if top <= 0 || x < top/200 {
			return 0
		}
		return min(len(rateShades)-1, 1+int(math.Sqrt(x/top)*float64(len(rateShades)-1)))
	}
	p.Add(&cellMap{rows: len(rows), columns: max(cols, 1), width: width, shade: shade, shades: rateShades})
	return p, top
}

// means averages one VM's rates over columns.
func means(rates [][]float64, vm, cols int) []float64 {
	out, n := make([]float64, cols), make([]float64, cols)
	for t, row := range rates {
		c := t * cols / len(rates)
		out[c] += row[vm]
		n[c]++
	}
	for c := range out {
		out[c] /= max(n[c], 1)
	}
	return out
}
