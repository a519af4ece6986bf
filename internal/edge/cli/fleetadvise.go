package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/edge/fleet"
)

func (a *app) fleetAdviseCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "advise [HOST]", Short: "say which VMs should go to which hosts",
		Long: `Says which claims should leave PFs and hosts that have less than is claimed of them, and
where each fits; with HOST, where each of that host's claims fits if it is to be emptied. Each
goes to the PF of the same network that keeps the greatest part of its link free; all moves
fit together. Changes nothing: sluice fleet migrate does.`,
		Example: "sluice fleet advise\nsluice fleet advise host1 -o json", Args: hostArgs(0),
	}
	c.ValidArgsFunction = a.completeOneHost(f)
	return printing(a, c, func(ctx context.Context, args []string) ([]fleet.Advice, error) {
		l, err := a.ledger(ctx, f)
		if err != nil {
			return nil, err
		}
		state, err := l.Fleet(ctx)
		if err != nil || len(args) == 0 {
			return fleet.Relieve(&state), err
		}
		hosts, err := l.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		host, err := fleet.Find(hosts, args[0])
		return fleet.Empty(&state, host), err
	}, printAdvice)
}

func printAdvice(w io.Writer, list []fleet.Advice) {
	if len(list) == 0 {
		fmt.Fprintln(w, "Nothing has to move.")
		return
	}
	var rows [][]string
	for i := range list {
		a := &list[i]
		to, pf := a.Host, a.PF
		if to == "" {
			to, pf = "-", "no host has room"
		}
		rows = append(rows, []string{a.VM, a.MAC, fleet.Rate(a.Kbits, a.Kpackets), a.From, to, pf, a.Why})
	}
	table(w, "VM MAC GUARANTEE FROM TO PF WHY", rows)
}
