package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
)

func (a *app) vpfCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "vpf", Short: "SR-IOV inside VMs: virtual PFs, their VFs and the policy of each",
		Long: `A virtual PF is an SR-IOV physical function that QEMU (10.1 or later) emulates for a VM,
which can hand its virtual VFs to containers and pods. Each virtual VF is a tap on a
bridge of the host, or a vDPA device, and the host enforces a policy on it that not even
root in the guest can change: MACs, VLANs, spoof check, rates, isolation, link.

They are defined while the VM is shut off, and are part of its XML in libvirt from then
on. docs/virtual-pf.md shows the way from there to two pods with a virtual VF each.`,
		Example: "sluice vpf define node-1 --vfs 4 --network br0\nsluice vpf\nsluice vpf set node-1 --vf 0 --vlan 10 --limit 1Gbit",
		Args:    cobra.ArbitraryArgs,
	}
	list := answering(a, c, (*client.Client).VirtualPFs, printVPFs).RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return subcommandWanted(c, args)
		}
		return list(c, args)
	}
	c.AddCommand(a.vpfListCommand(), a.vpfShowCommand(), a.vpfDefineCommand(), a.vpfUndefineCommand(), a.vpfSetCommand())
	return c
}

func (a *app) vpfListCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "list the virtual PFs of all VMs",
		Long:    "Lists each virtual PF with the number of its VFs in use and the number of problems.",
		Example: "sluice vpf list\nsluice vpf list -o json | jq '.[] | select(.problems != [])'",
		Args:    noArgs,
	}
	return answering(a, c, (*client.Client).VirtualPFs, printVPFs)
}

func printVPFs(w io.Writer, list []api.VirtualPF) {
	if len(list) == 0 {
		fmt.Fprintln(w, "No VM has a virtual PF. See: sluice help vpf define")
		return
	}
	var rows [][]string
	for i := range list {
		p := &list[i]
		used, vfs, problems := 0, 0, len(p.Problems)
		for k := range p.Functions {
			f := &p.Functions[k]
			problems += len(f.Problems)
			if f.VF >= 0 {
				vfs++
				if f.Link == "up" {
					used++
				}
			}
		}
		state := "running"
		if !p.Running {
			state = cmp.Or(p.Why, "its VM is off")
		}
		if problems > 0 {
			state += fmt.Sprintf("; problems: %d", problems)
		}
		rows = append(rows, []string{p.VM, p.Name, p.Model, p.Backend, p.Network, p.MAC, fmt.Sprintf("%d of %d", used, vfs), state})
	}
	table(w, "VM NAME MODEL BACKEND NETWORK MAC LINKS-UP STATE", rows)
}

func (a *app) vpfShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show VM [NAME]", Short: "show each virtual VF of a VM: policy, owner, dropped packets",
		Long: `Shows the functions of a VM's virtual PFs, or of one of them, with

    LINK      that the guest sees; a virtual VF's is down until its policy is in force and, if
              the guest has a channel to the daemon, somebody in it has requested the VF
    IN-FORCE  whether the policy, read back from the kernel, is as it should be
    DROPPED   packets by reason: spoof (forbidden sender), VLAN, rate

and the problems found, with remedies.`,
		Example: "sluice vpf show node-1\nsluice vpf show node-1 vpf1 -o json",
		Args:    vmAndName, ValidArgsFunction: a.completeVPF,
	}
	return printing(a, c, a.findVPFs, printVPF)
}

// findVPFs returns the virtual PFs of a VM (name or UUID), or the one with the given name.
func (a *app) findVPFs(ctx context.Context, args []string) ([]api.VirtualPF, error) {
	list, err := a.client().VirtualPFs(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(p api.VirtualPF) bool {
		return p.VM != args[0] && !strings.EqualFold(p.ID, args[0]) || len(args) > 1 && p.Name != args[1]
	})
	if len(list) == 0 {
		what := fmt.Sprintf("%q", args[0])
		if len(args) > 1 {
			what += fmt.Sprintf(" called %q", args[1])
		}
		return nil, &api.Error{Text: "there is no virtual PF of " + what, Remedy: "see `sluice vpf list`, or create one: `sluice vpf define`"}
	}
	return list, nil
}

