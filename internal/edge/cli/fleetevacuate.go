package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/edge/fleet"
)

func (a *app) fleetEvacuateCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "evacuate HOST", Short: "move the claims of a host that is dead to other hosts",
		Long: `Marks the host as drained in the ledger, so that nobody is placed there until it publishes
again, and moves each of its claims, the largest first, to a host with room that reaches the
same network. Start each VM where its claim is now, with its guarantee. Make sure that the
host is off: a VM that still runs there would keep its guarantee without a claim. It may be
repeated. Ends with exit code 1 if a claim fits nowhere.`,
		Example: "sluice fleet evacuate host1 --dead\nsluice fleet evacuate host1 --dead -o json | jq -r '.[] | .uuid + \" \" + .host'",
		Args:    hostArgs(1),
	}
	c.ValidArgsFunction = a.completeOneHost(f)
	dead := c.Flags().Bool("dead", false, "the host is off and will not come back by itself")
	verbose := c.Flags().BoolP("verbose", "v", false, "show progress even if standard error is not a terminal")
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !*dead {
			return usage(c, errors.New("give --dead once you have made sure that the host is off"))
		}
		l, err := a.ledger(c.Context(), f)
		if err != nil {
			return err
		}
		hosts, err := l.Hosts(c.Context())
		if err != nil {
			return err
		}
		host, err := fleet.Find(hosts, args[0])
		if err != nil {
			return err
		}
		tell := func(e *fleet.Evacuated, n, of int) {
			fmt.Fprintf(a.std.Err, "claim %d of %d: %s %s\n", n+1, of, e.VM, e.MAC)
		}
		if !*verbose && !IsTerminal(a.std.Err) {
			tell = nil
		}
		list, err := fleet.Evacuate(c.Context(), l, host, tell)
		if err := show(a.std.Out, o, list, printEvacuated); err != nil {
			return err
		}
		left := 0
		for i := range list {
			if list[i].Host == "" {
				left++
			}
		}
		if err == nil && left > 0 {
			err = fmt.Errorf("%d of %d claims are still at %s: make room elsewhere, then repeat this", left, len(list), host.Name)
		}
		return err
	}
	return c
}

func printEvacuated(w io.Writer, list []fleet.Evacuated) {
	if len(list) == 0 {
		fmt.Fprintln(w, "No claim is to be moved.")
		return
	}
	var rows [][]string
	for i := range list {
		e := &list[i]
		host, pf := e.Host, e.PF
		if host == "" {
			host, pf = "-", e.Why
		}
		rows = append(rows, []string{e.VM, e.MAC, fleet.Rate(e.Kbits, e.Kpackets), host, pf})
	}
	table(w, "VM MAC GUARANTEE HOST PF", rows)
}
