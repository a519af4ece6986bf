package uplinktest

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sluice/internal/control/doctor"
	"sluice/internal/control/loop"
	"sluice/internal/edge/answer"
	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// refusal is a host on which Sluice must not give vm0, whose rule pins it, a VF of pf0.
type refusal struct {
	name    string
	ovs     []string // what ovs-vsctl makes of the database, besides a bridge br0 with the tap vnet0
	pf      model.PF // what differs from a PF in mode legacy
	links   []netdev.Link
	apart   bool             // the PF is a port of nothing
	nic     func(*model.NIC) // what differs in the VM's definition
	subject string           // of what `sluice doctor` says: pf0 or vm0; "": nothing is refused
	why     string
	remedy  string
}

const (
	remote   = "external_ids:ovn-remote=tcp:192.0.2.1:6642"
	mapped   = "external_ids:ovn-bridge-mappings=phys:br-ex"
	pfInBr0  = "add-port br0 pf0"
	underOVN = "set Open_vSwitch . " + remote + " " + mapped + " -- add-br br-int -- add-br br-ex -- add-port br-ex pf0 -- del-port vnet0" +
		" -- add-port br-int vnet0 -- set interface vnet0 external_ids:iface-id=A external_ids:ovn-installed=true"
)

// Of these interfaces the tests make ports of something by their index.
const pfLink, secondLink, bondLink, bridgeLink, vswitchLink, tapLink, repLink = 1, 2, 3, 4, 5, 10, 20

var switchdevPF = model.PF{Eswitch: model.EswitchSwitchdev}

// underBond are a PF in a bond of a mode with another one, which is a port of a Linux bridge or of Open vSwitch, as the tap is.
func underBond(mode netdev.BondMode, in int, secondSwitch string) []netdev.Link {
	tap := netdev.Link{Index: tapLink, Name: "vnet0", Kind: "tun", Up: true, Carrier: true, Master: in}
	return []netdev.Link{
		{Index: pfLink, Name: "pf0", Master: bondLink, Up: true, Carrier: true, Switch: "a1", Port: "p0"},
		{Index: secondLink, Name: "pf1", Master: bondLink, Up: true, Carrier: true, Switch: secondSwitch, Port: "p1"},
		{Index: bondLink, Name: "bond0", Kind: "bond", Master: in, Bond: netdev.Bond{Mode: mode, Active: pfLink}, Up: true, Carrier: true},
		{Index: repLink, Name: "rep0", Switch: "a1", Port: "pf0vf0"},
		{Index: repLink + 1, Name: "rep1", Switch: "a1", Port: "pf0vf1"},
		tap,
	}
}

const lacp = netdev.BondMode(4)

