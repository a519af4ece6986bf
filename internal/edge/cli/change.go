package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/model"
)

// do requests a change and prints the result.
func (a *app) do(ctx context.Context, o *output, verb api.Verb, r api.Request) error {
	res, err := a.client().Do(ctx, verb, r)
	if err != nil {
		return err
	}
	return show(a.std.Out, o, res, printResult)
}

func printResult(w io.Writer, r api.Result) {
	fmt.Fprintln(w, printable(r.Text))
	for _, d := range r.Details {
		fmt.Fprintf(w, "    %s\n", printable(d))
	}
}

// overrideFlags are the flags of commands that start an override.
type overrideFlags struct {
	reason, until string
	span          time.Duration
}

func newOverrideFlags(c *cobra.Command) *overrideFlags {
	f := &overrideFlags{}
	c.Flags().StringVar(&f.reason, "reason", "", "the reason, as a `text` that sluice overrides shows")
	c.Flags().DurationVar(&f.span, "for", 0, "end it automatically after this `time`, such as 2h")
	c.Flags().StringVar(&f.until, "until", "", "end it automatically at this `time`, such as 17:30 or 2026-03-01T17:30:00+01:00")
	return f
}

// fill copies the flags to a request.
func (f *overrideFlags) fill(a *app, c *cobra.Command, r *api.Request) error {
	r.Reason, r.For = f.reason, f.span.Seconds()
	switch {
	case f.span != 0 && f.until != "":
		return usage(c, errors.New("--for and --until exclude each other; leave one out"))
	case f.span < 0 || c.Flags().Changed("for") && f.span < time.Second:
		return usage(c, errors.New("--for must be at least 1s"))
	case f.until == "":
		return nil
	}
	if _, err := parseMoment(f.until, time.Now()); err != nil {
		return usage(c, fmt.Errorf("--until %s: %w", visible(f.until), err))
	}
	now, err := a.now(c.Context())
	if err == nil {
		r.Until, err = parseMoment(f.until, now.Local())
	}
	return err
}

// now is the time by the daemon's clock: that of a demo runs faster than ours.
func (a *app) now(ctx context.Context) (time.Time, error) {
	s, err := a.client().Status(ctx)
	if err != nil || s.Observed.IsZero() {
		return time.Now(), err
	}
	return s.Observed.Add(time.Duration(s.Age * float64(time.Second))), nil
}

// parseMoment parses a future time: a time of day (its next occurrence), a local date and time, or RFC 3339.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if !at.After(now) {
				at = at.AddDate(0, 0, 1)
			}
			return at, nil
		}
	}
	return time.Time{}, errors.New("want a time such as 17:30, 2026-03-01 17:30 or 2026-03-01T17:30:00+01:00")
}

// vmsCommandFor sets up what commands on VMs have in common.
func (a *app) vmsCommandFor(verb api.Verb, c *cobra.Command) *cobra.Command {
	c.Args, c.ValidArgsFunction = someVMs, a.completeVMs
	o := outputFlag(c)
	f, all, wait := &overrideFlags{}, new(bool), new(time.Duration)
	done, left := " has a VF", a.stillWithout
	switch verb {
	case api.VerbUnpin:
		c.ValidArgsFunction = a.completeOverridden(false)
		all = c.Flags().Bool("all", false, "all VMs that are pinned or released")
	case api.VerbRelease:
		wait = c.Flags().Duration("wait", 0, "wait up to this `time` until the VMs no longer hold a VF")
		done, left = " holds no VF", a.stillHeld
	default:
		wait = c.Flags().Duration("wait", 0, "wait up to this `time` until the VMs have their VFs")
	}
	if verb.Overrides() {
		f = newOverrideFlags(c)
	}
	c.RunE = func(c *cobra.Command, vms []string) error {
		var r api.Request
		if err := f.fill(a, c, &r); err != nil {
			return err
		}
		if *all {
			var err error
			if vms, err = a.overridden(c.Context()); err != nil {
				return err
			}
			if len(vms) == 0 && !o.json {
				fmt.Fprintln(a.std.Out, "No VM is pinned or released.")
			}
		}
		unmet := a.doEach(c.Context(), o, verb, r, vms)
		if *wait == 0 || unmet != nil && !errors.Is(unmet, errObstacle) {
			return unmet
		}
		var texts []string
		for _, vm := range vms {
			texts = append(texts, printable(vm)+done)
		}
		err := a.waitUntil(c.Context(), o, *wait, strings.Join(texts, "\n"), func(ctx context.Context) (string, error) {
			for _, vm := range vms {
				if text, err := left(ctx, vm); err != nil || text != "" {
					return text, err
				}
			}
			return "", nil
		})
		if err != nil && unmet != nil {
			printError(a.std.Err, err)
			return unmet
		}
		return err
	}
	return c
}

