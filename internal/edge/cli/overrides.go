package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
)

func (a *app) overridesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "overrides", Short: "list what people asked for: pins, releases, SLAs, drain",
		Long: `Lists what sluice pin, sluice release, sluice sla set and sluice drain asked for and
nobody has taken back: who asked, when, why, and when it ends by itself.`,
		Example: "sluice overrides\nsluice overrides -o json | jq '.[] | select(.until == null)'",
		Args:    noArgs,
	}
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		list, err := a.client().Overrides(c.Context())
		if err != nil {
			return err
		}
		return show(a.std.Out, o, list, printOverrides)
	}
	return c
}

func printOverrides(w io.Writer, list []api.Override) {
	if len(list) == 0 {
		_, _ = fmt.Fprintln(w, "No overrides: sluice.yaml and the policy decide about every VM, and about SLAs.")
		return
	}
	var rows [][]string
	for i := range list {
		o := &list[i]
		vm := o.Name
		if vm == "" {
			vm = o.ID
		}
		end := "until taken back"
		if !o.Until.IsZero() {
			end = o.Until.Format(time.DateTime)
		}
		what := string(o.Kind)
		if o.Kind == api.VerbSetSLA {
			what += " (" + slaText(o) + ")"
		}
		rows = append(rows, []string{what, vm, o.By, o.At.Format(time.DateTime), end, o.Reason})
	}
	table(w, "OVERRIDE VM BY AT ENDS REASON", rows)
}

// overrideText says who requested an override, when and why, and when it ends.
func overrideText(o *api.Override) string {
	if o == nil {
		return ""
	}
	s := " by " + o.By + " since " + o.At.Format(time.DateTime)
	if !o.Until.IsZero() {
		s += ", until " + o.Until.Format(time.DateTime)
	}
	if o.Reason != "" {
		s += ": " + o.Reason
	}
	return printable(s)
}
