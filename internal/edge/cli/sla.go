package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/api/v1"
)

func (a *app) slaCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sla", Short: "show and set what each NIC is guaranteed and allowed",
		Long: `Lists the SLA in force for each NIC: the rate it is promised, the rates it may never
exceed, its weight in sharing the remaining bandwidth, and where these are set. The order
of precedence is: sluice sla set, the domain's metadata in libvirt, the first matching rule
of sluice.yaml, the class. sluice bw shows the effect.`,
		Example: `sluice sla
sluice sla --filter guarantee!=- --sort guarantee
sluice sla set db-1 --guarantee 2Gbit --for 1h
sluice sla clear db-1`,
		Args: cobra.ArbitraryArgs,
	}
	list := listing(a, c, a.slaLister(nil)).RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return subcommandWanted(c, args)
		}
		return list(c, args)
	}
	c.AddCommand(a.slaShowCommand(), a.slaSetCommand(), a.slaClearCommand())
	return c
}

func (a *app) slaShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show [VM]", Short: "list the SLAs in force, of all VMs or of one",
		Long:    `Lists the same as sluice sla. With a VM, only its NICs, and what was set for them at run time.`,
		Example: "sluice sla show db-1\nsluice sla show -o json | jq '.[] | select(.guarantee.bits_per_second > 0)'",
		Args:    atMostOneVM, ValidArgsFunction: a.completeVM,
	}
	return listing(a, c, a.slaLister(func(w io.Writer, list []api.NICSLA, table func()) {
		table()
		if c.Flags().NArg() > 0 {
			printSetSLAs(w, list)
		}
	}))
}

// slaColumns are the columns of `sluice sla`.
var slaColumns = []string{"VM", "NIC", "GUARANTEE", "LIMIT", "RECEIVE", "WEIGHT", "CLASS", "SOURCE"}

func (a *app) slaLister(text func(io.Writer, []api.NICSLA, func())) lister[[]api.NICSLA] {
	return lister[[]api.NICSLA]{
		columns: slaColumns, get: a.slas, grid: slaGrid, text: text,
		keep: func(list *[]api.NICSLA, rows []int) { *list = pickRows(*list, rows) },
	}
}

// slas returns the SLAs of all VMs, or of one.
func (a *app) slas(ctx context.Context, args []string) ([]api.NICSLA, error) {
	list, err := a.client().SLAs(ctx)
	if err != nil || len(args) == 0 {
		return list, err
	}
	e, err := a.client().Explain(ctx, args[0]) // resolves names and UUIDs, and suggests similar names
	return slices.DeleteFunc(list, func(s api.NICSLA) bool { return s.ID != e.VM.ID }), err
}

func slaGrid(list []api.NICSLA) grid {
	g := grid{head: slaColumns, drop: []string{"SOURCE", "RECEIVE", "WEIGHT", "CLASS"}}
	for i := range list {
		s := &list[i]
		guarantee := rateText(s.Guarantee)
		if s.Promised != s.Guarantee {
			guarantee += " (" + cmp.Or(rateText(s.Promised), "nothing") + " of it promised)"
		}
		g.rows = append(g.rows, []string{
			s.VM, s.NIC, guarantee, rateText(s.Limit), rateText(s.Receive), fmt.Sprintf("%g", s.Weight), s.Class, s.Source,
		})
	}
	return g
}

// printSetSLAs prints what was set at run time for the NICs of a VM, each setting once.
func printSetSLAs(w io.Writer, list []api.NICSLA) {
	printed := map[string]bool{} // by pattern of NICs
	for i := range list {
		for _, o := range list[i].Overrides {
			if !printed[o.NIC] {
				fmt.Fprintf(w, "set at run time: %s;%s\n", printable(slaText(o)), overrideText(o))
			}
			printed[o.NIC] = true
		}
	}
}