// doEach requests a change of each VM and prints the results, as a list if there are several. It goes on after an error that concerns
// one VM.
func (a *app) doEach(ctx context.Context, o *output, verb api.Verb, r api.Request, vms []string) error {
	var failed, unmet error
	list := []api.Result{}
	for _, vm := range vms {
		r.VM = vm
		res, err := a.client().Do(ctx, verb, r)
		switch {
		case err != nil && (len(vms) == 1 || errors.Is(err, client.ErrUnreachable) || ctx.Err() != nil):
			return err
		case err != nil:
			printError(a.std.Err, err)
			failed = errPrinted
			continue
		case res.Obstacle != "":
			unmet = errObstacle
		}
		if list = append(list, res); !o.json {
			if err := show(a.std.Out, o, res, printResult); err != nil {
				return err
			}
		}
	}
	var err error
	switch {
	case o.json && len(vms) == 1:
		err = show(a.std.Out, o, list[0], nil)
	case o.json:
		err = show(a.std.Out, o, list, nil)
	}
	return cmp.Or(err, failed, unmet)
}

// overridden lists the VMs that are pinned or released at run time.
func (a *app) overridden(ctx context.Context) (vms []string, _ error) {
	list, err := a.client().Overrides(ctx)
	for i := range list {
		if k := list[i].Kind; k == api.VerbPin || k == api.VerbRelease {
			vms = append(vms, cmp.Or(list[i].ID, list[i].Name))
		}
	}
	return vms, err
}

func (a *app) pinCommand() *cobra.Command {
	return a.vmsCommandFor(api.VerbPin, &cobra.Command{
		Use: "pin VM...", Short: "always give VMs a VF (role operate)",
		Long: `Gives each VM a VF whatever the policy decides, until sluice unpin or sluice release, or
until the end given by --for or --until. A pin overrides sluice.yaml and survives a
restart of the daemon. A VM that cannot have a VF now stays on virtio nevertheless: the
answer says why, the exit code is 5, and it gets one once nothing is in the way. sluice
overrides lists who pinned which VM, and why.`,
		Example: "sluice pin db-1 --for 2h --reason 'month-end run'\nsluice pin db-1 db-2 --wait 1m",
	})
}

func (a *app) releaseCommand() *cobra.Command {
	return a.vmsCommandFor(api.VerbRelease, &cobra.Command{
		Use: "release VM...", Short: "take VMs' VFs away and give them none (role operate)",
		Long: `Moves each VM back to virtio without interrupting its traffic. It gets no VF until sluice
unpin or sluice pin, or until the end given by --for or --until. A release overrides
sluice.yaml and survives a restart of the daemon. A VM that must keep its VF, as one that
somebody else attached, keeps it: the answer says why, and the exit code is 5.`,
		Example: `sluice release db-1 --for 10m --wait 1m && virsh managedsave db-1
sluice release batch-7 --until 06:00
sluice unpin batch-7        # the policy decides again`,
	})
}

func (a *app) unpinCommand() *cobra.Command {
	return a.vmsCommandFor(api.VerbUnpin, &cobra.Command{
		Use: "unpin VM...", Short: "let the policy decide again, after pin or release (role operate)",
		Long:    `Removes the overrides that sluice pin or sluice release set for these VMs.`,
		Example: "sluice unpin db-1\nsluice unpin --all",
	})
}

