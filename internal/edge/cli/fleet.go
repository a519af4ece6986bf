package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/prometheus"
	"sluice/internal/model"
)

// machineID is a file with systemd's UUID of this host.
const machineID = "/etc/machine-id"

// fleetFlags are what all commands of the fleet share.
type fleetFlags struct{ placement, owner, uuid, name string }

// ownerVariable is of the environment, where the rest is that tells about Placement: commands of the fleet also run where there is neither
// a daemon nor a sluice.yaml.
const ownerVariable = "SLUICE_FLEET_OWNER"

func (a *app) fleetCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "fleet", Short: "guarantees on many hosts, in OpenStack Placement",
		Long: `Keeps what hosts can guarantee, and who claims it, in OpenStack Placement, with or without
the rest of OpenStack. Each host's daemon stays the authority over its host: without
Placement all of its guarantees hold. The environment says where Placement is, as for other
clients of OpenStack: OS_AUTH_URL and what else Keystone needs, or without Keystone
OS_PLACEMENT_ENDPOINT_OVERRIDE, with OS_CERT, OS_KEY and OS_CACERT for https. With
SLUICE_FLEET_OWNER=openstack, Nova and Neutron claim bandwidth there: Sluice writes nothing,
and sluice fleet publish tells the daemon what they have claimed.`,
		Example: "sluice fleet list\nsluice fleet place 0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01 --mac 52:54:00:00:00:01 --guarantee 2Gbit",
		Args:    cobra.ArbitraryArgs, RunE: subcommandWanted,
	}
	f := &fleetFlags{}
	c.PersistentFlags().StringVar(&f.placement, "placement", "", "`address` of Placement, instead of that of the environment")
	c.PersistentFlags().StringVar(&f.owner, "owner", "",
		"who writes to Placement: sluice or openstack; default: that of "+ownerVariable+", or sluice")
	_ = c.RegisterFlagCompletionFunc("owner", cobra.FixedCompletions(
		[]string{string(fleet.OwnerSluice), string(fleet.OwnerOpenStack)}, cobra.ShellCompDirectiveNoFileComp))
	c.AddCommand(a.fleetPublishCommand(f), a.fleetPlaceCommand(f), a.fleetWhereCommand(f), a.fleetReleaseCommand(f), a.fleetListCommand(f),
		a.fleetFsckCommand(f), a.fleetTargetsCommand(f), a.fleetEvacuateCommand(f), a.fleetAdviseCommand(f), a.fleetDrainCommand(f),
		a.fleetMigrateCommand(f), a.fleetProxyCommand(f), a.fleetIDCommand(f))
	return c
}

// ledger connects to a Placement that Sluice writes to.
func (a *app) ledger(ctx context.Context, f *fleetFlags) (fleet.Ledger, error) {
	owner, err := f.whose()
	if err == nil && owner == fleet.OwnerOpenStack {
		err = fmt.Errorf("the ledger is owned by Nova and Neutron (%s=openstack, or --owner), which choose hosts and claim: "+
			"of these commands only `sluice fleet publish` is for that", ownerVariable)
	}
	if err != nil {
		return nil, err
	}
	return a.placement(ctx, f)
}

// whose says who writes to Placement.
func (f *fleetFlags) whose() (fleet.Owner, error) {
	owner := fleet.Owner(cmp.Or(f.owner, os.Getenv(ownerVariable), string(fleet.OwnerSluice)))
	if owner != fleet.OwnerSluice && owner != fleet.OwnerOpenStack {
		return "", fmt.Errorf("the owner %q (--owner, or %s): want sluice or openstack", owner, ownerVariable)
	}
	return owner, nil
}

// placement connects to Placement.
func (a *app) placement(ctx context.Context, f *fleetFlags) (fleet.Ledger, error) {
	if a.deps.Ledger == nil {
		return nil, errNotWired
	}
	return a.deps.Ledger(ctx, f.placement)
}

// hostFlags adds the flags that say which host this is.
func (f *fleetFlags) hostFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.uuid, "host-uuid", "", "`UUID` of this host; default: that of "+machineID)
	c.Flags().StringVar(&f.name, "host-name", "", "`name` of this host in the ledger; default: its host name")
}

