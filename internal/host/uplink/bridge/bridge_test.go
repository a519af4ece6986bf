package bridge

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Which PFs a Linux bridge with a legacy NIC serves, and the reasons for the others.
func TestFind(t *testing.T) {
	const pf, second, bond, bridge, ovs, team = 1, 2, 3, 4, 5, 6
	for _, c := range []struct {
		name           string
		pf, bond       int // masters
		mode           netdev.BondMode
		active         int
		eswitch        model.EswitchMode
		shared         string // the ID of the second PF's embedded switch
		want           model.Uplink
		why, remedyHas string
	}{
		{name: "in a bridge", pf: bridge, want: model.Uplink{Kind: Kind, Switch: "br0", Port: "pf0"}},
		{name: "legacy and in a bridge", pf: bridge, eswitch: model.EswitchLegacy, want: model.Uplink{Kind: Kind, Switch: "br0", Port: "pf0"}},
		{
			name: "in mode switchdev", pf: bridge, eswitch: model.EswitchSwitchdev,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "pf0", Representors: true},
		},
		{
			name: "in mode switchdev and in a bond", pf: bond, bond: bridge, mode: netdev.ActiveBackup, active: pf, eswitch: model.EswitchSwitchdev,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0", Representors: true},
		},
		{
			name: "in mode switchdev and a backup", pf: bond, bond: bridge, mode: netdev.ActiveBackup, active: second, eswitch: model.EswitchSwitchdev,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0", Representors: true},
		},
		{
			name: "in mode switchdev, in a bond over one embedded switch", pf: bond, bond: bridge, mode: 4, eswitch: model.EswitchSwitchdev, shared: "a1",
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0", Representors: true},
		},
		{
			name: "in mode switchdev, in a bond over two", pf: bond, bond: bridge, mode: 4, eswitch: model.EswitchSwitchdev,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0", Representors: true},
			why:  "with pf1, which belongs to another embedded switch", remedyHas: "VF-LAG",
		},
		{name: "in mode switchdev and in Open vSwitch", pf: ovs, eswitch: model.EswitchSwitchdev, why: "Open vSwitch", remedyHas: "Linux bridge"},
		{name: "in nothing", why: "pf0 is in no bridge", remedyHas: "ip link set pf0 master"},
		{name: "in Open vSwitch", pf: ovs, why: "Open vSwitch", remedyHas: "Linux bridge"},
		{name: "in a team", pf: team, why: "pf0 is in team0 (team)", remedyHas: "active-backup"},
		{
			name: "in a bond in a bridge", pf: bond, bond: bridge, mode: netdev.ActiveBackup, active: pf,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0"},
		},
		{
			name: "in a bond alone", pf: bond, mode: netdev.ActiveBackup, active: pf, why: "bond0, which is in no bridge",
			remedyHas: "ip link set bond0 master",
		},
		{
			name: "in a bond in Open vSwitch", pf: bond, bond: ovs, mode: netdev.ActiveBackup, active: pf, why: "bond0 is a port of Open vSwitch",
			remedyHas: "Linux bridge",
		},
		{
			name: "in a bond of another mode", pf: bond, bond: bridge, mode: 4, want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0"},
			why: "mode 802.3ad", remedyHas: "active-backup",
		},
		{
			name: "a backup", pf: bond, bond: bridge, mode: netdev.ActiveBackup, active: second,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0", Passes: true},
			why:  "receives through pf1", remedyHas: "active_slave pf0",
		},
		{
			name: "a bond without link", pf: bond, bond: bridge, mode: netdev.ActiveBackup,
			want: model.Uplink{Kind: Kind, Switch: "br0", Port: "bond0", Passes: true},
			why:  "no active port", remedyHas: "cables",
		},
		{name: "in what is not listed", pf: 99, why: "no bridge", remedyHas: "master"},
	} {
		var links uplink.Links
		links.Index([]netdev.Link{
			{Index: pf, Name: "pf0", Master: c.pf, Switch: "a1"},
			{Index: second, Name: "pf1", Master: c.pf, Switch: c.shared},
			{Index: bond, Name: "bond0", Kind: "bond", Master: c.bond, Bond: netdev.Bond{Mode: c.mode, Active: c.active}},
			{Index: bridge, Name: "br0", Kind: "bridge"},
			{Index: ovs, Name: "ovs-system", Kind: "openvswitch"},
			{Index: team, Name: "team0", Kind: "team"},
		})
		found := model.PF{Name: "pf0", Address: "0000:01:00.0", Eswitch: c.eswitch}
		uplink.Set{New(nil)}.Find(&links, &found)
		got := found.Uplink
		if (c.why == "") != (got.Why == "") || !strings.Contains(got.Why, c.why) || !strings.Contains(got.Remedy, c.remedyHas) {
			t.Errorf("%s: why %q, remedy %q; want %q, %q", c.name, got.Why, got.Remedy, c.why, c.remedyHas)
		}
		got.Why, got.Remedy = "", ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", c.name, diff)
		}
		if found.Network != got.Switch {
			t.Errorf("%s: network %q, want %q", c.name, found.Network, got.Switch)
		}
	}
	gone := model.PF{Name: "pf9"}
	uplink.Set{New(nil)}.Find(&uplink.Links{}, &gone)
	if !strings.Contains(gone.Uplink.Why, "no interface pf9") {
		t.Errorf("a PF without interface: %+v", gone.Uplink)
	}
}