func (a *app) reloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "reload", Short: "read sluice.yaml and conf.d again (role own)",
		Long: `Does what systemctl reload sluice does, and prints the errors. After an error the daemon
keeps its present configuration. The reload itself takes no VF away from a VM: it lists
the VFs that Sluice no longer manages, which stay attached. A changed policy, rules or PFs
take effect at the next sample.`,
		Example: "sluice config check && sluice reload",
		Args:    noArgs,
	}
	return printing(a, c, func(ctx context.Context, _ []string) (api.Result, error) {
		return a.client().Do(ctx, api.VerbReload, api.Request{})
	}, printResult)
}

func (a *app) drainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "drain", Short: "take all VFs back cleanly; --undo ends that (role operate)",
		Long: `Moves every VM back to virtio, step by step and without interrupting its traffic. No VM
gets a VF until sluice drain --undo, or until the end given by --for or --until; a restart
of the daemon does not end the drain. VFs that somebody else attached stay. Use it before
maintenance of a network card or its driver, or before removing Sluice.`,
		Example: "sluice drain --wait 2m --reason 'new firmware'\nsluice drain --undo",
		Args:    noArgs,
	}
	o, f := outputFlag(c), newOverrideFlags(c)
	undo := c.Flags().Bool("undo", false, "end the drain: assign VFs again")
	wait := c.Flags().Duration("wait", 0, "wait up to this `time` until no VM holds a VF from Sluice")
	c.RunE = func(c *cobra.Command, _ []string) error {
		verb, r := api.VerbDrain, api.Request{}
		if *undo {
			verb = api.VerbUndrain
		}
		if err := f.fill(a, c, &r); err != nil {
			return err
		}
		if *undo && (*wait != 0 || r != api.Request{}) {
			return usage(c, errors.New("--wait, --reason, --for and --until cannot be combined with --undo"))
		}
		if err := a.do(c.Context(), o, verb, r); err != nil || *wait == 0 {
			return err
		}
		return a.waitUntil(c.Context(), o, *wait, "no VM holds a VF from Sluice", a.notDrained)
	}
	return c
}

// notDrained says what Sluice still holds, "" if nothing.
func (a *app) notDrained(ctx context.Context) (string, error) {
	s, err := a.client().Status(ctx)
	if err != nil || !s.Observed.IsZero() && s.VFs.Held == 0 && s.Moves.Active == 0 {
		return "", err
	}
	return model.Plural(s.VFs.Held, "VF") + " still held; `sluice plan` shows the moves under way, `sluice vms` the holders", nil
}

// stillHeld says which VF a VM still holds, "" if none.
func (a *app) stillHeld(ctx context.Context, vm string) (string, error) {
	e, err := a.client().Explain(ctx, vm)
	if err != nil {
		return "", err
	}
	vfs, err := a.client().VFs(ctx)
	if err != nil {
		return "", err
	}
	why := fmt.Sprintf("; `sluice explain %s` says why", printable(vm))
	for i := range vfs {
		if v := &vfs[i]; v.HolderID == e.VM.ID {
			return v.Name + " still held" + why, nil
		}
	}
	if e.VM.UnderWay != "" {
		return e.VM.UnderWay + " still under way" + why, nil
	}
	return "", nil
}

// stillWithout says why a VM has no VF yet, "" if it has one.
func (a *app) stillWithout(ctx context.Context, vm string) (string, error) {
	e, err := a.client().Explain(ctx, vm)
	if err != nil || e.VM.VF != "" && e.VM.UnderWay == "" {
		return "", err
	}
	return printable(e.Sentence), nil
}

// waitUntil calls left at every change until nothing is left, and then prints done.
func (a *app) waitUntil(ctx context.Context, o *output, atMost time.Duration, done string,
	left func(context.Context) (string, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var revision uint64
	for what := "the daemon has not answered"; ; {
		now, err := left(ctx)
		if err == nil && now == "" {
			if !o.json {
				fmt.Fprintln(a.std.Out, done)
			}
			return nil
		}
		if err == nil {
			what = now
			revision, err = a.client().After(ctx, revision)
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("after %s: %s", atMost, what)
		case err != nil:
			return err
		}
	}
}