func (f *fleetFlags) host() (fleet.Host, error) {
	id, name := f.uuid, f.name
	if id == "" {
		data, err := os.ReadFile(machineID)
		if err != nil {
			return fleet.Host{}, fmt.Errorf("this host's UUID is not known: %w; give it with --host-uuid", err)
		}
		id = string(data)
	}
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return fleet.Host{}, fmt.Errorf("this host's name is not known: %w; give it with --host-name", err)
		}
	}
	if strings.Contains(name, ":") {
		return fleet.Host{}, fmt.Errorf("the host's name %q contains a colon; give another with --host-name", name)
	}
	return fleet.HostOf(id, name)
}

func (a *app) fleetPublishCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "publish", Short: "write what this host can guarantee, and claim its guarantees, until interrupted",
		Long: `Writes to Placement what the daemon's capacity is (sluice capacity), and claims the
guarantees of the VMs that are here. Tells the daemon what sluice fleet place has claimed
here, which becomes the SLA of those NICs, if api.claims of sluice.yaml names its user. Runs
beside the daemon, as a user without rights: root holds no credentials. It looks every minute, and writes only when something has
changed. While Placement or the daemon is away, nothing changes on the host, and the ledger
is brought up to date afterwards. What others own in Placement is not touched.

With --owner openstack it writes nothing to Placement: it tells the daemon what VMs have
claimed of Neutron's bandwidth and packets at this compute node, so that nobody else is
promised that, and VMs without an SLA of their own get it.`,
		Example: `sluice fleet publish
sluice fleet publish --once --placement http://127.0.0.1:8778
sluice fleet publish --owner openstack --host-name compute-7.example.org --device br-physnet1=enp65s0f0`, Args: noArgs,
	}
	f.hostFlags(c)
	once := c.Flags().Bool("once", false, "look once, and say whether that worked")
	metrics := c.Flags().String("metrics", "", "also write metrics to this `file`, for the textfile collector of Prometheus' node exporter")
	devices := c.Flags().StringToString("device", nil,
		"`DEVICE=PF`: which PF a device of Neutron's is, with --owner openstack; may be repeated")
	every := c.Flags().Duration("every", time.Minute, "`time` between two looks, at least 10s")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *every < 10*time.Second {
			return usage(c, errors.New("--every must be at least 10s"))
		}
		host, look, err := a.look(c.Context(), f, *devices)
		if err != nil {
			return err
		}
		if !*once {
			return a.keepPublished(c.Context(), look, *every, *metrics)
		}
		r := look(c.Context())
		if r.Err != nil {
			return r.Err
		}
		for _, u := range r.Unclaimed {
			a.tell(u.String())
		}
		a.tell(fmt.Sprintf("%s is up to date (writes: %d)", host, r.Writes))
		return r.Untold
	}
	return c
}

// look is what is done in each round for a host, whose name is returned too.
func (a *app) look(ctx context.Context, f *fleetFlags, devices map[string]string) (string, func(context.Context) fleet.Round, error) {
	owner, err := f.whose()
	if err != nil {
		return "", nil, err
	}
	host, err := f.host()
	if err != nil {
		return "", nil, err
	}
	l, err := a.placement(ctx, f)
	if owner == fleet.OwnerOpenStack {
		return host.Name, func(ctx context.Context) fleet.Round { return fleet.Follow(ctx, l, host.Name, devices, a.client()) }, err
	}
	return host.Name, func(ctx context.Context) fleet.Round { return fleet.Once(ctx, l, host, a.client()) }, err
}

// tell prints a line.
func (a *app) tell(line string) { fmt.Fprintln(a.std.Out, printable(line)) }

