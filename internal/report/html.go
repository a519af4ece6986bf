package report

import (
	_ "embed"
	"html/template"
	"io"

	"gonum.org/v1/plot"

	"sluice/internal/scenario"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": percent, "rate": rate, "span": Span,
	"share": func(x float64) string { return percent(100 * x) },
}).Parse(pageText))

// pageData is what the page is made of.
type pageData struct {
	*scenario.Result
	Summary string
	Legend  string
	Loss    template.HTML
	Rates   template.HTML
	Holders []drawing
	Scored  bool
}

// drawing is a plot with its title.
type drawing struct {
	Title string
	SVG   template.HTML
}

// HTML writes a page that needs nothing from elsewhere: styles and plots are in it.
func HTML(w io.Writer, r *scenario.Result) error {
	d := pageData{Result: r, Summary: Summary(r), Legend: legend(r), Scored: r.Optimum != nil}
	var err error
	if d.Loss, err = d.draw(lossPlot, 300); err != nil {
		return err
	}
	if d.Rates, err = d.draw(ratePlot, 300); err != nil {
		return err
	}
	rows := rowsOf(r.Plot)
	for i, name := range r.Plot.Names {
		p, err := holderPlot(r, i, rows)
		if err != nil {
			return err
		}
		svg, err := render(p, 120+7*min(len(rows), mostRows))
		if err != nil {
			return err
		}
		d.Holders = append(d.Holders, drawing{Title: name, SVG: svg})
	}
	return page.Execute(w, &d)
}

func (d *pageData) draw(make func(*scenario.Result) (*plot.Plot, error), height int) (template.HTML, error) {
	p, err := make(d.Result)
	if err != nil || p == nil {
		return "", err
	}
	return render(p, height)
}
