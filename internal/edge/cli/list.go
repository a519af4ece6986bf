package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// grid is a table of cells. Rows are those of the answer, in its order.
type grid struct {
	head []string
	rows [][]string
	hide []string // columns that only -o wide shows
	drop []string // columns that a narrow terminal does without, the first first
}

// lister is a command that lists something, with filter, sort and formats. T is the answer.
type lister[T any] struct {
	columns []string // of every grid
	get     func(context.Context, []string) (T, error)
	grid    func(T) grid
	keep    func(v *T, rows []int)               // leaves only these rows of the grid, in this order
	text    func(w io.Writer, v T, table func()) // prints what is around the table; nil: nothing is
}

// listFlags are the flags of a lister.
type listFlags struct {
	format string
	filter []string
	sort   string
	watch  bool
}

var listFormats = []string{"table", "wide", "name", "json", "yaml"}

// String, Set and Type implement pflag.Value, for -o.
func (f *listFlags) String() string { return f.format }

// Set implements pflag.Value.
func (f *listFlags) Set(s string) error {
	if !slices.Contains(listFormats, s) {
		return fmt.Errorf("want %s or yaml", strings.Join(listFormats[:len(listFormats)-1], ", "))
	}
	f.format = s
	return nil
}

// Type implements pflag.Value.
func (f *listFlags) Type() string { return "format" }

// listing makes c a lister.
func listing[T any](a *app, c *cobra.Command, l lister[T]) *cobra.Command {
	f := &listFlags{format: "table"}
	c.Flags().VarP(f, "output", "o", "`format`: table fits the terminal, wide has all columns, name only names; json and yaml "+
		"for programs")
	c.Flags().StringArrayVar(&f.filter, "filter", nil, "only rows with `COLUMN=PATTERN` (or !=), such as state=running; * and ? as "+
		"in a shell; may be repeated")
	c.Flags().StringVar(&f.sort, "sort", "", "sort by this `COLUMN`: numbers from the largest, words from A; the other way round with - "+
		"before it")
	c.Flags().BoolVar(&f.watch, "watch", false, "print again after every change, until interrupted")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(listFormats, cobra.ShellCompDirectiveNoFileComp))
	var names, filters []string
	for _, name := range l.columns {
		names, filters = append(names, strings.ToLower(name)), append(filters, strings.ToLower(name)+"=")
	}
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("filter", cobra.FixedCompletions(filters,
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	c.RunE = func(c *cobra.Command, args []string) error {
		choose, err := f.chooser(l.columns)
		if err != nil {
			return usage(c, err)
		}
		inPlace := f.watch && (f.format == "table" || f.format == "wide") && IsTerminal(a.std.Out)
		once := func() error {
			v, err := l.get(c.Context(), args)
			if err != nil {
				return err
			}
			if inPlace {
				_, _ = io.WriteString(a.std.Out, redraw)
			}
			return l.print(a.std.Out, v, f.format, choose)
		}
		if f.watch {
			return a.watch(c.Context(), once)
		}
		return once()
	}
	return c
}

// watch calls print again after every change.
func (a *app) watch(ctx context.Context, print func() error) error {
	revision := uint64(0)
	for {
		err := print()
		if err == nil {
			revision, err = a.client().After(ctx, revision)
		}
		if err != nil {
			return ended(ctx, err)
		}
	}
}

// print prints the chosen rows of an answer.
func (l *lister[T]) print(w io.Writer, v T, format string, choose func(grid) []int) error {
	g := l.grid(v)
	rows := choose(g)
	kept := make([][]string, len(rows))
	for i, r := range rows {
		kept[i] = g.rows[r]
	}
	g.rows = kept
	l.keep(&v, rows)
	switch format {
	case "json":
		return show(w, &output{json: true}, v, nil)
	case "yaml":
		return showYAML(w, v)
	case "name":
		p := &printer{w: w}
		for _, name := range g.names() {
			fmt.Fprintln(p, printable(name))
		}
		return p.err
	case "wide":
		g.hide = nil
	default:
		g = g.without(g.hide...).fit(terminalWidth(w))
	}
	return show(w, &output{}, v, func(w io.Writer, v T) {
		draw := func() { table(w, strings.Join(g.head, " "), g.rows) }
		if l.text == nil {
			draw()
			return
		}
		l.text(w, v, draw)
	})
}

// showYAML prints a value as YAML with the fields of its JSON.
func showYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		data, err = yaml.JSONToYAML(data)
	}
	if err == nil {
		_, err = fmt.Fprintln(w, lines(strings.TrimSpace(string(data)), 0)) // names come from outside
	}
	return err
}

