package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/control/placement"
	"sluice/internal/model"
	"sluice/internal/research/scenario"
	"sluice/internal/research/sim"
)

func (a *app) demoCommand() *cobra.Command {
	o := DemoOptions{}
	c := &cobra.Command{
		Use: "demo", Short: "run the daemon on a simulated host",
		Long: `Runs the same daemon on a simulated host whose VMs change their loads, faster than real
time, and shows what it decides and does: on a terminal as sluice top does, otherwise as
lines. With --open or --listen it is shown in a browser instead, and the terminal shows
only the link until you press Ctrl-C. It needs no root and touches nothing. With --socket,
the other commands work with it as with a real daemon, and can set guarantees of bandwidth,
which it enforces too.

Things go wrong on that host, in the first minute and again later: plugs fail, a guest
lies about its load, the link of a PF goes down, more is guaranteed on a link than it
carries, a VF that somebody else attached takes what is guaranteed to others, and VMs are
set up wrongly, which sluice prepare corrects there too. sluice doctor has a remedy for
each; --troubles=false leaves them out.`,
		Example: `sluice demo
sluice demo --open
sluice demo --listen 127.0.0.1:8642
sluice demo --open --mode observe
sluice demo --uplink ovn
sluice demo --vms 200 --vfs 32 --policy fair --speed 300
sluice demo --plain --for 30m
sluice demo --for 24h --socket /tmp/s.sock >/dev/null &
sluice --socket /tmp/s.sock doctor
sluice --socket /tmp/s.sock explain lab-liar
sluice --socket /tmp/s.sock sla set db-00 --guarantee 2Gbit`,
		Args: noArgs,
	}
	c.Flags().IntVar(&o.VMs, "vms", 100, "`number` of VMs")
	c.Flags().IntVar(&o.VFs, "vfs", 63, "`number` of VFs")
	c.Flags().StringVar(&o.Policy, "policy", model.DefaultPolicy, "placement policy, by `name`")
	c.Flags().DurationVar(&o.Interval, "interval", 0, "virtual `time` between two rounds of the policy; 0: the policy's own")
	c.Flags().Float64Var(&o.Speed, "speed", 60, "virtual seconds per real second, as a `factor`")
	c.Flags().DurationVar(&o.For, "for", 0, "virtual `time` to run for; 0: until interrupted; default: 0 on a terminal, else 20m")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "`number` that determines everything random")
	c.Flags().StringVar((*string)(&o.Mode), "mode", string(model.ModeEnforce), "`mode` of the daemon: observe or enforce")
	c.Flags().StringVar(&o.Uplink, "uplink", string(sim.Bridge), "switch and NIC, by `name`: bridge, representors, ovs or ovn")
	c.Flags().BoolVar(&o.Troubles, "troubles", true, "let things go wrong on the host, if it has 24 VMs and 12 VFs or more")
	c.Flags().StringVar(&o.Socket, "socket", "", "also serve the API at this unix `path`")
	c.Flags().StringVar(&o.Listen, "listen", "", "also serve the page and the API, read-only, at this TCP `address`, such as 127.0.0.1:8642")
	open := c.Flags().Bool("open", false, "open the page in the desktop's browser")
	_ = c.RegisterFlagCompletionFunc("mode", modes)
	_ = c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(placement.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("uplink", cobra.FixedCompletions(uplinks(), cobra.ShellCompDirectiveNoFileComp))
	plain := c.Flags().Bool("plain", false, "print lines even on a terminal")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o.Version, o.Interval = a.deps.Version, cmp.Or(o.Interval, placement.Interval(o.Policy))
		if err := checkDemo(o); err != nil {
			return usage(c, err)
		}
		terminal, page := IsTerminal(a.std.Out), *open || o.Listen != ""
		if !terminal && !page && !c.Flags().Changed("for") {
			o.For = unattendedSpan
		}
		d := demo{app: a, o: o, open: *open, screen: terminal && !*plain && !page, lines: !terminal || *plain}
		return d.run(c.Context())
	}
	return c
}

// uplinks lists the values of --uplink.
func uplinks() (names []string) {
	for _, u := range sim.Uplinks {
		names = append(names, string(u))
	}
	return names
}

// unattendedSpan is the virtual duration of a demo whose output is not a terminal: long enough for loads to change so
// much that VFs move.
const unattendedSpan = 20 * time.Minute

// demoHead says what is shown and how it ends.
func demoHead(o DemoOptions) string {
	end := "until Ctrl-C"
	if o.For > 0 {
		end = fmt.Sprintf("for %s of virtual time (see --for) or until Ctrl-C", o.For)
	}
	head := fmt.Sprintf("Simulated host of %s and %s, %g times as fast as real time, %s", model.Plural(o.VMs, "VM"), model.Plural(o.VFs, "VF"),
		o.Speed, end)
	if o.Troubled() {
		head += "\nPlugs fail on it, and more goes wrong, on purpose (--troubles=false leaves that out)"
	}
	return head
}

// demoNext says what to try after a demo.
const demoNext = "Next: `sluice demo --open` shows it in a browser, `sluice demo --help` says how to try other commands on it, " +
	"and docs/first-hour.md begins on a real host"

// checkDemo rejects options that no demo can run with.
func checkDemo(o DemoOptions) error {
	const most = 10000
	for _, e := range scenario.CheckPolicy(o.Policy, nil) {
		return fmt.Errorf("--policy: %s; %s", e.Text, e.Remedy)
	}
	switch {
	case o.VMs < 1 || o.VMs > most:
		return fmt.Errorf("--vms must be from 1 to %d", most)
	case o.VFs < 0 || o.VFs > most:
		return fmt.Errorf("--vfs must be from 0 to %d", most)
	case o.Interval < time.Second:
		return errors.New("--interval must be at least 1s")
	case !(o.Speed > 0):
		return errors.New("--speed must be above 0")
	case o.Mode != model.ModeObserve && o.Mode != model.ModeEnforce:
		return fmt.Errorf("--mode must be observe or enforce, not %q", o.Mode)
	case !slices.Contains(uplinks(), o.Uplink):
		return fmt.Errorf("--uplink must be one of %s, not %q", strings.Join(uplinks(), ", "), o.Uplink)
	case o.For < 0:
		return errors.New("--for must not be negative")
	}
	return nil
}
