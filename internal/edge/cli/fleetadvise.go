package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/prometheus"
)

// adviceRule says how a host is chosen.
const adviceRule = `Each goes to the PF of the same network that keeps the greatest part of its link free, of what is
claimed or, with --prometheus, of what is sent if that is more; all moves fit together. With
--prometheus it also says how many VFs are free at that PF: without one the VM stays on virtio there,
until it gains more from a VF than others. Changes nothing: sluice fleet migrate does.`

func (a *app) fleetAdviseCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "advise", Short: "say which VMs should leave hosts on which too much is claimed",
		Long: `Says which claims should leave PFs and hosts that have less than is claimed of them, and
where each fits. ` + adviceRule,
		Example: "sluice fleet advise\nsluice fleet advise -o json", Args: noArgs,
	}
	prom := promFlag(c)
	return printing(a, c, func(ctx context.Context, _ []string) ([]fleet.Advice, error) {
		state, seen, _, err := a.claimed(ctx, f, *prom)
		if err != nil {
			return nil, err
		}
		return fleet.Relieve(&state, seen), nil
	}, printAdvice)
}

func (a *app) fleetDrainCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "drain HOST", Short: "say where the VMs of a host can go",
		Long: `Says where each of that host's claims fits if it is to be emptied, the largest first.
` + adviceRule + `

Run sluice drain on that host first: then no VM is placed there, and its VMs give their VFs
back, so that they can migrate.`,
		Example: "sluice fleet drain host1\nsluice fleet drain host1 -o json | jq -r '.[] | .uuid + \" \" + .host'", Args: hostArgs(1),
	}
	c.ValidArgsFunction = a.completeOneHost(f)
	prom := promFlag(c)
	return printing(a, c, func(ctx context.Context, args []string) ([]fleet.Advice, error) {
		state, seen, hosts, err := a.claimed(ctx, f, *prom)
		if err != nil {
			return nil, err
		}
		host, err := fleet.Find(hosts, args[0])
		return fleet.Empty(&state, host, seen), err
	}, printAdvice)
}

// claimed reads the whole ledger and, if prom is an address, what the PFs send and how many of their VFs are free.
func (a *app) claimed(ctx context.Context, f *fleetFlags, prom string) (s fleet.State, seen fleet.Seen, hosts []fleet.Host, err error) {
	l, err := a.ledger(ctx, f)
	if err == nil {
		hosts, err = l.Hosts(ctx)
	}
	if err == nil {
		if IsTerminal(a.std.Err) {
			fmt.Fprintf(a.std.Err, "reading the claims at %d hosts\n", len(hosts))
		}
		s, err = l.Fleet(ctx)
	}
	if err == nil && prom != "" {
		seen.Kbits, err = prometheus.Load(ctx, prom, hosts)
	}
	if err == nil && prom != "" {
		var unseen error // the advice does not depend on it
		if seen.VFs, unseen = prometheus.FreeVFs(ctx, prom, hosts); unseen != nil {
			fmt.Fprintf(a.std.Err, "how many VFs are free is not known: %v\n", unseen)
		}
	}
	return s, seen, hosts, err
}

func printAdvice(w io.Writer, list []fleet.Advice) {
	if len(list) == 0 {
		fmt.Fprintln(w, "Nothing has to move.")
		return
	}
	var rows [][]string
	for i := range list {
		a := &list[i]
		to, pf, vfs := a.Host, a.PF, "-"
		if a.VFs != nil {
			vfs = strconv.Itoa(*a.VFs)
		}
		if to == "" {
			to, pf = "-", "no host has room"
		}
		rows = append(rows, []string{a.VM, a.MAC, fleet.Rate(a.Kbits, a.Kpackets), a.From, to, pf, vfs, a.Why})
	}
	table(w, "VM MAC GUARANTEE FROM TO PF FREE-VFS WHY", rows)
}