// keepPublished publishes until ctx ends.
func (a *app) keepPublished(ctx context.Context, look func(context.Context) fleet.Round, every time.Duration, file string) error {
	log := fleet.Log{Tell: a.tell}
	var metrics fleet.Metrics
	fleet.Run(ctx, every, look, func(r *fleet.Round) {
		metrics.Add(r, time.Now())
		if file != "" {
			if err := replaceReadable(file, metrics.Text()); err != nil && r.Err == nil {
				r.Err = fmt.Errorf("the metrics: %w", err)
			}
		}
		log.Add(r)
	})
	return nil
}

// replaceReadable replaces a file that others may read. Those who read it meanwhile see the old or the new one.
func replaceReadable(path string, data []byte) error {
	next := path + ".new"
	err := os.WriteFile(next, data, 0o600)
	if err == nil {
		err = os.Chmod(next, 0o644) //nolint:gosec // for the node exporter, which is another user
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	return err
}

func (a *app) fleetPlaceCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "place UUID", Short: "claim a guarantee for a VM that is to come, on the best host",
		Long: `Looks for PFs that can still guarantee as much, on hosts that enforce guarantees and are not
drained, and claims it on the one that keeps the greatest part of its link free: of what is
claimed or, with --prometheus, of what is sent if that is more (the rate that was exceeded in a
twentieth of the last hour). If somebody else was faster, the next one is tried. The VM need
not exist: UUID and MAC are those that its definition will have. Define it on that host; until
sluice fleet release, nobody else can claim it, and the daemon there keeps it, if its
api.claims lets sluice fleet publish say so. Placing the same again prints the same host.`,
		Example: `sluice fleet place 0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01 --mac 52:54:00:00:00:01 --guarantee '2Gbit 50kpps' --network br0
sluice fleet place 0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f02 --mac 52:54:00:00:00:02 --guarantee 500Mbit -o json | jq -r .host
sluice fleet place 0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f03 --mac 52:54:00:00:00:03 --guarantee 1Gbit --numa 0 --trait CUSTOM_RACK_7`,
		Args: oneVM, ValidArgsFunction: nothingToOffer,
	}
	mac := macFlag(c)
	guarantee := c.Flags().String("guarantee", "", "`rate` to be guaranteed, such as 2Gbit or '2Gbit 50kpps'")
	network := c.Flags().String("network", "", "only PFs that this `network` of VMs is behind")
	numa := c.Flags().Int("numa", -1, "only PFs at this NUMA `node`; -1: any")
	traits := c.Flags().StringSlice("trait", nil, "only PFs that have this `trait` in Placement; may be repeated")
	host := c.Flags().String("host", "", "only on the host of this `name`")
	prom := promFlag(c)
	_ = c.RegisterFlagCompletionFunc("network", a.completeNetwork)
	_ = c.RegisterFlagCompletionFunc("trait", nothingToOffer)
	_ = c.RegisterFlagCompletionFunc("host", a.completeHost(f))
	return printing(a, c, func(ctx context.Context, args []string) (none fleet.Placement, err error) {
		rate, err := model.ParseRate(*guarantee)
		if err != nil || rate.Bits == 0 {
			return none, usage(c, fmt.Errorf("--guarantee %q: give a rate in bits/s, such as 2Gbit, or '2Gbit 50kpps'", *guarantee))
		}
		address, err := model.ParseMAC(*mac)
		if err != nil {
			return none, usage(c, fmt.Errorf("--mac: %w", err))
		}
		ask := fleet.Ask{Kbits: thousands(rate.Bits), Kpackets: thousands(rate.Packets)}
		for _, t := range *traits {
			if !traitName.MatchString(t) {
				return none, usage(c, fmt.Errorf("--trait %q: want a name such as CUSTOM_RACK_7", t))
			}
			ask.Traits = append(ask.Traits, t)
		}
		if *network != "" {
			ask.Traits = append(ask.Traits, fleet.NetworkTrait(*network))
		}
		if *numa >= 0 {
			ask.Traits = append(ask.Traits, fleet.NUMATrait(*numa))
		}
		if _, err := fleet.Consumer(args[0], address.String()); err != nil {
			return none, usage(c, err)
		}
		l, err := a.ledger(ctx, f)
		if err != nil {
			return none, err
		}
		if err := narrow(ctx, l, &ask, *host, *prom); err != nil {
			return none, err
		}
		return fleet.Place(ctx, l, strings.ToLower(args[0]), address.String(), ask)
	}, printPlacement)
}

