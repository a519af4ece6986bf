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
		Use: "whatif", Short: "show what other policies would have achieved in the last hour",
		Long: `Shows what each policy would have achieved with the loads of the last hour, which the
daemon remembers. GROSS is the share of all packets that VFs would have carried; NET also
deducts the cost of the moves, where a VF that goes from one VM to another costs ten
seconds of a median load; MOVES is their number. The daemon has another process compute
this, at most once every five minutes; this command waits for the result.`,
		Example: "sluice whatif\nsluice whatif -o json | jq '.policies[0].policy'",
		Args:    noArgs,
	}
	o := outputFlag(c)
	compute := c.Flags().Bool("compute", false, "compute the result: read the remembered hour from standard input")
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
		return fmt.Errorf("the remembered hour cannot be read: %w; install sluice and sluiced of the same version", err)
	}
	if past.Snapshot == nil {
		return errors.New("the remembered hour has no Snapshot")
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
			fmt.Fprintln(a.std.Err, "The daemon is computing this in another process, which may take a minute.")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func printWhatIf(out io.Writer, w api.WhatIf) {
	fmt.Fprintf(out, "From %s to %s; the present policy is %s.\n\n", w.From.Local().Format(time.TimeOnly),
		w.To.Local().Format(time.TimeOnly), w.Current)
	var rows [][]string
	for _, p := range w.Policies {
		rows = append(rows, []string{p.Policy, percent(p.Net), percent(p.Gross), strconv.Itoa(p.Moves)})
	}
	table(out, "POLICY NET GROSS MOVES", rows)
}
