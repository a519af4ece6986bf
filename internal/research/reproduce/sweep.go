package reproduce

import (
	"context"
	"fmt"
	"strings"

	"sluice/internal/research/published"
)

// Sweep tries other values of what a paper leaves open.
type Sweep struct {
	Open       string // what the paper leaves open
	Unit       string // of Values
	Ours       string // what our experiment uses
	Values     []float64
	Conclusion string // of the paper, which may or may not hold
	Measures   string // what Try returns, with its unit
	// Try runs the experiment with a value, and returns what it measures and whether the conclusion holds.
	Try func(ctx context.Context, value float64) (measured float64, holds bool, err error)
}

// Swept is the result of a Sweep.
type Swept struct {
	*Sweep
	Measured []float64
	Holds    []bool
}

func (s *Sweep) run(ctx context.Context) (Swept, error) {
	out := Swept{Sweep: s}
	for _, v := range s.Values {
		m, holds, err := s.Try(ctx, v)
		if err != nil {
			return out, fmt.Errorf("%s %s: %w", s.Open, published.Number(v), err)
		}
		out.Measured = append(out.Measured, m)
		out.Holds = append(out.Holds, holds)
	}
	return out, nil
}

// Range says for which values the conclusion holds.
func (s *Swept) Range() string { return Ranges(s.Values, s.Holds) }

// Ranges says for which of the values, in rising order, a conclusion holds.
func Ranges(values []float64, holds []bool) string {
	var out []string
	for i := 0; i < len(values); i++ {
		if !holds[i] {
			continue
		}
		from := i
		for i+1 < len(values) && holds[i+1] {
			i++
		}
		low, high := published.Number(values[from]), published.Number(values[i])
		switch first, last := from == 0, i == len(values)-1; {
		case first && last:
			return "for all values tried"
		case from == i:
			out = append(out, "at "+low)
		case first:
			out = append(out, "up to "+high)
		case last:
			out = append(out, "from "+low+" on")
		default:
			out = append(out, "from "+low+" to "+high)
		}
	}
	if len(out) == 0 {
		return "for none"
	}
	return strings.Join(out, ", ")
}
