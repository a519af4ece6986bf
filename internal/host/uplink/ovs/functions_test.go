package ovs

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
)

// Which ports take functions of virtual PFs, and why others do not.
func TestFunctionPort(t *testing.T) {
	seven, secure, access, trunkMode := 7, "secure", "access", "trunk"
	gone := errors.New("no answer")
	const vlans = "VLANs of its own"
	for name, c := range map[string]struct {
		change  func(b *bridgeRow, tap *portRow)
		tap     string // default vnet0
		err     error
		refused string
		fails   bool // it cannot tell
		not     bool // it is no port
		bridge  bool // the reason is one of the bridge
	}{
		"plain":                    {},
		"of mode trunk":            {change: func(_ *bridgeRow, p *portRow) { p.VLANMode = &trunkMode }},
		"last known":               {err: gone},
		"with a tag":               {change: func(_ *bridgeRow, p *portRow) { p.Tag = &seven }, refused: vlans},
		"with trunks":              {change: func(_ *bridgeRow, p *portRow) { p.Trunks = []int{7} }, refused: vlans},
		"of mode access":           {change: func(_ *bridgeRow, p *portRow) { p.VLANMode = &access }, refused: vlans},
		"in user space":            {change: func(b *bridgeRow, _ *portRow) { b.Datapath = "netdev" }, refused: "datapath_type=system", bridge: true},
		"secure":                   {change: func(b *bridgeRow, _ *portRow) { b.FailMode = &secure }, refused: "a controller decides", bridge: true},
		"with a controller":        {change: func(b *bridgeRow, _ *portRow) { b.Controller = []string{"c"} }, refused: "a controller decides", bridge: true},
		"not known at present":     {tap: "vnet1", err: gone, fails: true},
		"unknown to the database":  {tap: "vnet1", refused: "does not name its bridge"},
		"in a Linux bridge":        {tap: "vnet2", err: gone, not: true},
		"not there":                {tap: "vnet9", err: gone, not: true},
		"stale row, no master now": {change: func(_ *bridgeRow, p *portRow) { p.Name = "vnet3" }, tap: "vnet3", not: true},
	} {
		if c.tap == "" {
			c.tap = "vnet0"
		}
		s := hostWith(func(b *bridgeRow, _, tap *portRow, _ *interfaceRow) {
			if c.change != nil {
				c.change(b, tap)
			}
		}, c.err)
		var links uplink.Links
		links.Index([]netdev.Link{
			{Index: 1, Name: "vnet0", Master: 9},
			{Index: 2, Name: "vnet1", Master: 9},
			{Index: 3, Name: "vnet2", Master: 8},
			{Index: 4, Name: "vnet3"},
			{Index: 8, Name: "br1", Kind: "bridge"},
			{Index: 9, Name: "ovs-system", Kind: "openvswitch"},
		})
		p, ok, err := s.FunctionPort(&links, c.tap)
		if ok == (c.not || c.fails) || (err != nil) != c.fails || (p.Refused == "") != (c.refused == "") || !strings.Contains(p.Refused, c.refused) {
			t.Errorf("%s: %+v, %v, %v", name, p, ok, err)
		}
		if ok && c.refused == "" && p.Switch != "br0" {
			t.Errorf("%s: in %q", name, p.Switch)
		}
		connection, err := s.Connection(t.Context(), "br0")
		if err != nil || strings.Contains(connection.NoFunctions, "; ") != c.bridge || c.bridge && connection.NoFunctions != p.Refused {
			t.Errorf("%s: connection %+v, %v", name, connection, err)
		}
	}
}

// A port is isolated once ovs-vswitchd has taken that over, and stays so while it takes over something else.
func TestIsolated(t *testing.T) {
	var links uplink.Links
	links.Index([]netdev.Link{{Index: 1, Name: "vnet0", Master: 9}, {Index: 9, Name: "ovs-system", Kind: "openvswitch"}})
	before := map[string]bool{}
	for i, c := range []struct{ protected, taken, want bool }{
		{true, false, false}, // as a daemon that was killed left it
		{true, true, true},
		{true, false, true},
		{false, false, false},
		{true, false, false},
		{false, true, false},
	} {
		s := hostWith(func(_ *bridgeRow, _, tap *portRow, _ *interfaceRow) { tap.Protected = c.protected }, nil)
		s.db.now.isolate(c.taken, before)
		before = s.db.now.isolated
		if p, ok, err := s.FunctionPort(&links, "vnet0"); !ok || err != nil || p.Isolated != c.want {
			t.Errorf("%d: %+v, %v, %v, want isolated %v", i, p, ok, err, c.want)
		}
	}
}
