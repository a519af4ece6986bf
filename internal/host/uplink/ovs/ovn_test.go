package ovs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Which PFs OVN serves, and the reasons and remedies for the others.
func TestOVNFind(t *testing.T) {
	const remote, mapped = "ovn-remote", "ovn-bridge-mappings"
	for name, c := range map[string]struct {
		root           ids
		pf             string
		legacy         bool
		kind           string // of pf0's interface
		controller     bool
		noVFs          bool
		kindOf         string // the Uplink that says so, "": none
		why, remedyHas string
	}{
		"a mapped bridge":            {pf: "pf0", kindOf: KindOVN},
		"tunnels only":               {pf: "pf1", kindOf: KindOVN},
		"no VFs yet":                 {pf: "pf0", noVFs: true, kindOf: KindOVN},
		"no representor here":        {pf: "pf2", why: "no interface of this network namespace represents", remedyHas: "devlink port show"},
		"legacy, mapped":             {pf: "pf0", legacy: true, kindOf: Kind, why: "access lists", remedyHas: "pci/0000:01:00.0 mode switchdev"},
		"legacy, tunnels":            {pf: "pf1", legacy: true, why: "br0", remedyHas: "pci/0000:01:00.0 mode switchdev"},
		"DPDK":                       {pf: "pf0", kind: "dpdk", kindOf: KindOVN, why: "type dpdk", remedyHas: "let the kernel drive"},
		"a controller":               {pf: "pf0", controller: true, kindOf: KindOVN, why: "a controller beside OVN", remedyHas: "del-controller br-int"},
		"no OVN":                     {root: ids{}, pf: "pf0", kindOf: Kind, why: "mode switchdev", remedyHas: "mode legacy"},
		"another integration bridge": {root: ids{remote: "tcp:1", "ovn-bridge": "br-ex"}, pf: "pf0", kindOf: KindOVN},
		"OVN without its bridge":     {root: ids{remote: "tcp:1", "ovn-bridge": "br-no"}, pf: "pf0", kindOf: Kind, why: "mode switchdev", remedyHas: "legacy"},
		"agent of Neutron":           {root: ids{}, pf: "pf0", controller: true, kindOf: Kind, why: "a controller decides", remedyHas: "without controller"},
	} {
		if c.root == nil {
			c.root = ids{remote: "tcp:10.0.0.1:6642", mapped: "phys:br-ex,other:br-2"}
		}
		br, ex := &bridgeRow{Name: "br-int"}, &bridgeRow{Name: "br-ex", Ports: []string{"p"}}
		if c.controller {
			br.Controller, ex.Controller = []string{"c"}, []string{"c"}
		}
		now := connect([]*bridgeRow{br, ex}, []*portRow{{UUID: "p", Name: "pf0", Interfaces: []string{"i"}}},
			[]*interfaceRow{{UUID: "i", Name: "pf0", Type: c.kind}})
		now.ovn(c.root)
		s := &Switch{db: &database{now: now}}
		var links uplink.Links
		links.Index([]netdev.Link{
			{Index: 1, Name: "pf0", Switch: "a1", Port: "p0"},
			{Index: 2, Name: "pf1", Switch: "a1", Port: "p1"},
			{Index: 3, Name: "pf2", Switch: "a2", Port: "p0"},
			{Index: 4, Name: "eth7", Switch: "a1", Port: "pf0vf0"},
			{Index: 5, Name: "eth8", Switch: "a1", Port: "pf1vf0"},
		})
		pf := model.PF{Name: c.pf, Eswitch: model.EswitchSwitchdev, Address: "0000:01:00.0"}
		if c.legacy {
			pf.Eswitch = model.EswitchLegacy
		}
		if !c.noVFs {
			pf.NumVFs, pf.VFs = 1, []model.VF{{ID: model.VFID{PF: c.pf}}}
		}
		uplink.Set{s.OVN(), s}.Find(&links, &pf)
		up := pf.Uplink
		why := c.why
		if c.kindOf == "" && why == "br0" { // told by the first of the host's Uplinks
			why = ""
		}
		if up.Kind != c.kindOf || c.kindOf != "" && (up.Why == "") != (why == "") || !strings.Contains(up.Why, why) ||
			!strings.Contains(up.Remedy, c.remedyHas) {
			t.Errorf("%s: %+v", name, up)
		}
		if c.kindOf == KindOVN && c.why == "" && (up.Switch != now.integration || !up.Representors || up.VLANFromNetwork ||
			len(pf.VFs) > 0 && pf.VFs[0].Port == "") {
			t.Errorf("%s: connected by %+v, %+v", name, up, pf.VFs)
		}
	}
}