var refusals = []refusal{
	{name: "nothing: an access port of a bridge that learns", ovs: []string{pfInBr0, "set port vnet0 tag=7"}},
	{name: "nothing: a representor under OVN", ovs: []string{underOVN}, pf: switchdevPF},
	{name: "nothing: LACP over one embedded switch (VF-LAG)", pf: switchdevPF, links: underBond(lacp, bridgeLink, "a1")},
	{
		name: "the datapath is in user space", ovs: []string{pfInBr0, "set bridge br0 datapath_type=netdev"},
		subject: "pf0", why: "the datapath of br0 is in user space", remedy: "ovs-vsctl set bridge br0 datapath_type=system",
	},
	{
		name: "DPDK drives the PF, which keeps its interface", apart: true, pf: model.PF{Address: "0000:01:00.0"},
		ovs: []string{
			"set bridge br0 datapath_type=netdev", "add-port br0 dpdk0 -- set interface dpdk0 type=dpdk options:dpdk-devargs=0000:01:00.0,n_rxq=4",
		},
		subject: "pf0", why: "type dpdk", remedy: "use Open vSwitch's kernel datapath",
	},
	{
		name: "DPDK drives the representors under OVN", ovs: []string{underOVN, "set interface pf0 type=dpdk"}, pf: switchdevPF,
		subject: "pf0", why: "type dpdk", remedy: "let the kernel drive the PF",
	},
	{
		name: "two kinds of datapath under OVN", ovs: []string{underOVN, "add-br br2 -- set bridge br2 datapath_type=netdev"}, pf: switchdevPF,
		subject: "pf0", why: "two kinds of datapath", remedy: "ovs-vsctl set bridge BRIDGE datapath_type=TYPE",
	},
	{
		name: "vhost-user", ovs: []string{pfInBr0}, nic: func(n *model.NIC) { n.Tap, n.Refused = "", libvirt.VHostUser },
		subject: "vm0", why: "vhost-user", remedy: "Open vSwitch's kernel datapath",
	},
	{
		name: "a trunk port by its trunks", ovs: []string{pfInBr0, "set port vnet0 trunks=1,2"},
		subject: "vm0", why: "tap vnet0 is a trunk port", remedy: "ovs-vsctl clear port vnet0 trunks vlan_mode",
	},
	{
		name: "a trunk port by its mode", ovs: []string{pfInBr0, "set port vnet0 vlan_mode=native-untagged tag=7"},
		subject: "vm0", why: "tap vnet0 is a trunk port", remedy: "forbid VFs",
	},
	{
		name: "a secure bridge", ovs: []string{pfInBr0, "set bridge br0 fail_mode=secure"},
		subject: "pf0", why: "a controller decides where br0 sends frames", remedy: "fail_mode standalone",
	},
	{
		name: "a bridge with a controller", ovs: []string{pfInBr0, "set-controller br0 tcp:127.0.0.1:6653"},
		subject: "pf0", why: "a controller decides", remedy: "without controller",
	},
	{
		name: "OVN's access lists on a legacy NIC", ovs: []string{underOVN},
		subject: "pf0", why: "access lists, which a VF of a NIC in mode legacy would go round", remedy: "mode switchdev",
	},
	{
		name: "a tag under OVN", ovs: []string{underOVN, "set port vnet0 tag=7"}, pf: switchdevPF,
		subject: "vm0", why: "tap vnet0 has a tag", remedy: "ovs-vsctl clear port vnet0 tag",
	},
	{
		name: "Neutron's Open vSwitch agent with representors", pf: switchdevPF,
		ovs: []string{
			"add-br br-ex -- add-port br-ex pf0 -- set bridge br-ex fail_mode=secure -- set-controller br-ex tcp:127.0.0.1:6633",
			"add-port br-ex phy-br-ex -- set interface phy-br-ex type=patch options:peer=int-br-ex",
			"add-port br0 int-br-ex -- set interface int-br-ex type=patch options:peer=phy-br-ex",
		},
		subject: "pf0", why: "Neutron's Open vSwitch agent controls br-ex", remedy: "ML2/OVN",
	},
	{
		name: "Neutron's Open vSwitch agent with tunnels", pf: switchdevPF, apart: true,
		ovs: []string{
			"add-br br-tun", "add-port br-tun patch-int -- set interface patch-int type=patch options:peer=patch-tun",
			"add-port br0 patch-tun -- set interface patch-tun type=patch options:peer=patch-int",
		},
		subject: "pf0", why: "Neutron's Open vSwitch agent", remedy: "mode observe",
	},
	{
		name: "a DPU", pf: model.PF{Eswitch: model.EswitchOnCard}, ovs: []string{pfInBr0},
		subject: "pf0", why: "the card's own processors", remedy: "mode observe",
	},
	{
		name: "representors in another place", pf: switchdevPF, links: []netdev.Link{
			{Index: pfLink, Name: "pf0", Master: bridgeLink, Up: true, Carrier: true, Switch: "a1", Port: "p0"},
			{Index: tapLink, Name: "vnet0", Kind: "tun", Up: true, Carrier: true, Master: bridgeLink},
		},
		subject: "pf0", why: "no interface of this network namespace represents a VF of pf0", remedy: "devlink port show",
	},
	{
		name: "switchdev behind Open vSwitch without OVN", pf: switchdevPF, ovs: []string{pfInBr0},
		subject: "pf0", why: "mode switchdev", remedy: "mode legacy",
	},
	{
		name: "a legacy NIC under LACP", links: underBond(lacp, bridgeLink, ""),
		subject: "pf0", why: "bond bond0 of mode 802.3ad", remedy: "use mode active-backup",
	},
	{
		name: "LACP over two embedded switches", pf: switchdevPF, links: underBond(lacp, bridgeLink, "a2"),
		subject: "pf0", why: "pf1, which belongs to another embedded switch", remedy: "VF-LAG",
	},
	{
		name: "a bond of Open vSwitch", ovs: []string{"add-bond br0 bond1 pf0 pf1 lacp=active"},
		subject: "pf0", why: "bond bond1 of Open vSwitch", remedy: "a port of its own",
	},
	{
		name: "a bond of the kernel in Open vSwitch", ovs: []string{"add-port br0 bond0"}, links: underBond(lacp, vswitchLink, ""),
		subject: "pf0", why: "bond bond0 of mode 802.3ad, which is a port of Open vSwitch", remedy: "active-backup bond",
	},
	{
		name: "the PF in a VLAN of its own", ovs: []string{pfInBr0, "set port pf0 tag=7"},
		subject: "pf0", why: "an access port of VLAN 7", remedy: "ovs-vsctl clear port pf0 tag",
	},
}