// traitName is what Placement takes.
var traitName = regexp.MustCompile(`^[A-Z0-9_]{1,255}$`)

// narrow restricts an Ask to a host and adds the load, if they are given.
func narrow(ctx context.Context, l fleet.Ledger, ask *fleet.Ask, host, prom string) error {
	if host == "" && prom == "" {
		return nil
	}
	hosts, err := l.Hosts(ctx)
	if err != nil {
		return err
	}
	if host != "" {
		there, err := fleet.Find(hosts, host)
		if err != nil {
			return err
		}
		ask.Host = there.ID
	}
	if prom != "" {
		ask.Load, err = prometheus.Load(ctx, prom, hosts)
	}
	return err
}

// thousands rounds up.
func thousands(x uint64) int { return int(min(math.MaxInt32, (x+999)/1000)) }

func promFlag(c *cobra.Command) *string {
	return c.Flags().String("prometheus", "", "`address` of a Prometheus that scrapes the hosts, such as http://prometheus:9090")
}

func macFlag(c *cobra.Command) *string {
	return c.Flags().String("mac", "", "MAC `address` of the VM's NIC")
}

// completeNetwork completes the networks that PFs of this host are behind.
func (a *app) completeNetwork(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	pfs := func(cl *client.Client, ctx context.Context) ([]api.PFCapacity, error) {
		h, err := cl.Capacity(ctx)
		return h.PFs, err
	}
	return complete(a, c, pfs, func(pf *api.PFCapacity) []string { return []string{pf.Network} })
}

func printPlacement(w io.Writer, p fleet.Placement) {
	what := "has"
	if p.Before {
		what = "had already"
	}
	fmt.Fprintf(w, "%s %s %s on PF %s of host %s\n", p.VM, what, fleet.Rate(p.Kbits, p.Kpackets), printable(p.PF), printable(p.Host))
	fmt.Fprintf(w, "Define the VM there, with this SLA for the NIC %s; sluice fleet release %s --mac %s gives it back.\n", p.MAC, p.VM, p.MAC)
}

func (a *app) fleetWhereCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "where UUID", Short: "print where a VM's NIC has a claim",
		Long: `Prints what sluice fleet place or a host has claimed for the NIC, and at which host. Without a
claim it says so, and with -o json the host is "". Changes nothing: a script asks it before it
removes a VM, where sluice fleet place would claim again.`,
		Example: "sluice fleet where 0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01 --mac 52:54:00:00:00:01 -o json | jq -r .host",
		Args:    oneVM, ValidArgsFunction: nothingToOffer,
	}
	mac := macFlag(c)
	return printing(a, c, func(ctx context.Context, args []string) (none fleet.Placement, err error) {
		address, err := model.ParseMAC(*mac)
		if err != nil {
			return none, usage(c, fmt.Errorf("--mac: %w", err))
		}
		if _, err := fleet.Consumer(args[0], address.String()); err != nil {
			return none, usage(c, err)
		}
		l, err := a.ledger(ctx, f)
		if err != nil {
			return none, err
		}
		return fleet.Where(ctx, l, strings.ToLower(args[0]), address.String())
	}, func(w io.Writer, p fleet.Placement) {
		if p.Host == "" {
			fmt.Fprintf(w, "%s has no claim for %s\n", p.VM, p.MAC)
			return
		}
		fmt.Fprintf(w, "%s has %s on PF %s of host %s\n", p.VM, fleet.Rate(p.Kbits, p.Kpackets), printable(p.PF), printable(p.Host))
	})
}

