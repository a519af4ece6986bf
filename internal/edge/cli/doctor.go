package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "list problems with their remedies",
		Long: `Lists what prevents Sluice from doing its job, each with its remedy: VMs that cannot fail
over, guests without an agent, PFs without link, drivers without counters, a daemon that
cannot read the host. Ends with exit code 3 if there are problems; entries that are only
for information do not count.`,
		Example: "sluice doctor\nsluice doctor --offline      # before the first start of the daemon",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, err := ask(c.Context(), off, a.client().Doctor, func(o *answer.Offline) api.Doctor { return o.Doctor })
		if err == nil {
			err = show(a.std.Out, o, d, printDoctor)
		}
		if err == nil && faults(d) > 0 {
			err = errFindings
		}
		return err
	}
	return c
}

// faults counts the problems that are not just information.
func faults(d api.Doctor) (n int) {
	for _, p := range d.Problems {
		if !p.Info {
			n++
		}
	}
	return n
}

func printDoctor(w io.Writer, d api.Doctor) {
	if faults(d) == 0 {
		fmt.Fprintln(w, "No problems found.")
	}
	printProblems(w, d.Problems)
}

// printProblems prints the problems, those that are just information last.
func printProblems(w io.Writer, list []api.Problem) {
	for _, info := range []bool{false, true} {
		for _, p := range list {
			if p.Info != info {
				continue
			}
			fmt.Fprintf(w, "%s%s: %s\n", map[bool]string{true: "for information: "}[info], subject(p.Subject), lines(p.Text, 4))
			if p.Remedy != "" {
				fmt.Fprintf(w, "    -> %s\n", printable(p.Remedy))
			}
		}
	}
}

func subject(s string) string { return printable(cmp.Or(s, "this host")) }
