package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

// moveLine formats a finished move on one line.
func moveLine(m api.MoveReport) string {
	first := ""
	if len(m.Steps) > 0 {
		first, _, _ = strings.Cut(m.Steps[0], " ")
	}
	s := moveName(m.Ended, m.Kind, m.VM, m.VF, first)
	if m.Error != "" {
		return s + " failed: " + printable(m.Error)
	}
	return s + " in " + seconds(m.Took)
}

// moveName names what was moved or, for a repair, its first step. vf is "" for none.
func moveName(ended time.Time, kind, vm, vf, first string) string {
	what := orDash(vf)
	if kind == api.MoveRepair && first != "" {
		what = strings.TrimRight(first+" "+vf, " ")
	}
	return fmt.Sprintf("%s %-6s %s %s", clock(ended), kind, orDash(printable(vm)), what)
}

func (a *app) planCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "plan", Short: "what is under way and what would be done next",
		Long: `Lists the moves under way and those to come, each with the reason for it. In observe
mode the moves to come are what would be done; in enforce mode they wait for
their turn. --steps shows every single change in its order.`,
		Example: "sluice plan\nsluice plan --steps\nsluice plan --offline --config ./sluice.yaml   # without a daemon",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	steps := c.Flags().Bool("steps", false, "show the steps of every move")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := ask(c.Context(), off, a.client().Plan, func(o *answer.Offline) api.Plan { return o.Plan })
		if err != nil {
			return err
		}
		return show(a.std.Out, o, p, func(w io.Writer, p api.Plan) { printPlan(w, p, *steps) })
	}
	return c
}

func printPlan(w io.Writer, p api.Plan, steps bool) {
	switch {
	case len(p.Active)+len(p.Pending) == 0:
		_, _ = fmt.Fprintln(w, "Nothing to do: every VM has what it should have.")
	case p.Mode == api.ModeObserve:
		_, _ = fmt.Fprintln(w, "Observe mode: none of this is done.")
	}
	for _, m := range p.Active {
		_, _ = fmt.Fprintf(w, "now   %s\n", planLine(m))
		if len(m.Steps) > m.Step {
			_, _ = fmt.Fprintf(w, "      step %d of %d, try %d: %s\n", m.Step+1, len(m.Steps), max(1, m.Try), m.Steps[m.Step])
		}
		printSteps(w, m, steps)
	}
	for _, m := range p.Pending {
		_, _ = fmt.Fprintf(w, "next  %s\n", planLine(m))
		printSteps(w, m, steps)
	}
}

func planLine(m api.MoveReport) string {
	s := m.Kind
	for _, word := range []string{printable(m.VM), m.VF} {
		if word != "" {
			s += " " + word
		}
	}
	if m.Undoing {
		s += " (being undone)"
	}
	if m.Why != "" {
		s += ": " + m.Why
	}
	return s
}

func printSteps(w io.Writer, m api.MoveReport, on bool) {
	if !on {
		return
	}
	for i, s := range m.Steps {
		_, _ = fmt.Fprintf(w, "      %2d. %s\n", i+1, s)
	}
}
