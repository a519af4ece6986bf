package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/api/v1"
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
	f := newPortFlags(c.Flags())
	_ = c.RegisterFlagCompletionFunc("vf", completeList(a.completeVF))
	_ = c.RegisterFlagCompletionFunc("mac", nothingToOffer)
	_ = c.RegisterFlagCompletionFunc("address", nothingToOffer)
	_ = c.RegisterFlagCompletionFunc("link", cobra.FixedCompletions([]string{"auto", "up", "down"}, cobra.ShellCompDirectiveNoFileComp))
	return printing(a, c, func(ctx context.Context, args []string) (r api.Result, err error) {
		b := api.SetVPF{VM: args[0], Name: strings.Join(args[1:], ""), VFs: f.vfs, Set: f.change(c.Flags())}
		if b.Set == (api.PortChange{}) {
			return r, usage(c, errors.New("nothing is set: give --vlan, --limit or another setting"))
		}
		return a.client().SetVPF(ctx, b)
	}, printResult)
}

// portFlags are the settings of a virtual VF on a command line.
type portFlags struct {
	vfs                                    []int
	macs, addresses                        []string
	vlan                                   int
	trunk, link, guarantee, limit, receive string
	weight                                 float64
	spoof, arp, isolated                   bool
}

func newPortFlags(flags *pflag.FlagSet) *portFlags {
	f := &portFlags{}
	flags.IntSliceVar(&f.vfs, "vf", nil, "`number` of the VF, as in virtfn0 in the guest; may be repeated; default: all VFs")
	flags.StringSliceVar(&f.macs, "mac", nil, "additional `MAC` that it may send from; may be repeated")
	flags.IntVar(&f.vlan, "vlan", 0, "access `VLAN`: the host tags its frames, and it sees no tags; 0: none")
	flags.StringVar(&f.trunk, "trunk", "", "`VLANs` whose tags it uses itself, such as 10-20,30")
	flags.BoolVar(&f.spoof, "spoof-check", false, "drop frames that it sends from other MACs; on unless --spoof-check=false")
	flags.BoolVar(&f.arp, "check-arp", false, "drop ARP, RARP and ND for other MACs or addresses,"+
		" and what only routers, DHCP servers and queriers send")
	flags.StringSliceVar(&f.addresses, "address", nil, "IP `address` that it may send from; may be repeated; default: any")
	flags.StringVar(&f.link, "link", "", "`mode` of its link: auto (up while somebody in the guest uses the VF), up or down")
	flags.BoolVar(&f.isolated, "isolated", false, "separate it from other isolated ports of its bridge")
	flags.StringVar(&f.guarantee, "guarantee", "", "`rate` that it can always send at, as a part of the virtual PF's")
	flags.StringVar(&f.limit, "limit", "", "`rate` that it may not exceed when sending, such as '1Gbit 100kpps'")
	flags.StringVar(&f.receive, "receive", "", "`rate` that it may not exceed when receiving")
	flags.Float64Var(&f.weight, "weight", 0, "its share of the remaining bandwidth, a `number` from 0.001 to 1000")
	return f
}

// change returns the settings whose flags were given.
func (f *portFlags) change(flags *pflag.FlagSet) (c api.PortChange) {
	given(flags, "mac", &c.MACs, &f.macs)
	given(flags, "vlan", &c.VLAN, &f.vlan)
	given(flags, "trunk", &c.Trunk, &f.trunk)
	given(flags, "spoof-check", &c.SpoofCheck, &f.spoof)
	given(flags, "check-arp", &c.CheckARP, &f.arp)
	given(flags, "address", &c.Addresses, &f.addresses)
	given(flags, "link", &c.Link, &f.link)
	given(flags, "isolated", &c.Isolated, &f.isolated)
	given(flags, "guarantee", &c.Guarantee, &f.guarantee)
	given(flags, "limit", &c.Limit, &f.limit)
	given(flags, "receive", &c.Receive, &f.receive)
	given(flags, "weight", &c.Weight, &f.weight)
	return c
}

func given[T any](flags *pflag.FlagSet, name string, to **T, value *T) {
	if flags.Changed(name) {
		*to = value
	}
}