// TestRepresentors: the kernel's port names tell whose representor an interface is, not its own name.
func TestRepresentors(t *testing.T) {
	for name, c := range map[string]struct {
		links []netdev.Link
		want  []string
	}{
		"renamed": {[]netdev.Link{
			{Index: 5, Name: "pf0", Switch: "a1", Port: "p0"},
			{Index: 6, Name: "eth9", Switch: "a1", Port: "pf0vf0"},
			{Index: 7, Name: "pf0vf0", Switch: "a1", Port: "pf0vf1"},
		}, []string{"eth9", "pf0vf0"}},
		"two PFs of one switch": {[]netdev.Link{
			{Index: 5, Name: "pf0", Switch: "a1", Port: "p0"},
			{Index: 6, Name: "r0", Switch: "a1", Port: "pf1vf0"},
			{Index: 7, Name: "r1", Switch: "a1", Port: "pf0vf0"},
			{Index: 8, Name: "r2", Switch: "a1", Port: "pf1vf1"},
		}, []string{"r1", ""}},
		"two PFs that cannot be told apart": {[]netdev.Link{
			{Index: 5, Name: "pf0", Switch: "a1"},
			{Index: 6, Name: "r0", Switch: "a1", Port: "pf1vf0"},
			{Index: 7, Name: "r1", Switch: "a1", Port: "pf0vf0"},
			{Index: 8, Name: "r2", Switch: "a1", Port: "pf0vf1"},
		}, []string{"", "r2"}},
		"of another switch": {[]netdev.Link{
			{Index: 5, Name: "pf0", Switch: "a1", Port: "p0"}, {Index: 6, Name: "r0", Switch: "a2", Port: "pf0vf0"},
		}, []string{"", ""}},
		"of another controller": {[]netdev.Link{
			{Index: 5, Name: "pf0", Switch: "a1", Port: "p0"}, {Index: 6, Name: "r0", Switch: "a1", Port: "c1pf0vf0"},
		}, []string{"", ""}},
		"a PF without a switch": {[]netdev.Link{
			{Index: 5, Name: "pf0"}, {Index: 6, Name: "r0", Port: "pf0vf0"},
		}, []string{"", ""}},
	} {
		c.links = append(c.links, netdev.Link{Index: 99, Name: "br0", Kind: "bridge"})
		c.links[0].Master = 99
		var links uplink.Links
		links.Index(c.links)
		found := model.PF{Name: "pf0", Eswitch: model.EswitchSwitchdev, VFs: []model.VF{
			{ID: model.VFID{PF: "pf0", Index: 0}}, {ID: model.VFID{PF: "pf0", Index: 1}},
		}}
		uplink.Set{New(nil)}.Find(&links, &found)
		for i, want := range c.want {
			vf := &found.VFs[i]
			if vf.Port != want || (vf.PortIndex != 0) != (want != "") || want != "" && links.ByName[want].Index != vf.PortIndex {
				t.Errorf("%s: VF %d has port %q, index %d, want %q", name, i, vf.Port, vf.PortIndex, want)
			}
		}
	}
}

// linkKernel is a kernel with these interfaces, by name. One without a kind cannot be read.
type linkKernel struct {
	Kernel
	kinds map[string]string
}

func (k linkKernel) Link(_ context.Context, name string) (netdev.Link, error) {
	kind, there := k.kinds[name]
	switch {
	case !there:
		return netdev.Link{}, model.ErrGone
	case kind == "":
		return netdev.Link{}, errors.New("no answer")
	}
	return netdev.Link{Name: name, Kind: kind}, nil
}

// How a definition connects a tap to a bridge, and what to do where there is none.
func TestConnection(t *testing.T) {
	b := New(linkKernel{kinds: map[string]string{"br0": "bridge", "ovs0": "openvswitch", "br1": ""}})
	if c, err := b.Connection(t.Context(), "br0"); err != nil || c != (model.TapConnection{Switch: "br0"}) {
		t.Errorf("br0: %+v, %v", c, err)
	}
	for name, c := range map[string]struct {
		want      string
		permanent bool
	}{
		"br9":  {"there is no Linux bridge br9 on this host: create it (ip link add br9 type bridge), or name another", true},
		"ovs0": {"ovs0 is not a Linux bridge: name another, or create one (ip link add NAME type bridge)", true},
		"br1":  {"no answer", false},
	} {
		_, err := b.Connection(t.Context(), name)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, model.ErrPermanent) != c.permanent {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