func (a *app) fleetReleaseCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "release UUID", Short: "end the claim of a VM's NIC",
		Long: `Ends what sluice fleet place has claimed. A VM that is on a host with a guarantee gets its
claim again within a minute: to end that, change its SLA.`,
		Example: "sluice fleet release 0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01 --mac 52:54:00:00:00:01",
		Args:    oneVM, ValidArgsFunction: nothingToOffer,
	}
	mac := macFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		address, err := model.ParseMAC(*mac)
		if err != nil {
			return usage(c, fmt.Errorf("--mac: %w", err))
		}
		l, err := a.ledger(c.Context(), f)
		if err == nil {
			err = fleet.Release(c.Context(), l, strings.ToLower(args[0]), address.String())
		}
		if err == nil {
			fmt.Fprintln(a.std.Out, "released")
		}
		return err
	}
	return c
}

func (a *app) fleetListCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "list what each PF of the fleet offers, and what of that is claimed",
		Long: `Lists the PFs of all hosts that publish, with what they offer to claims, what is claimed of
that, and what is free. What is guaranteed there without a claim is not offered. sluice fleet
place leaves out PFs that are down, and hosts that are drained or do not enforce guarantees.`,
		Example: "sluice fleet list\nsluice fleet list -o json | jq '[.[].free_kilobits_per_second] | add'", Args: noArgs,
	}
	return printing(a, c, func(ctx context.Context, _ []string) ([]fleet.Link, error) {
		l, err := a.ledger(ctx, f)
		if err != nil {
			return nil, err
		}
		state, err := l.Overview(ctx)
		return fleet.Links(&state), err
	}, printLinks)
}

func printLinks(w io.Writer, list []fleet.Link) {
	var rows [][]string
	for i := range list {
		l := &list[i]
		state := "up"
		switch {
		case l.Drained:
			state = "drained"
		case l.Unenforced:
			state = "unenforced"
		case l.Down:
			state = "down"
		}
		row := []string{l.Host, l.PF, l.Network, state}
		for _, n := range []int{l.Total, l.Claimed, l.Free} {
			text := fleet.Rate(n, 0)
			if n == 0 {
				text = "0"
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	table(w, "HOST PF NETWORK STATE OFFERS CLAIMED FREE", rows)
}

func (a *app) fleetFsckCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "fsck", Short: "find what is wrong in the ledger",
		Long: `Finds links with more claims than they carry, guarantees without a claim, and NICs with
claims at two hosts. On a host with a daemon, also claims at this host of VMs that have no
guarantee here, and guarantees here that the ledger refuses. Changes nothing. Ends with exit
code 3 if it finds something.`,
		Example: "sluice fleet fsck\nsluice fleet fsck -o json", Args: noArgs,
	}
	f.hostFlags(c)
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		l, err := a.ledger(c.Context(), f)
		if err != nil {
			return err
		}
		here, err := a.offered(c.Context(), f)
		if err != nil {
			return err
		}
		state, err := l.Fleet(c.Context())
		if err != nil {
			return err
		}
		list := fleet.Check(&state, here)
		if err := show(a.std.Out, o, list, func(w io.Writer, list []fleet.Finding) { printFleetFindings(w, list, here != nil) }); err != nil {
			return err
		}
		if len(list) > 0 {
			return errFindings
		}
		return nil
	}
	return c
}

// offered is what this host's daemon offers; nil: there is none.
func (a *app) offered(ctx context.Context, f *fleetFlags) (*fleet.Offer, error) {
	capacity, err := a.client().Capacity(ctx)
	if errors.Is(err, client.ErrUnreachable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	host, err := f.host()
	if err != nil {
		return nil, err
	}
	o := fleet.OfferOf(host, &capacity)
	return &o, nil
}

func printFleetFindings(w io.Writer, list []fleet.Finding, here bool) {
	if len(list) == 0 {
		fmt.Fprintln(w, "Nothing is wrong in the ledger.")
	}
	for i := range list {
		f := &list[i]
		var who []string
		for _, s := range []string{f.Host, f.PF, f.VM} {
			if s != "" {
				who = append(who, s)
			}
		}
		fmt.Fprintf(w, "%s: %s\n    -> %s\n", printable(strings.Join(who, " ")), printable(f.Text), printable(f.Remedy))
	}
	if !here {
		fmt.Fprintln(w, "No daemon answers here: only the ledger was looked at, and no host's VMs.")
	}
}