// names returns the first column, each text once.
func (g grid) names() (out []string) {
	for _, r := range g.rows {
		if !slices.Contains(out, r[0]) {
			out = append(out, r[0])
		}
	}
	return out
}

// without returns the grid without some columns.
func (g grid) without(columns ...string) grid {
	var at []int
	for i, name := range g.head {
		if !slices.Contains(columns, name) {
			at = append(at, i)
		}
	}
	pick := func(row []string) []string {
		out := make([]string, len(at))
		for i, k := range at {
			out[i] = row[k]
		}
		return out
	}
	rows := make([][]string, len(g.rows))
	for i, r := range g.rows {
		rows[i] = pick(r)
	}
	return grid{head: pick(g.head), rows: rows, drop: g.drop}
}

// fit drops columns until the grid is no wider than that, as far as possible; 0: any width.
func (g grid) fit(most int) grid {
	for most > 0 && len(g.drop) > 0 && g.width() > most {
		next := g.without(g.drop[0])
		next.drop = g.drop[1:]
		g = next
	}
	return g
}

// width returns how many columns of a terminal table needs.
func (g grid) width() (sum int) {
	for i := range g.head {
		wide := 0
		for _, r := range append([][]string{g.head}, g.rows...) {
			wide = max(wide, utf8.RuneCountInString(orDash(printable(r[i]))))
		}
		sum += wide + 2
	}
	return sum - 2
}

// terminalWidth returns the columns of a terminal, 0 for anything else.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(w) {
		return 0
	}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		return int(size.Col)
	}
	return 80
}

// chooser returns which rows of a grid --filter and --sort choose, in order.
func (f *listFlags) chooser(columns []string) (func(grid) []int, error) {
	column := func(name string) (string, error) {
		at := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
		if at < 0 {
			return "", fmt.Errorf("there is no column %q; the columns are %s", name, strings.ToLower(strings.Join(columns, ", ")))
		}
		return columns[at], nil
	}
	var tests []func(grid, []string) bool
	for _, text := range f.filter {
		name, pattern, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--filter %s: want COLUMN=PATTERN, such as %s=web*", visible(text), strings.ToLower(columns[0]))
		}
		name, not := strings.CutSuffix(name, "!")
		name, err := column(name)
		if err != nil {
			return nil, fmt.Errorf("--filter: %w", err)
		}
		match := glob(pattern)
		tests = append(tests, func(g grid, r []string) bool { return match.MatchString(orDash(g.cell(r, name))) != not })
	}
	by, down := strings.CutPrefix(f.sort, "-")
	if f.sort != "" {
		var err error
		if by, err = column(by); err != nil {
			return nil, fmt.Errorf("--sort: %w", err)
		}
	}
	return func(g grid) []int {
		var out []int
		for i, r := range g.rows {
			if !slices.ContainsFunc(tests, func(ok func(grid, []string) bool) bool { return !ok(g, r) }) {
				out = append(out, i)
			}
		}
		if by != "" {
			slices.SortStableFunc(out, func(a, b int) int {
				n := compareCells(g.cell(g.rows[a], by), g.cell(g.rows[b], by))
				if down {
					return -n
				}
				return n
			})
		}
		return out
	}, nil
}

// cell returns a row's cell of a column.
func (g grid) cell(row []string, column string) string {
	if at := slices.Index(g.head, column); at >= 0 {
		return row[at]
	}
	return ""
}

// glob compiles a pattern with * and ?, without regard to case. * matches a slash too.
func glob(pattern string) *regexp.Regexp {
	text := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("(?is)^" + text + "$")
}

// compareCells orders numbers from the largest, before words from A.
func compareCells(a, b string) int {
	x, errX := cellNumber(a)
	y, errY := cellNumber(b)
	switch {
	case errX == nil && errY == nil && x > y, errX == nil && errY != nil:
		return -1
	case errX == nil && errY == nil && x < y, errX != nil && errY == nil:
		return 1
	case errX == nil:
		return 0
	}
	return strings.Compare(a, b)
}

var (
	numberText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kMGT]?)(?:bit|pps)?(?:[ /(].*)?$`)
	errNumber  = errors.New("not a number")
)

// cellNumber reads a number as tables show it: 12, 1.5k, 3Gbit.
func cellNumber(s string) (float64, error) {
	m := numberText.FindStringSubmatch(s)
	if m == nil {
		return 0, errNumber
	}
	x, err := strconv.ParseFloat(m[1], 64)
	return x * map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[m[2]], err
}

// pickRows returns the rows of a list with these indices.
func pickRows[T any](list []T, rows []int) []T {
	out := make([]T, 0, len(rows))
	for _, i := range rows {
		out = append(out, list[i])
	}
	return out
}
