package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/api/v1"
	"sluice/internal/model"
)

func (a *app) vpfSetCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "set VM [NAME]", Short: "set what virtual VFs may do (role operate)",
		Long: `Changes the policy of a VM's virtual VFs, at once and permanently: of all these VFs or, if
that fails, of none. Settings that are not named stay as they are. An empty value removes a
setting: --trunk "". The change also applies at once to a VF that a guest uses with a policy
of its own; where the guest requested something narrower, that stays in force.

Rates are a part of what the VM's SLA (sluice sla) gives the whole virtual PF: --guarantee,
--weight and --limit divide that among its VFs.`,
		Example: `sluice vpf set node-1 --vf 0 --vf 1 --vlan 10
sluice vpf set node-1 --vf 2 --trunk 20-29,40 --spoof-check=false
sluice vpf set node-1 --limit '1Gbit 100kpps' --isolated --check-arp --address 10.0.0.5`,
		Args: vmAndName, ValidArgsFunction: a.completeVPF,
	}
	b := api.SetVPF{}
	c.Flags().IntSliceVar(&b.VFs, "vf", nil, "`number` of the VF, as in virtfn0 in the guest; may be repeated; default: all VFs")
	change := portFlags(c.Flags())
	_ = c.RegisterFlagCompletionFunc("vf", completeList(a.completeVF))
	_ = c.RegisterFlagCompletionFunc("mac", nothingToOffer)
	_ = c.RegisterFlagCompletionFunc("address", nothingToOffer)
	_ = c.RegisterFlagCompletionFunc("link", cobra.FixedCompletions([]string{"auto", "up", "down"}, cobra.ShellCompDirectiveNoFileComp))
	return printing(a, c, func(ctx context.Context, args []string) (r api.Result, err error) {
		b.VM, b.Name, b.Set = args[0], strings.Join(args[1:], ""), change()
		if b.Set == (api.PortChange{}) {
			return r, usage(c, errors.New("nothing is set: give --vlan, --limit or another setting"))
		}
		if err := wrongPort(&b.Set); err != nil {
			return r, usage(c, err)
		}
		return a.client().SetVPF(ctx, b)
	}, printResult)
}

// portFlags adds the settings of a virtual VF, and returns what gives those that are on the command line.
func portFlags(flags *pflag.FlagSet) (change func() api.PortChange) {
	p := api.PortChange{
		MACs: new([]string), VLAN: new(int), Trunk: new(string), SpoofCheck: new(bool), CheckARP: new(bool), Addresses: new([]string),
		Link: new(string), Isolated: new(bool), Guarantee: new(string), Limit: new(string), Receive: new(string), Weight: new(float64),
	}
	flags.StringSliceVar(p.MACs, "mac", nil, "additional `MAC` that it may send from; may be repeated")
	flags.IntVar(p.VLAN, "vlan", 0, "access `VLAN`: the host tags its frames, and it sees no tags; 0: none")
	flags.StringVar(p.Trunk, "trunk", "", "`VLANs` whose tags it uses itself, such as 10-20,30")
	flags.BoolVar(p.SpoofCheck, "spoof-check", false, "drop frames that it sends from other MACs; on unless --spoof-check=false")
	flags.BoolVar(p.CheckARP, "check-arp", false, "drop ARP, RARP and ND for other MACs or addresses,"+
		" and what only routers, DHCP servers and queriers send")
	flags.StringSliceVar(p.Addresses, "address", nil, "IP `address` that it may send from; may be repeated; default: any")
	flags.StringVar(p.Link, "link", "", "`mode` of its link: auto (up while somebody in the guest uses the VF), up or down")
	flags.BoolVar(p.Isolated, "isolated", false, "separate it from other isolated ports of its bridge")
	rateFlag(flags, p.Guarantee, "guarantee", "`rate` that it is promised, as a part of the virtual PF's")
	rateFlag(flags, p.Limit, "limit", "`rate` that it may not exceed when sending, such as '1Gbit 100kpps'")
	rateFlag(flags, p.Receive, "receive", "`rate` that it may not exceed when receiving")
	flags.Float64Var(p.Weight, "weight", 0, "its share of the remaining bandwidth, a `number` from 0.001 to 1000")
	return func() api.PortChange {
		keepGiven(flags, "mac", &p.MACs)
		keepGiven(flags, "vlan", &p.VLAN)
		keepGiven(flags, "trunk", &p.Trunk)
		keepGiven(flags, "spoof-check", &p.SpoofCheck)
		keepGiven(flags, "check-arp", &p.CheckARP)
		keepGiven(flags, "address", &p.Addresses)
		keepGiven(flags, "link", &p.Link)
		keepGiven(flags, "isolated", &p.Isolated)
		keepGiven(flags, "guarantee", &p.Guarantee)
		keepGiven(flags, "limit", &p.Limit)
		keepGiven(flags, "receive", &p.Receive)
		keepGiven(flags, "weight", &p.Weight)
		return p
	}
}

// wrongPort returns what is no value at all, whatever the host.
func wrongPort(p *api.PortChange) error {
	if p.Weight != nil && *p.Weight != 0 && !(*p.Weight >= 0.001 && *p.Weight <= 1000) {
		return errors.New("--weight must be a number from 0.001 to 1000, or 0 for the default")
	}
	if p.Trunk != nil && *p.Trunk != "" {
		if _, err := model.ParseVLANs(*p.Trunk); err != nil {
			return fmt.Errorf("--trunk: %w", err)
		}
	}
	if p.MACs != nil {
		for _, text := range *p.MACs {
			if _, err := model.ParseMAC(text); err != nil {
				return fmt.Errorf("--mac: %w", err)
			}
		}
	}
	return nil
}

// keepGiven unsets a setting whose flag is not on the command line.
func keepGiven[T any](flags *pflag.FlagSet, name string, setting **T) {
	if !flags.Changed(name) {
		*setting = nil
	}
}
