package report

import (
	_ "embed"
	"html/template"
	"io"
	"path/filepath"

	"sluice/internal/model"
	"sluice/internal/research/scenario"
)

//go:embed page.html
var pageText string

//go:embed frame.html
var frameText string

// About is what a report says of itself at its end.
type About struct {
	Command string // that made it
	Version string
}

// newPage parses a page, which has the style and the foot of all reports.
func newPage(name, text string, funcs template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New(name).Funcs(funcs).Parse(text)).Parse(frameText))
}

var page = newPage("page", pageText, template.FuncMap{
	"base": filepath.Base, "percent": percent, "rate": rate, "span": model.Span, "worst": worstOf, "optima": optima, "learned": learnedRows,
	"lasting": model.Lasting,
	"share":   func(x float64) string { return percent(100 * x) },
})

// pageData is the data of the page.
type pageData struct {
	*scenario.Result
	About   About
	Summary string
	Verdict string // "": there is none
	Legend  string
	Loss    template.HTML
	Rates   template.HTML
	Top     string // packets/s of the darkest shade of Rates
	Holders []drawing
	Scored  bool
}

// drawing is a plot with its title.
type drawing struct {
	Title string
	SVG   template.HTML
}

// HTML writes a self-contained page, with styles and plots.
func HTML(w io.Writer, r *scenario.Result, about About) error {
	if r.Guaranteed != nil {
		return keptHTML(w, r, about)
	}
	d := pageData{Result: r, About: about, Summary: Summary(r), Verdict: verdict(r), Legend: legend(r), Scored: r.Optimum != nil}
	loss, err := lossPlot(r)
	if err != nil {
		return err
	}
	if loss != nil {
		if d.Loss, err = render(loss, 300); err != nil {
			return err
		}
	}
	rows := rowsOf(r.Plot)
	height := 70 + 9*len(rows)
	rates, top := ratePlot(r, rows)
	d.Top = model.SIDigits(top, 4)
	if d.Rates, err = render(rates, height); err != nil {
		return err
	}
	for i, name := range r.Plot.Names {
		svg, err := render(holderPlot(r, i, rows), height)
		if err != nil {
			return err
		}
		d.Holders = append(d.Holders, drawing{Title: name, SVG: svg})
	}
	return page.Execute(w, &d)
}