// A logical port moves to a representor and back, also from every state that somebody else, or a kill, leaves behind.
func TestBinding(t *testing.T) {
	mac := model.MAC{2, 0, 0, 0, 0, 1}
	tap := ids{ifaceID: "A", "attached-mac": "x", installed: "true", "note": "mine"}
	onRep, rep, err := toRepresentor(tap, ids{"note": "theirs"}, "tap0", mac)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ids{keptAs: "A", "attached-mac": "x", "note": "mine"}); !maps.Equal(onRep, want) {
		t.Errorf("the tap has %v, want %v", onRep, want)
	}
	if want := (ids{ifaceID: "A", "attached-mac": "x", ofTap: "tap0", ofMAC: mac.String(), "note": "theirs"}); !maps.Equal(rep, want) {
		t.Errorf("the representor has %v, want %v", rep, want)
	}
	with := func(i ids, key, value string) ids {
		i = i.without(key)
		if value != "" {
			i[key] = value
		}
		return i
	}
	for name, c := range map[string]struct {
		tap, rep ids
		vf       string // the logical port at the representor after toRepresentor, "": refused
		back     string // and at the tap after toTap from the same state
	}{
		"at the tap":                          {tap: tap, vf: "A", back: "A"},
		"at the representor":                  {tap: onRep, rep: rep, vf: "A", back: "A"},
		"its port was made again":             {tap: onRep, vf: "A", back: "A"},
		"both have it":                        {tap: with(onRep, ifaceID, "A"), rep: rep, vf: "A", back: "A"},
		"the tap got another":                 {tap: with(onRep, ifaceID, "B"), rep: rep, vf: "B", back: "B"},
		"the representor got another":         {tap: onRep, rep: with(rep, ifaceID, "B"), vf: "B", back: "B"},
		"somebody took it":                    {tap: onRep, rep: with(rep, ifaceID, "")},
		"the representor is somebody else's":  {tap: tap, rep: ids{ifaceID: "C"}, back: "A"},
		"the tap is no logical port":          {tap: ids{}},
		"the representor has that of another": {tap: tap, rep: with(rep, ofTap, "tap1"), back: "A"},
	} {
		_, got, err := toRepresentor(c.tap, c.rep, "tap0", mac)
		if got[ifaceID] != c.vf || (err == nil) != (c.vf != "") || err != nil && !errors.Is(err, model.ErrPermanent) {
			t.Errorf("%s: at the representor %q, %v; want %q", name, got[ifaceID], err, c.vf)
		}
		mine := c.rep
		if c.rep[ofTap] != "tap0" {
			mine = nil
		}
		if got := toTap(c.tap, mine); got[ifaceID] != c.back || got[keptAs] != "" {
			t.Errorf("%s: back at the tap %v, want %q", name, got, c.back)
		}
	}
	if _, again, err := toRepresentor(onRep, with(rep, installed, "true"), "tap0", mac); err != nil || again[installed] != "true" {
		t.Errorf("again: %v, %v: OVN's mark is gone although nothing moved", again, err)
	}
	if got := fmt.Sprint(released(rep)); got != "map[note:theirs]" {
		t.Errorf("released: %s", got)
	}
}

// Which bridges with the datapath in user space OVN uses.
func TestUserspace(t *testing.T) {
	now := connect([]*bridgeRow{
		{Name: "ovs0", Datapath: "netdev"}, {Name: "br-int", Datapath: "netdev"}, {Name: "br-ex", Datapath: "netdev"}, {Name: "ovs1", Datapath: "system"},
	}, nil, nil)
	for _, c := range []struct {
		root        ids
		ovn, others []string
	}{
		{ids{"ovn-bridge-mappings": "physnet1:br-ex"}, nil, []string{"br-ex", "br-int", "ovs0"}},
		{ids{"ovn-remote": "tcp:1"}, []string{"br-int"}, []string{"br-ex", "ovs0"}},
		{ids{"ovn-remote": "tcp:1", "ovn-bridge-mappings": "physnet1:br-ex,physnet2:ovs1"}, []string{"br-ex", "br-int"}, []string{"ovs0"}},
	} {
		now.integration, now.mapped = "", map[string]bool{}
		now.ovn(c.root)
		ovn, others := (&Switch{db: &database{now: now}}).Userspace()
		if !slices.Equal(ovn, c.ovn) || !slices.Equal(others, c.others) {
			t.Errorf("%v: %q and %q, want %q and %q", c.root, ovn, others, c.ovn, c.others)
		}
	}
}
