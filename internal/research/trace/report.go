package trace

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/base/input"
)

// Kind is a kind of fault in a trace.
type Kind string

// The kinds of faults.
const (
	KindAbsurd    Kind = "absurd"
	KindDuplicate Kind = "duplicate"
	KindOrder     Kind = "out of order"
	KindGap       Kind = "gap"
	KindReset     Kind = "counter reset"
	KindTorn      Kind = "torn"
	KindForeign   Kind = "other series"
)

// handled is what is done about each kind, in the order of reports.
var handled = []struct {
	kind Kind
	what string
}{
	{KindAbsurd, "left out"},
	{KindDuplicate, "the last one counts"},
	{KindOrder, "sorted in"},
	{KindGap, "load unknown there, worth nothing to the score"},
	{KindReset, "the rate before it is left out"},
	{KindForeign, "ignored"},
	{KindTorn, "what comes before counts"},
}

// keepPlaces is how many places of each kind of fault are reported.
const keepPlaces = 3

// Trouble is one kind of fault in a file: how often it was found, what was done, and the first places.
type Trouble struct {
	Kind    Kind     `json:"kind"`
	Count   int      `json:"count"`
	Handled string   `json:"handled"`
	Places  []string `json:"places"`
}

// Report says what a file contains.
type Report struct {
	File   string `json:"file"`
	Format string `json:"format"`
	Rows   int    `json:"rows"`
	VMs    int    `json:"vms"`
	found  map[Kind]*Trouble
}

// add counts a fault; place is called only for the first few.
func (r *Report) add(k Kind, place func() string) {
	if r.found == nil {
		r.found = map[Kind]*Trouble{}
	}
	t := r.found[k]
	if t == nil {
		t = &Trouble{Kind: k}
		r.found[k] = t
	}
	t.Count++
	if len(t.Places) < keepPlaces {
		t.Places = append(t.Places, place())
	}
}

// Gap counts a stretch of time without data, given as times since the start.
func (r *Report) Gap(from, to time.Duration) {
	r.add(KindGap, func() string {
		return "from " + from.Round(tick).String() + " to " + to.Round(tick).String()
	})
}

// Troubles lists the faults found.
func (r *Report) Troubles() []Trouble {
	var out []Trouble
	for _, h := range handled {
		if t := r.found[h.kind]; t != nil {
			t.Handled = h.what
			out = append(out, *t)
		}
	}
	return out
}

// Count returns how often a kind of fault was found.
func (r *Report) Count(k Kind) int {
	if t := r.found[k]; t != nil {
		return t.Count
	}
	return 0
}

// String prints the report: a line for the file and one for each kind of fault.
func (r *Report) String() string {
	var b strings.Builder
	file := input.Printable(r.File)
	fmt.Fprintf(&b, "%s: %s, %d rows of %d VMs\n", file, r.Format, r.Rows, r.VMs)
	for _, t := range r.Troubles() {
		more := ""
		if t.Count > len(t.Places) {
			more = ", ..."
		}
		fmt.Fprintf(&b, "%s: %s: %d (%s%s): %s\n", file, t.Kind, t.Count, input.Printable(strings.Join(t.Places, ", ")), more, t.Handled)
	}
	return b.String()
}

// Error is an error at one place of a file.
type Error struct {
	File      string
	Line, Col int // from 1; 0: unknown
	Text      string
	Remedy    string
	cause     error
}

// Error prints place, text and remedy on one line.
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s = fmt.Sprintf("%s:%d:%d", e.File, e.Line, max(1, e.Col))
	}
	s += ": " + e.Text
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.cause }
