package report

import (
	"encoding/json"
	"io"
	"math"

	"sluice/internal/research/reproduce"
)

// The types of the JSON output.
type (
	reproducedJSON struct {
		Figures []figureJSON `json:"figures"`
		Papers  []Count      `json:"papers"`
	}
	figureJSON struct {
		Paper   string            `json:"paper"`
		Figure  string            `json:"figure"`
		Title   string            `json:"title"`
		Source  string            `json:"source"`
		Verdict reproduce.Verdict `json:"verdict"`
		Assumes string            `json:"assumes,omitempty"`
		Outside string            `json:"out_of_scope,omitempty"`
		Measure string            `json:"measured_by,omitempty"`
		Remark  string            `json:"remark,omitempty"`
		Points  []pointJSON       `json:"points"`
		Curves  []reproduce.Curve `json:"curves,omitempty"`
		Sweeps  []sweepJSON       `json:"sweeps,omitempty"`
	}
	pointJSON struct {
		Name    string            `json:"name"`
		Least   *float64          `json:"published_least,omitempty"` // least and most are equal for one number, and absent without a bound
		Most    *float64          `json:"published_most,omitempty"`
		Words   string            `json:"published,omitempty"`
		Ours    any               `json:"ours"`
		Unit    string            `json:"unit,omitempty"`
		Within  float64           `json:"tolerance,omitempty"`
		Reading bool              `json:"our_reading,omitempty"` // the paper says it in words
		Verdict reproduce.Verdict `json:"verdict"`
		Why     string            `json:"why,omitempty"`
	}
	sweepJSON struct {
		Open       string    `json:"open"`
		Ours       string    `json:"ours"`
		Conclusion string    `json:"conclusion"`
		Range      string    `json:"holds"`
		Measures   string    `json:"measures"`
		Values     []float64 `json:"values"`
		Measured   []float64 `json:"measured"`
		Holds      []bool    `json:"holds_at"`
	}
)

// ReproducedJSON writes all that the table shows for programs.
func ReproducedJSON(w io.Writer, list []*reproduce.Outcome) error {
	out := reproducedJSON{Papers: Counts(list), Figures: []figureJSON{}}
	for _, x := range list {
		f := figureJSON{
			Paper: x.Paper.Name, Figure: x.Figure.Name, Title: x.Figure.Title, Source: x.Figure.Source, Verdict: x.Status(),
			Assumes: x.Figure.Assumes, Outside: x.Figure.Outside, Measure: x.Figure.Measure, Points: []pointJSON{}, Curves: x.Curves,
			Remark: x.Remark,
		}
		for i := range x.Rows {
			f.Points = append(f.Points, pointOf(&x.Rows[i]))
		}
		for _, s := range x.Sweeps {
			f.Sweeps = append(f.Sweeps, sweepJSON{
				Open: s.Open, Ours: s.Ours, Conclusion: s.Conclusion, Range: s.Range(), Measures: s.Measures, Values: s.Values,
				Measured: s.Measured, Holds: s.Holds,
			})
		}
		out.Figures = append(out.Figures, f)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func pointOf(r *reproduce.Row) pointJSON {
	p := pointJSON{
		Name: r.Point.Name, Words: r.Point.Paper.Words, Unit: r.Point.Unit, Within: r.Point.Within, Reading: r.Point.Reading,
		Verdict: r.Verdict, Why: r.Why,
	}
	if p.Words != "" {
		p.Ours = r.Ours.Words
		return p
	}
	bound := func(x float64) *float64 {
		if math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	p.Least, p.Most = bound(r.Point.Paper.Low), bound(r.Point.Paper.High)
	if r.Ours.Words == "" {
		p.Ours = r.Ours.Number
	}
	return p
}
