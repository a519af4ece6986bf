// Package published states what the five papers that this software implements report: every figure and table once, with source, unit,
// tolerance, and what has become of it here. It is data alone; package reproduce runs the experiments and compares.
//
// Each paper has a file with a Paper, which Papers lists. A Figure is a figure, a table or a section with numbers. A Point is one
// published number or word: how far our value may be from it, and whether it follows from the model (Derived), was fitted (Fitted, with
// what), or does not come out (Contradicted, with the reason). A figure that Sluice cannot run says why, and which command measures it.
package published

import (
	"fmt"
	"math"
	"strconv"
)

// Status is what has become of a published figure.
type Status string

// A figure of several points has the worst status of them, in this order.
const (
	Derived      Status = "derived"      // it follows from the model, to which nothing was fitted for it
	Fitted       Status = "fitted"       // it comes out since something was fitted to it
	Contradicted Status = "contradicted" // it does not come out
	OutOfScope   Status = "out of scope" // Sluice cannot run it
)

// Papers lists the papers, in the order in which they are shown.
func Papers() []*Paper { return []*Paper{&FlexVF, &VNRAF, &DAQS, &DBAVM, &VirtualPF} }

// Paper is what a paper reports.
type Paper struct {
	Name    string // on the command line
	System  string
	About   string // the system in a line
	Figures []Figure
}

// Figure is a figure, a table or a section with numbers.
type Figure struct {
	Name   string // on the command line, such as figure-7
	Title  string
	Source string // where in the paper

	X, Y string   // axes of its plot, with units; unset: it is not drawn
	Bars []string // names of the positions 0, 1, ... on the X axis, if it has no numbers

	Assumes string // what our run takes for granted where the paper leaves it open
	Points  []Point

	Outside string // why Sluice does not run it; it has no points then, or only for reading
	Measure string // the command that measures it on hardware or in the lab, if any
}

// Point is one published number or word.
type Point struct {
	Name   string // unique in the figure
	Series string // curve or kind of bar in the plot; unset: it is not drawn
	At     float64
	Paper  Statement
	Unit   string
	Within float64 // our value may be so far, in Unit, from the published one

	// Reading says that the paper states it in words only: the number is how we read them.
	Reading bool

	Status Status // unset: Derived
	// Why is what was fitted to it, why it does not come out, or how we read the paper; unset: as for the point before it, if not Derived.
	Why string
}

// Statement is what a paper says: a number, a range, or words.
type Statement struct {
	Low, High float64
	Words     string
}

// Is is a statement of a number.
func Is(x float64) Statement { return Statement{Low: x, High: x} }

// Between is a statement of a range.
func Between(low, high float64) Statement { return Statement{Low: low, High: high} }

// AtLeast is a statement such as "26 % or more".
func AtLeast(x float64) Statement { return Statement{Low: x, High: math.Inf(1)} }

// AtMost is a statement such as "less than 1 ms".
func AtMost(x float64) Statement { return Statement{Low: math.Inf(-1), High: x} }

// Words is a statement without a number.
func Words(s string) Statement { return Statement{Words: s} }

// Off returns how far a number is from the statement.
func (s Statement) Off(x float64) float64 { return max(s.Low-x, x-s.High, 0) }

func (s Statement) String() string {
	switch {
	case s.Words != "":
		return s.Words
	case s.Low == s.High:
		return Number(s.Low)
	case math.IsInf(s.High, 1):
		return "at least " + Number(s.Low)
	case math.IsInf(s.Low, -1):
		return "at most " + Number(s.High)
	}
	return fmt.Sprintf("%s to %s", Number(s.Low), Number(s.High))
}

// Number formats a number with as many digits as papers print.
func Number(x float64) string { return Digits(x, 6) }

// Digits formats a number with so many significant digits, and with all before the point.
func Digits(x float64, digits int) string {
	whole := int(math.Ceil(math.Log10(max(math.Abs(x), 1e-9))))
	p := math.Pow10(max(0, min(digits-whole, digits)))
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(math.Round(x*p)/p, 'f', -1, 64)
}

// Find returns the paper of a name.
func Find(name string) *Paper {
	for _, p := range Papers() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Figure returns the figure of a name.
func (p *Paper) Figure(name string) *Figure {
	for i := range p.Figures {
		if p.Figures[i].Name == name {
			return &p.Figures[i]
		}
	}
	return nil
}