func printVPF(w io.Writer, list []api.VirtualPF) {
	for i := range list {
		p := &list[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s of %s: %s over %s on %s\n", printable(p.Name), printable(p.VM), printable(p.Model), printable(p.Backend),
			printable(p.Network))
		if !p.Running {
			fmt.Fprintf(w, "not present now: %s\n", printable(cmp.Or(p.Why, "its VM is off")))
		}
		var rows [][]string
		for k := range p.Functions {
			rows = append(rows, functionRow(&p.Functions[k]))
		}
		table(w, "FUNCTION MAC TAP LINK IN-FORCE OWNER DROPPED POLICY", rows)
		printVPFProblems(w, p)
	}
}

func printVPFProblems(w io.Writer, p *api.VirtualPF) {
	problems := slices.Clone(p.Problems)
	for k := range p.Functions {
		f := &p.Functions[k]
		problems = append(problems, f.Problems...)
		if f.Why != "" {
			fmt.Fprintf(w, "%s: link down: %s\n", functionName(f), printable(f.Why))
		}
	}
	for _, q := range problems {
		fmt.Fprintf(w, "%s: %s\n", printable(q.Subject), printable(q.Text))
		if q.Remedy != "" {
			fmt.Fprintf(w, "    %s\n", printable(q.Remedy))
		}
	}
}

func functionName(f *api.VirtualFunction) string {
	if f.VF < 0 {
		return "PF"
	}
	return "VF " + strconv.Itoa(f.VF)
}

func functionRow(f *api.VirtualFunction) []string {
	var drops []string
	for _, d := range []struct {
		name string
		n    uint64
	}{{"spoof", f.Drops.Spoof}, {"VLAN", f.Drops.VLAN}, {"rate", f.Drops.Rate}} {
		if d.n > 0 {
			drops = append(drops, fmt.Sprintf("%s %d", d.name, d.n))
		}
	}
	inForce := map[bool]string{true: "yes", false: "no"}[f.Stands]
	return []string{functionName(f), f.MAC, f.Tap, f.Link, inForce, f.Owner, strings.Join(drops, ", "), policyText(&f.Policy)}
}

// policyText lists what differs from the defaults of a virtual VF.
func policyText(p *api.PortPolicy) string {
	var list []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(p.VLAN > 0, "vlan %d", p.VLAN)
	add(p.Trunk != "", "trunk %s", p.Trunk)
	add(len(p.MACs) > 0, "also %s", strings.Join(p.MACs, " "))
	add(!p.SpoofCheck, "no spoof check")
	add(p.CheckARP, "ARP checked")
	add(len(p.Addresses) > 0, "from %s", strings.Join(p.Addresses, " "))
	add(p.Isolated, "isolated")
	add(p.Link != "" && p.Link != "auto", "link %s", p.Link)
	add(p.Guarantee != "", "guarantee %s", p.Guarantee)
	add(p.Limit != "", "limit %s", p.Limit)
	add(p.Receive != "", "receive %s", p.Receive)
	add(p.Weight > 0, "weight %g", p.Weight)
	return strings.Join(list, ", ")
}

