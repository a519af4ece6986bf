package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/client"
)

func (a *app) fsckCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "fsck", Short: "find VFs with leftover or wrong settings; --repair repairs them",
		Long: `Finds VFs with settings that no VM needs: a stale MAC, VLAN, rate or trust setting, the
wrong driver, one MAC on two VFs, a VM's MAC on a VF that somebody else uses, stale
filters. Findings that Sluice may repair are shown with the steps of the repair; those
that belong to others are only listed. Without a daemon (--offline), limits left by a
daemon that has died are found too. With --repair, it waits and prints the result of each
finding. Ends with exit code 3 if findings remain, and with 1 if a repair failed.`,
		Example: "sluice fsck\nsluice fsck --repair\nsluice fsck --offline",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	repair := c.Flags().Bool("repair", false, "repair what Sluice may repair (role operate)")
	wait := c.Flags().Duration("wait", time.Minute, "with --repair: wait up to this `time` for the repairs to finish")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *repair && off.on {
			return usage(c, errors.New("--repair needs the daemon and cannot be combined with --offline"))
		}
		if *repair {
			return a.repair(c.Context(), o, *wait)
		}
		f, err := ask(c.Context(), off, a.client().Fsck, func(o *answer.Offline) api.Fsck { return o.Fsck })
		if err == nil {
			err = show(a.std.Out, o, f, printFsck)
		}
		if err == nil && len(f.Findings) > 0 {
			err = errFindings
		}
		return err
	}
	return c
}

func printFsck(w io.Writer, f api.Fsck) {
	if len(f.Findings) == 0 {
		fmt.Fprintln(w, "No leftover or wrong settings.")
	}
	for i := range f.Findings {
		one := &f.Findings[i]
		printFinding(w, one)
		switch {
		case one.Remedy != "":
			fmt.Fprintf(w, "    -> %s\n", printable(one.Remedy))
		case len(one.Repair) == 0:
			fmt.Fprintln(w, "    left alone: not for Sluice to repair")
		default:
			fmt.Fprintf(w, "    -> sluice fsck --repair: %s\n", printable(strings.Join(one.Repair, ", ")))
		}
	}
}

func printFinding(w io.Writer, f *api.Finding) {
	fmt.Fprintf(w, "%s: %s [%s]\n", printable(f.Subject), printable(f.Text), f.Code)
}

// repair requests repairs and waits for their outcome.
func (a *app) repair(ctx context.Context, o *output, atMost time.Duration) error {
	client := a.client()
	before, err := client.Fsck(ctx)
	if err != nil {
		return err
	}
	r, err := client.Do(ctx, api.VerbRepair, api.Request{})
	if err != nil {
		return err
	}
	results, err := awaitRepairs(ctx, client, before.Findings, r.Revision, atMost)
	if err != nil {
		return err
	}
	if err := show(a.std.Out, o, api.RepairReport{Findings: results}, printRepairs); err != nil {
		return err
	}
	if !o.json {
		for _, d := range r.Details {
			fmt.Fprintln(a.std.Out, printable(d))
		}
	}
	return verdict(results)
}

// verdict maps the results to an error for the exit code.
func verdict(results []api.RepairResult) error {
	var left error
	for i := range results {
		switch results[i].Result {
		case api.Failed, api.Waiting:
			return errPrinted
		case api.Left:
			left = errFindings
		}
	}
	return left
}

// awaitRepairs follows the findings until no repair is under way or the time is up.
func awaitRepairs(ctx context.Context, client *client.Client, findings []api.Finding, revision uint64,
	atMost time.Duration,
) ([]api.RepairResult, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	results := make([]api.RepairResult, 0, len(findings))
	for i := range findings {
		f := findings[i]
		f.LastError, f.Repairing = "", false
		results = append(results, api.RepairResult{Finding: f, Result: api.Waiting})
	}
	for looks := 0; ; looks++ {
		next, err := client.After(ctx, revision)
		var now api.Fsck
		var plan api.Plan
		if err == nil {
			now, err = client.Fsck(ctx)
		}
		if err == nil {
			plan, err = client.Plan(ctx)
		}
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return results, nil
		case err != nil:
			return nil, err
		case judge(results, &now, plan.Mode, looks >= patience):
			return results, nil
		}
		revision = next
	}
}

// patience is how many observations an unrepaired finding may persist: the loop starts repairs at its next tick, and the
// observation after a repair shows its effect.
const patience = 4

// judge updates the results and reports whether all are final.
func judge(results []api.RepairResult, now *api.Fsck, mode string, late bool) bool {
	done := true
	for i := range results {
		r := &results[i]
		f := find(now, &r.Finding)
		switch {
		case f == nil:
			r.Result, r.LastError = api.Repaired, ""
		case len(f.Repair) == 0 || mode == api.ModeObserve:
			r.Result = api.Left
		case f.Repairing || !late:
			r.Result, done = api.Waiting, false
		case f.LastError != "":
			r.Result, r.LastError = api.Failed, f.LastError
		default:
			r.Result, done = api.Waiting, false
		}
	}
	return done
}

// find returns the same finding in a later answer, or nil.
func find(now *api.Fsck, f *api.Finding) *api.Finding {
	for i := range now.Findings {
		if n := &now.Findings[i]; n.Code == f.Code && n.Subject == f.Subject && n.Text == f.Text {
			return n
		}
	}
	return nil
}

func printRepairs(w io.Writer, r api.RepairReport) {
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, "No leftover or wrong settings: nothing to repair.")
	}
	for i := range r.Findings {
		one := &r.Findings[i]
		printFinding(w, &one.Finding)
		text := one.Result
		switch {
		case one.Result == api.Left && len(one.Repair) == 0:
			text += ": not for Sluice to repair"
		case one.Result == api.Left:
			text += ": observe mode"
		case one.Result == api.Failed:
			text += ": " + printable(one.LastError)
		default:
			text += ": " + printable(strings.Join(one.Repair, ", "))
		}
		fmt.Fprintf(w, "    %s\n", text)
	}
}