// slaText says what an override sets, and for which NICs.
func slaText(o *api.Override) string {
	s := api.SLA{}
	if o.SLA != nil {
		s = *o.SLA
	}
	var list []string
	for _, p := range [][2]string{{"nic", o.NIC}, {"guarantee", s.Guarantee}, {"limit", s.Limit}, {"receive", s.Receive}, {"class", s.Class}} {
		if p[1] != "" {
			list = append(list, p[0]+" "+p[1])
		}
	}
	if s.Weight > 0 {
		list = append(list, fmt.Sprintf("weight %g", s.Weight))
	}
	return strings.Join(list, ", ")
}

func (a *app) slaSetCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "set VM", Short: "set what a VM's NICs are guaranteed and allowed (role operate)",
		Long: `What is set here overrides the domain's metadata, sluice.yaml and the class, field by
field. It takes effect at once, lasts until sluice sla clear or until the end given by
--for or --until, survives a restart of the daemon, and replaces what was set before for
the same --nic. Rates have units, as in sluice.yaml: bits apply to each NIC, packets/s to
the whole VM. A guarantee that the link cannot carry in addition to all others is refused,
unless sluice.yaml has bandwidth.overcommit: allow. While --receive or a --limit in
packets/s is set, which cannot be enforced on a VF, the VM has no VF.`,
		Example: `sluice sla set db-1 --guarantee 2Gbit --for 1h --reason 'nightly copy'
sluice sla set web-1 --nic ua-net1 --limit '1Gbit 100kpps' --receive 2Gbit
sluice sla set db-1 --class gold --weight 4 --until 06:00`,
		Args: oneVM, ValidArgsFunction: a.completeVM,
	}
	f := newOverrideFlags(c)
	var r api.Request
	s := &api.SLA{}
	rateFlag(c.Flags(), &s.Guarantee, "guarantee", "`rate` that it is promised, such as 2Gbit or '2Gbit 50kpps'")
	rateFlag(c.Flags(), &s.Limit, "limit", "`rate` that it may not exceed when sending")
	rateFlag(c.Flags(), &s.Receive, "receive", "`rate` that it may not exceed when receiving")
	c.Flags().Float64Var(&s.Weight, "weight", 0, "its share of the remaining bandwidth, a `number` from 0.001 to 1000")
	c.Flags().StringVar(&s.Class, "class", "", "`name` of a class of sluice.yaml")
	a.nicFlag(c, &r)
	_ = c.RegisterFlagCompletionFunc("class", a.completeClass)
	return printing(a, c, func(ctx context.Context, args []string) (none api.Result, err error) {
		if c.Flags().Changed("weight") && !(s.Weight >= 0.001 && s.Weight <= 1000) {
			return none, usage(c, errors.New("--weight must be a number from 0.001 to 1000; to remove what was set, use sluice sla clear"))
		}
		if *s == (api.SLA{}) {
			return none, usage(c, errors.New("nothing is set: give --guarantee, --limit, --receive, --weight or --class"))
		}
		r.VM, r.SLA = args[0], s
		if err := f.fill(a, c, &r); err != nil {
			return none, err
		}
		return a.client().Do(ctx, api.VerbSetSLA, r)
	}, printResult)
}

func (a *app) slaClearCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "clear VM", Short: "remove what sluice sla set has set (role operate)",
		Long: `The VM's SLA then comes from its metadata, sluice.yaml and its class again. With --nic, only
what was set with the same --nic is removed.`,
		Example: "sluice sla clear db-1\nsluice sla clear web-1 --nic ua-net1",
		Args:    oneVM, ValidArgsFunction: a.completeOverridden(true),
	}
	var r api.Request
	a.nicFlag(c, &r)
	return printing(a, c, func(ctx context.Context, args []string) (api.Result, error) {
		r.VM = args[0]
		return a.client().Do(ctx, api.VerbClearSLA, r)
	}, printResult)
}

// nicFlag adds --nic.
func (a *app) nicFlag(c *cobra.Command, r *api.Request) {
	c.Flags().StringVar(&r.NIC, "nic", "", "its NICs with this alias, MAC or network, a `pattern` as in the shell; default: all NICs")
	_ = c.RegisterFlagCompletionFunc("nic", a.completeNIC)
}
