package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/history"
	"sluice/internal/edge/whatif"
)

func (a *app) whatifCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "whatif", Short: "what other policies would have done with the last hour",
		Long: `Shows what each policy would have been worth with the loads of the last hour, as the daemon
remembers them: which share of all packets VFs would have carried, and how many moves that
would have taken. GROSS is that share, and NET is less what the moves cost: a VF that goes
from one VM to another counts as ten seconds of a median load. The daemon has it worked out
by another process, at most once in five minutes; this waits for it.`,
		Example: "sluice whatif\nsluice whatif -o json | jq '.policies[0].policy'",
		Args:    noArgs,
	}
	o := outputFlag(c)
	compute := c.Flags().Bool("compute", false, "work it out: read what is remembered from standard input")
	_ = c.Flags().MarkHidden("compute") // for the daemon
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *compute {
			return a.computeWhatIf(c)
		}
		w, err := a.askWhatIf(c)
		if err != nil {
			return err
		}
		return show(a.std.Out, o, w, printWhatIf)
	}
	return c
}

// computeWhatIf reads a history.Past and writes a list of api.PolicyResult, both as JSON.
func (a *app) computeWhatIf(c *cobra.Command) error {
	var past history.Past
	if err := json.NewDecoder(a.std.In).Decode(&past); err != nil {
		return fmt.Errorf("what is remembered cannot be read: %w; install sluice and sluiced of the same version", err)
	}
	if past.Snapshot == nil {
		return errors.New("what is remembered has no Snapshot")
	}
	list, err := whatif.Compute(c.Context(), &past)
	if err != nil {
		return err
	}
	return json.NewEncoder(a.std.Out).Encode(list)
}

// askWhatIf waits until the result is computed.
func (a *app) askWhatIf(c *cobra.Command) (api.WhatIf, error) {
	slow := time.After(time.Second)
	for {
		w, err := a.client().WhatIf(c.Context())
		switch {
		case err != nil:
			return w, err
		case !w.Running && w.Error != "":
			return w, &api.Error{Text: w.Error, Remedy: w.Remedy}
		case !w.Running:
			return w, nil
		}
		select {
		case <-c.Context().Done():
			return w, c.Context().Err()
		case <-slow:
			fmt.Fprintln(a.std.Err, "It is being worked out by another process of the daemon, which may take a minute.")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func printWhatIf(out io.Writer, w api.WhatIf) {
	fmt.Fprintf(out, "From %s to %s; the policy now is %s.\n\n", w.From.Local().Format(time.TimeOnly),
		w.To.Local().Format(time.TimeOnly), w.Current)
	var rows [][]string
	for _, p := range w.Policies {
		rows = append(rows, []string{p.Policy, percent(p.Net), percent(p.Gross), strconv.Itoa(p.Moves)})
	}
	table(out, "POLICY NET GROSS MOVES", rows)
}
