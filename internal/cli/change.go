package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/web"
)

// do asks for a change and prints what the daemon made of it.
func (a *app) do(ctx context.Context, o *output, verb web.Verb, vm string) error {
	r, err := a.client().Do(ctx, verb, vm)
	if err != nil {
		return err
	}
	return show(a.std.Out, o, r, printResult)
}

func printResult(w io.Writer, r web.Result) {
	_, _ = fmt.Fprintln(w, printable(r.Text))
	for _, d := range r.Details {
		_, _ = fmt.Fprintf(w, "    %s\n", printable(d))
	}
}

// vmCommand fills in what commands on one VM have in common.
func (a *app) vmCommand(verb web.Verb, c *cobra.Command) *cobra.Command {
	c.Args, c.ValidArgsFunction = oneVM, a.completeVM
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error { return a.do(c.Context(), o, verb, args[0]) }
	return c
}

func (a *app) pinCommand() *cobra.Command {
	return a.vmCommand(web.VerbPin, &cobra.Command{
		Use: "pin VM", Short: "always give a VM a VF (root)",
		Long: `The VM gets a VF whatever the policy says, until sluice unpin or sluice release. That
goes before sluice.yaml and outlasts a restart of the daemon. A VM that cannot be given
a VF stays on virtio all the same; sluice explain says why.`,
		Example: "sluice pin db-1\nsluice explain db-1",
	})
}

func (a *app) releaseCommand() *cobra.Command {
	return a.vmCommand(web.VerbRelease, &cobra.Command{
		Use: "release VM", Short: "take a VM's VF away and give it none (root)",
		Long: `The VM goes back to virtio, without being cut off, and gets no VF until sluice unpin or
sluice pin. That goes before sluice.yaml and outlasts a restart of the daemon.`,
		Example: "sluice release batch-7\nsluice unpin batch-7        # the policy decides again",
	})
}

func (a *app) unpinCommand() *cobra.Command {
	return a.vmCommand(web.VerbUnpin, &cobra.Command{
		Use: "unpin VM", Short: "let the policy decide again, after pin or release (root)",
		Long:    `Takes back what sluice pin or sluice release asked for this VM.`,
		Example: "sluice unpin db-1",
	})
}

func (a *app) reloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "reload", Short: "read sluice.yaml and conf.d again (root)",
		Long: `Does what systemctl reload sluice does, and prints the errors. On an error the daemon
keeps the configuration it has. No VF moves because of the reload itself.`,
		Example: "sluice config check && sluice reload",
		Args:    noArgs,
	}
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return a.do(c.Context(), o, web.VerbReload, "") }
	return c
}

func (a *app) drainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "drain", Short: "give up all VFs cleanly; --undo ends that (root)",
		Long: `Every VM goes back to virtio, one step at a time and without being cut off, and no VM
gets a VF until sluice drain --undo, also after a restart of the daemon. VFs that others
attached stay. Use it before maintenance of a card or its driver, or before removing Sluice.`,
		Example: "sluice drain --wait 2m\nsluice drain --undo",
		Args:    noArgs,
	}
	o := outputFlag(c)
	undo := c.Flags().Bool("undo", false, "hand out VFs again")
	wait := c.Flags().Duration("wait", 0, "wait up to this `time` until no VM holds a VF of Sluice's")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *undo && *wait != 0 {
			return usage(c, fmt.Errorf("--wait makes no sense with --undo"))
		}
		verb := web.VerbDrain
		if *undo {
			verb = web.VerbUndrain
		}
		if err := a.do(c.Context(), o, verb, ""); err != nil || *wait == 0 {
			return err
		}
		if err := a.waitDrained(c.Context(), *wait); err != nil || o.json {
			return err
		}
		_, _ = fmt.Fprintln(a.std.Out, "no VM holds a VF of Sluice's")
		return nil
	}
	return c
}

// drainPoll is the time between two questions whether a drain is done.
const drainPoll = 200 * time.Millisecond

// waitDrained waits until Sluice holds no VF any more.
func (a *app) waitDrained(ctx context.Context, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for held := -1; ; {
		s, err := a.client().Status(ctx)
		if err == nil && s.VFs.Held == 0 && s.Moves.Active == 0 {
			return nil
		}
		if err == nil {
			held = s.VFs.Held
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s %d VFs are still held; `sluice plan` shows what is under way, `sluice vms` who holds them", atMost, held)
		case <-tick.C:
		}
	}
}
