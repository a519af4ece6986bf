package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
)

func (a *app) overridesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "overrides", Short: "list overrides set at run time: pins, releases, SLAs, drain",
		Long: `Lists what sluice pin, sluice release, sluice sla set and sluice drain set and nobody has
removed since: who set it, when and why, and when it ends automatically.`,
		Example: "sluice overrides\nsluice overrides -o json | jq '.[] | select(.until == null)'",
		Args:    noArgs,
	}
	return answering(a, c, (*client.Client).Overrides, printOverrides)
}

func printOverrides(w io.Writer, list []api.Override) {
	if len(list) == 0 {
		fmt.Fprintln(w, "No overrides: sluice.yaml and the policy decide about all VMs and SLAs.")
		return
	}
	var rows [][]string
	for i := range list {
		o := &list[i]
		end := "until removed"
		if !o.Until.IsZero() {
			end = o.Until.Format(time.DateTime)
		}
		what := string(o.Kind)
		if o.Kind == api.VerbSetSLA {
			what += " (" + slaText(o) + ")"
		}
		rows = append(rows, []string{what, cmp.Or(o.Name, o.ID), o.By, o.At.Format(time.DateTime), end, o.Reason})
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