func (a *app) vpfDefineCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "define VM --vfs N --network BRIDGE", Short: "add a virtual PF to a VM that is shut off (role own)",
		Long: `Adds the virtual PF's devices to the VM's XML in libvirt and leaves the rest as it is: an
interface for the PF and for each VF, with MACs of their own, a PCIe root port, and a
virtio-serial channel through which the guest requests VFs. They exist from the VM's next
start until sluice vpf undefine. A VM may have several virtual PFs.

In the guest, write the number of VFs to sriov_numvfs of the PF's PCI device. With
--model igb the guest sees an Intel 82576, which the stock SR-IOV CNI plugin works with;
all of its VFs share one tap, where MAC and VLAN distinguish them.`,
		Example: `sluice vpf define node-1 --vfs 4 --network br0
sluice vpf define node-1 --name storage --vfs 2 --network br1 --model igb
sluice vpf define node-2 --vfs 16 --ari --network br0`,
		Args: oneVM, ValidArgsFunction: a.completeVM,
	}
	var b api.DefineVPF
	c.Flags().IntVar(&b.VFs, "vfs", 0, "`number` of virtual VFs: up to 7, or more with --ari")
	c.Flags().StringVar(&b.Network, "network", "", "`bridge` for its taps; with --backend vdpa the management device,"+
		" such as pci/0000:03:00.*")
	c.Flags().StringVar(&b.Name, "name", "vpf0", "`name` of this virtual PF, unique in the VM")
	c.Flags().StringVar(&b.Model, "model", "virtio", "`device` that QEMU emulates: virtio or igb")
	c.Flags().StringVar(&b.Backend, "backend", "tap", "`kind` of device that carries the frames on the host: tap or vdpa")
	c.Flags().BoolVar(&b.ARI, "ari", false, "allow more VFs than a slot has functions (alternative routing-ID interpretation)")
	c.Flags().BoolVar(&b.NoChannel, "no-channel", false, "give the guest no channel: each VF's link is up as soon as its policy is in force")
	_ = c.RegisterFlagCompletionFunc("model", cobra.FixedCompletions([]string{"virtio", "igb"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{"tap", "vdpa"}, cobra.ShellCompDirectiveNoFileComp))
	return printing(a, c, func(ctx context.Context, args []string) (p api.VirtualPF, err error) {
		switch {
		case b.VFs < 1:
			return p, usage(c, errors.New("give the number of VFs, such as --vfs 4"))
		case b.Network == "" && b.Backend == "tap":
			return p, usage(c, errors.New("name the bridge for its taps, such as --network br0 "+
				"(with --backend vdpa the management device: see vdpa mgmtdev show)"))
		}
		b.VM = args[0]
		return a.client().DefineVPF(ctx, b)
	}, func(w io.Writer, p api.VirtualPF) {
		fmt.Fprintf(w, "%s has the virtual PF %s (MAC %s) with %d VFs from its next start\n", printable(p.VM), printable(p.Name), p.MAC, b.VFs)
		fmt.Fprintf(w, "start it (virsh start %s), and see sluice vpf show %[1]s\n", printable(p.VM))
	})
}

func (a *app) vpfUndefineCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "undefine VM [NAME]", Short: "remove a virtual PF from a VM that is shut off (role own)",
		Long: `Removes the virtual PF's devices from the VM's XML in libvirt, and the channel with the last
virtual PF. NAME may be left out if the VM has only one.`,
		Example: "sluice vpf undefine node-1\nsluice vpf undefine node-1 storage",
		Args:    vmAndName, ValidArgsFunction: a.completeVPF,
	}
	return printing(a, c, func(ctx context.Context, args []string) (api.Result, error) {
		return a.client().UndefineVPF(ctx, api.UndefineVPF{VM: args[0], Name: strings.Join(args[1:], "")})
	}, printResult)
}

// vmAndName accepts a VM and optionally the name of one of its virtual PFs.
func vmAndName(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return oneVM(c, args)
	}
	if len(args) > 2 {
		return usage(c, fmt.Errorf("%s takes a VM and the name of one of its virtual PFs, but also got %q", called(c), args[2]))
	}
	return nil
}

// completeVPF completes VMs that have a virtual PF, and then the names of their virtual PFs, if a daemon answers in time.
func (a *app) completeVPF(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(a, c, (*client.Client).VirtualPFs, func(p *api.VirtualPF) []string {
		switch {
		case len(args) == 0:
			return []string{p.VM}
		case len(args) == 1 && (p.VM == args[0] || p.ID == args[0]):
			return []string{p.Name}
		}
		return nil
	})
}
