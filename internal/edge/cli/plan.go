package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

// moveLine formats a finished move on one line. A repair is named by its first step.
func moveLine(m api.MoveReport) string {
	what := orDash(m.VF)
	if m.Kind == api.MoveRepair && len(m.Steps) > 0 {
		first, _, _ := strings.Cut(m.Steps[0], " ")
		what = strings.TrimRight(first+" "+m.VF, " ")
	}
	s := fmt.Sprintf("%s %-6s %s %s", clock(m.Ended), m.Kind, orDash(printable(m.VM)), what)
	if m.Error != "" {
		return s + " failed: " + printable(m.Error)
	}
	return s + " in " + seconds(m.Took) + causeText(m.Cause)
}

// causeText is a Cause after what it brought about, "" if there is none.
func causeText(c *api.Cause) string {
	if c == nil {
		return ""
	}
	return ": " + printable(c.Text)
}

func (a *app) planCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "plan", Short: "list the moves under way and the next ones",
		Long: `Lists the moves under way and the next ones, each with its reason. In observe mode the
next moves are those that enforce mode would make; in enforce mode they wait for their
turn. --steps shows every single change in order.`,
		Example: "sluice plan\nsluice plan --steps\nsluice plan --offline --config ./sluice.yaml   # without a daemon",
		Args:    noArgs,
	}
	off := offlineFlags(c)
	steps := c.Flags().Bool("steps", false, "show the steps of every move")
	return printing(a, c, func(ctx context.Context, _ []string) (api.Plan, error) {
		return ask(ctx, off, a.client().Plan, func(o *answer.Offline) api.Plan { return o.Plan })
	}, func(w io.Writer, p api.Plan) { printPlan(w, p, *steps) })
}

func printPlan(w io.Writer, p api.Plan, steps bool) {
	switch {
	case len(p.Active)+len(p.Pending) == 0:
		fmt.Fprintln(w, "Nothing to do: every VM has what it should have.")
	case p.Mode == api.ModeObserve:
		fmt.Fprintln(w, "Observe mode: none of these moves is made.")
	}
	for _, m := range p.Active {
		fmt.Fprintf(w, "now   %s\n", planLine(m))
		if step := stepUnderWay(&m); step != "" {
			fmt.Fprintf(w, "      %s\n", step)
		}
		printSteps(w, m, steps)
	}
	for _, m := range p.Pending {
		fmt.Fprintf(w, "next  %s\n", planLine(m))
		printSteps(w, m, steps)
	}
}

// stepUnderWay describes the current step of a move, "" if there is none.
func stepUnderWay(m *api.MoveReport) string {
	if len(m.Steps) <= m.Step {
		return ""
	}
	return fmt.Sprintf("step %d of %d, try %d: %s", m.Step+1, len(m.Steps), max(1, m.Try), m.Steps[m.Step])
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
	s += causeText(m.Cause)
	if m.Why != "" {
		s += map[bool]string{true: "; ", false: ": "}[m.Cause != nil] + m.Why
	}
	return s
}

func printSteps(w io.Writer, m api.MoveReport, on bool) {
	if !on {
		return
	}
	for i, s := range m.Steps {
		fmt.Fprintf(w, "      %2d. %s\n", i+1, s)
	}
}
