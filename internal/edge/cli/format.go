package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"sluice/internal/base/input"
	"sluice/internal/edge/client"
	"sluice/internal/model"
)

// output is the value of -o.
type output struct{ json bool }

// String implements pflag.Value.
func (o *output) String() string {
	if o.json {
		return "json"
	}
	return "table"
}

// Set implements pflag.Value.
func (o *output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("want table or json")
	}
	o.json = s == "json"
	return nil
}

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

// outputFlag adds -o to a command.
func outputFlag(c *cobra.Command) *output {
	o := &output{}
	c.Flags().VarP(o, "output", "o", "`format`: table for people, json for programs")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return o
}

// show prints a value as JSON, or as text does.
func show[T any](w io.Writer, o *output, value T, text func(io.Writer, T)) error {
	if o.json {
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(escaped(data), '\n'))
		return err
	}
	p := &printer{w: w}
	text(p, value)
	return p.err
}

// printing makes a command print what get returns, as text does or as JSON.
func printing[T any](a *app, c *cobra.Command, get func(context.Context, []string) (T, error), text func(io.Writer, T)) *cobra.Command {
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		value, err := get(c.Context(), args)
		if err != nil {
			return err
		}
		return show(a.std.Out, o, value, text)
	}
	return c
}

// answering is printing for an answer of the daemon that takes no arguments.
func answering[T any](a *app, c *cobra.Command, get func(*client.Client, context.Context) (T, error),
	text func(io.Writer, T),
) *cobra.Command {
	return printing(a, c, func(ctx context.Context, _ []string) (T, error) { return get(a.client(), ctx) }, text)
}

// escaped escapes every character of JSON that could control a terminal as \uXXXX, which is equivalent for programs.
func escaped(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == '\n' || strconv.IsPrint(r) {
			out = append(out, data[:n]...)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		data = data[n:]
	}
	return out
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (p *printer) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	p.err = err
	return n, err
}

// table prints rows in columns under a heading. The last column is not padded.
func table(w io.Writer, head string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line(t, strings.Fields(head))
	for _, r := range rows {
		line(t, r)
	}
	_ = t.Flush() // the underlying printer keeps the error
}

func line(t *tabwriter.Writer, cells []string) {
	for i, c := range cells {
		cells[i] = orDash(printable(c))
	}
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}

// printable prevents names from outside from controlling the terminal.
func printable(s string) string { return input.Printable(s) }

// lines sanitizes a text line by line and indents all lines but the first by indent columns.
func lines(s string, indent int) string {
	list := strings.Split(s, "\n")
	for i := range list {
		list[i] = printable(list[i])
	}
	return strings.Join(list, "\n"+strings.Repeat(" ", indent))
}

func orDash(s string) string { return cmp.Or(s, "-") }

// percent formats a share from 0 to 1.
func percent(x float64) string { return fmt.Sprintf("%.0f %%", x*100) }

// seconds formats a short duration: "640ms", "2.5s".
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// clock formats the time of day, "-" for the zero time.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.TimeOnly)
}

// from lists the sources of a load, with a question mark if only the guest reports it, and a tilde if the host's counters
// are consistent with the guest's report.
func from(sources []string, proof string) string {
	s := strings.Join(sources, "+")
	switch proof {
	case string(model.ProofGuest):
		s += "?"
	case string(model.ProofCorroborated):
		s += "~"
	}
	return s
}
