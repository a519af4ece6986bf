package ovs

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// hostWith returns a Switch over these rows: a bridge br0 with the port pf0, and the tap vnet0.
func hostWith(change func(b *bridgeRow, pf, tap *portRow, nic *interfaceRow), err error) *Switch {
	b := &bridgeRow{UUID: "b", Name: "br0", Ports: []string{"p", "t", "not here yet"}}
	pf := &portRow{UUID: "p", Name: "pf0", Interfaces: []string{"i"}}
	tap := &portRow{UUID: "t", Name: "vnet0", Interfaces: []string{"j"}}
	nic := &interfaceRow{UUID: "i", Name: "pf0"}
	change(b, pf, tap, nic)
	return &Switch{db: &database{err: err, now: connect([]*bridgeRow{b}, []*portRow{pf, tap},
		[]*interfaceRow{nic, {UUID: "j", Name: "vnet0"}, {UUID: "k", Name: "stray"}})}}
}

// Which PFs Open vSwitch serves, and the reasons and remedies for the others.
func TestFind(t *testing.T) {
	seven, secure, access, trunkMode := 7, "secure", "access", "trunk"
	for name, c := range map[string]struct {
		change         func(b *bridgeRow, pf, tap *portRow, nic *interfaceRow)
		err            error
		pf             model.PF
		why, remedyHas string
		passes, not    bool
	}{
		"plain":             {},
		"a trunk":           {change: func(_ *bridgeRow, pf, _ *portRow, _ *interfaceRow) { pf.VLANMode, pf.Trunks = &trunkMode, []int{1, 2} }},
		"system datapath":   {change: func(b *bridgeRow, _, _ *portRow, _ *interfaceRow) { b.Datapath = "system" }},
		"in user space":     {change: func(b *bridgeRow, _, _ *portRow, _ *interfaceRow) { b.Datapath = "netdev" }, why: "user space", remedyHas: "datapath_type=system"},
		"of DPDK":           {change: func(_ *bridgeRow, _, _ *portRow, i *interfaceRow) { i.Type = "dpdk" }, why: "type dpdk", remedyHas: "kernel datapath"},
		"secure":            {change: func(b *bridgeRow, _, _ *portRow, _ *interfaceRow) { b.FailMode = &secure }, why: "a controller decides", remedyHas: "standalone"},
		"with a controller": {change: func(b *bridgeRow, _, _ *portRow, _ *interfaceRow) { b.Controller = []string{"c"} }, why: "a controller decides", remedyHas: "without controller"},
		"an access port":    {change: func(_ *bridgeRow, pf, _ *portRow, _ *interfaceRow) { pf.Tag = &seven }, why: "VLAN 7", remedyHas: "clear port pf0 tag"},
		"of mode access":    {change: func(_ *bridgeRow, pf, _ *portRow, _ *interfaceRow) { pf.VLANMode = &access }, why: "VLAN 0", remedyHas: "clear port pf0"},
		"in a bond": {change: func(_ *bridgeRow, pf, _ *portRow, _ *interfaceRow) {
			pf.Name, pf.Interfaces = "bond1", []string{"i", "k"}
		}, why: "bond bond1", remedyHas: "a port of its own"},
		"switchdev":  {pf: model.PF{Name: "pf0", Eswitch: model.EswitchSwitchdev, Address: "0000:01:00.0"}, why: "mode switchdev", remedyHas: "pci/0000:01:00.0 mode legacy"},
		"last known": {err: errors.New("gone")},
		"elsewhere":  {pf: model.PF{Name: "pf1"}, why: "pf1 is in no bridge of Open vSwitch", remedyHas: "add-port BRIDGE pf1", not: true},
		"not in the database": {
			pf: model.PF{Name: "pf2"}, err: errors.New("refused"), why: "whose database does not answer: refused", remedyHas: "openvswitch-switch", passes: true,
		},
		"unknown to it": {pf: model.PF{Name: "pf2"}, why: "does not name its bridge", remedyHas: "openvswitch-switch", passes: true},
	} {
		if c.change == nil {
			c.change = func(*bridgeRow, *portRow, *portRow, *interfaceRow) {}
		}
		if c.pf.Name == "" {
			c.pf.Name = "pf0"
		}
		var links uplink.Links
		links.Index([]netdev.Link{
			{Index: 1, Name: "pf0", Master: 9},
			{Index: 2, Name: "pf1"},
			{Index: 3, Name: "pf2", Master: 9},
			{Index: 9, Name: "ovs-system", Kind: "openvswitch"},
		})
		up, ok := hostWith(c.change, c.err).PF(&links, &c.pf)
		if ok == c.not || (up.Why == "") != (c.why == "") || !strings.Contains(up.Why, c.why) || !strings.Contains(up.Remedy, c.remedyHas) ||
			up.Passes != c.passes {
			t.Errorf("%s: %+v, %v", name, up, ok)
		}
		if c.why == "" && (up.Switch != "br0" || up.Port != "pf0" || up.Representors || !up.VLANFromNetwork) {
			t.Errorf("%s: connected by %+v", name, up)
		}
	}
}

func TestTap(t *testing.T) {
	seven := 7
	s := hostWith(func(_ *bridgeRow, _, tap *portRow, _ *interfaceRow) { tap.Tag = &seven }, errors.New("gone"))
	if p, ok := s.Tap(nil, &netdev.Link{Name: "vnet0"}); !ok || p != (uplink.Port{Switch: "br0", VLAN: 7, Up: true}) {
		t.Errorf("%+v, %v", p, ok)
	}
	if p, ok := s.Tap(nil, &netdev.Link{Name: "stray"}); ok {
		t.Errorf("an interface of no port: %+v", p)
	}
}