// TestRefused: on each host that Sluice must not serve, `sluice doctor` and `sluice status` or `sluice explain` say why and what to do, and
// no Step is begun although the VM is pinned. The database is a real one.
func TestRefused(t *testing.T) {
	k := newKernel(t)
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			written := &process{}
			v := vswitchOf(t, c.ovs, processKernel{k, written}, written)
			r := refusedRig(t, c, processKernel{k, written}, v)
			snap := r.run(wanted(true))
			list := doctor.Examine(snap)
			if c.subject == "" {
				if len(r.kinds) == 0 {
					t.Fatalf("no Step was begun on a host that is served: %+v; %+v", list, snap.PFs[0].Uplink)
				}
				return
			}
			if len(r.kinds)+len(r.changes)+len(written.changes) > 0 {
				t.Errorf("Steps %v were begun, and %v, %v changed", r.kinds, r.changes, written.changes)
			}
			if !slices.ContainsFunc(list, func(p model.Problem) bool {
				return p.Subject == c.subject && !p.Info && strings.Contains(p.Text, c.why) && strings.Contains(p.Remedy, c.remedy)
			}) {
				t.Errorf("doctor says %+v,\nwant of %s %q, %q", list, c.subject, c.why, c.remedy)
			}
			view := r.core.View()
			if c.subject == "pf0" {
				pf := answer.Summary(view, "", 0).PFs[0]
				if !strings.Contains(pf.Why, c.why) || !strings.Contains(pf.Remedy, c.remedy) || pf.VFs.Free != pf.VFs.Unusable {
					t.Errorf("status says %+v", pf)
				}
				return
			}
			e, err := answer.Explain(view, "vm0")
			if kerneltest.Must(t, err); !strings.Contains(e.Veto, c.why) || !strings.Contains(e.Veto, c.remedy) {
				t.Errorf("explain says %+v", e)
			}
		})
	}
}

// vswitchOf follows a database that has what ovs-vsctl makes of it; without commands there is none.
func vswitchOf(t *testing.T, commands []string, k ovs.Kernel, p *process) *ovs.Switch {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("OVS_RUNDIR", dir)
	if len(commands) > 0 {
		h := ovstest.New(t)
		dir = h.Dir
		do := func(args string) error {
			return exec.Command("ovs-vsctl", append([]string{"--db=" + h.Socket("db"), "--timeout=60", "--no-wait"}, strings.Fields(args)...)...).Run()
		}
		for _, c := range append([]string{"add-br br0 -- add-port br0 vnet0"}, commands...) {
			if err := do(c); err != nil {
				t.Fatalf("ovs-vsctl %s: %v", c, err)
			}
		}
		t.Setenv("OVS_RUNDIR", between(t, p))
	}
	v := ovs.New(kerneltest.Soon(t), k, slog.New(slog.DiscardHandler))
	kerneltest.Must(t, os.Setenv("OVS_RUNDIR", dir))
	t.Cleanup(v.Close)
	return v
}

// refusedRig is the daemon's loop over the host of a refusal.
func refusedRig(t *testing.T, c refusal, k processKernel, v *ovs.Switch) *rig {
	t.Helper()
	h := newHost(t, 1)
	if c.nic != nil {
		c.nic(&h.domains[0].NICs[0])
	}
	seen := &refusedHost{host: h, pf: c.pf, all: append([]netdev.Link{
		{Index: bridgeLink, Name: "br0", Kind: "bridge", Up: true, Carrier: true},
		{Index: vswitchLink, Name: "ovs-system", Kind: "openvswitch", Up: true},
	}, c.links...)}
	if c.links == nil {
		seen.all = append(
			seen.all, netdev.Link{Index: pfLink, Name: "pf0", Master: vswitchLink, Up: true, Carrier: true, Switch: "a1", Port: "p0"},
			netdev.Link{Index: tapLink, Name: "vnet0", Kind: "tun", Master: vswitchLink, Up: true, Carrier: true},
			netdev.Link{Index: repLink, Name: "rep0", Switch: "a1", Port: "pf0vf0"},
			netdev.Link{Index: repLink + 1, Name: "rep1", Switch: "a1", Port: "pf0vf1"},
		)
	}
	if c.apart {
		seen.all[2].Master = 0
	}
	up := uplink.Set{bridge.New(k), v.OVN(), v}
	r := &rig{host: h, act: actuate.New(h, up, h, nil)}
	r.source = observe.New(seen, up, h, nil, observe.Options{Pool: observe.Pool{"pf0": {All: true}}})
	t.Cleanup(r.source.Close)
	r.state = observe.Applied{Source: r.source, Uplinks: up, Taps: h}
	o := loop.DefaultOptions
	o.Mode = model.ModeEnforce
	var err error
	r.core, err = loop.NewCore(wanted(true), o, noJournal{}, nil)
	kerneltest.Must(t, err)
	return r
}

// refusedHost is a host whose links and PF a test names.
type refusedHost struct {
	*host
	all []netdev.Link
	pf  model.PF
}

func (h *refusedHost) Links(context.Context) ([]netdev.Link, error) { return slices.Clone(h.all), nil }

func (h *refusedHost) PFs(ctx context.Context) ([]vf.PFInfo, error) {
	list, err := h.host.PFs(ctx)
	list[0].Eswitch, list[0].Address = h.pf.Eswitch, h.pf.Address
	return list, err
}
