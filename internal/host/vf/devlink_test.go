package vf

import (
	"cmp"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// TestDevlinkRates decodes what a driver in switchdev mode answers: ports of the uplink, of two VFs and of another NIC's VF, and
// rate objects of the VFs and of a group.
func TestDevlinkRates(t *testing.T) {
	port := func(dev string, index uint32, flavour uint16, vf int) rtnl.Message {
		r := devlinkRequest(0x15, unix.DEVLINK_CMD_PORT_GET).String(unix.DEVLINK_ATTR_BUS_NAME, "pci").String(unix.DEVLINK_ATTR_DEV_NAME, dev)
		r.U32(unix.DEVLINK_ATTR_PORT_INDEX, index).U16(unix.DEVLINK_ATTR_PORT_FLAVOUR, flavour)
		if vf >= 0 {
			r.U16(unix.DEVLINK_ATTR_PORT_PCI_PF_NUMBER, 0).U16(unix.DEVLINK_ATTR_PORT_PCI_VF_NUMBER, uint16(vf))
		}
		return r.Message()
	}
	rate := func(dev string, index uint32, share, most uint64) rtnl.Message {
		r := devlinkRequest(0x15, unix.DEVLINK_CMD_RATE_GET).String(unix.DEVLINK_ATTR_BUS_NAME, "pci").String(unix.DEVLINK_ATTR_DEV_NAME, dev)
		r.U16(unix.DEVLINK_ATTR_RATE_TYPE, 0).U32(unix.DEVLINK_ATTR_PORT_INDEX, index)
		if share > 0 {
			r.String(unix.DEVLINK_ATTR_RATE_PARENT_NODE_NAME, "gold")
		}
		return r.U64(unix.DEVLINK_ATTR_RATE_TX_SHARE, share).U64(unix.DEVLINK_ATTR_RATE_TX_MAX, most).Message()
	}
	group := devlinkRequest(0x15, unix.DEVLINK_CMD_RATE_GET).String(unix.DEVLINK_ATTR_DEV_NAME, "0000:03:00.0").
		U16(unix.DEVLINK_ATTR_RATE_TYPE, 1).String(unix.DEVLINK_ATTR_RATE_NODE_NAME, "gold").U64(unix.DEVLINK_ATTR_RATE_TX_MAX, 5).Message()
	const nic, neighbour = "0000:03:00.0", "0000:03:00.1"
	var ports []devlinkPort
	for _, m := range []rtnl.Message{port(nic, 1, 0, -1), port(nic, 65540, 4, 0), port(nic, 65541, 4, 7), port(neighbour, 65541, 4, 3)} {
		if p, ok := decodeDevlinkPort(m); ok {
			ports = append(ports, p)
		}
	}
	var rates []devlinkRate
	for _, m := range []rtnl.Message{group, rate(nic, 65540, 0, 0), rate(nic, 65541, 125e6, 1.25e9), rate(neighbour, 65541, 1, 2)} {
		if r, ok := decodeDevlinkRate(m); ok {
			rates = append(rates, r)
		}
	}
	got := joinDevlink(nic, ports, rates)
	if len(got) != 2 || got[0].rates != (Rates{}) || got[7].rates != (Rates{Max: 10e9, Min: 1e9}) {
		t.Fatalf("rates by VF: %+v", got)
	}
	if node := got[7].node; node != "gold" || got[0].node != "" {
		t.Errorf("VF 7 is in node %q, VF 0 in %q", node, got[0].node)
	}
	for n := range len(port(nic, 1, 4, 2).Data) { // truncated anywhere
		decodeDevlinkPort(rtnl.Message{Data: port(nic, 1, 4, 2).Data[:n]})
		decodeDevlinkRate(rtnl.Message{Data: rate(nic, 1, 4, 2).Data[:min(n, 40)]})
	}
}

// Each request sets one rate that differs, and names the leaf only: not the node that it is in. After each of them, the share is at most
// the maximum, because drivers refuse more.
func TestLeafRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(of string) (r Rates) {
			r.Max = 1e6 * rapid.Uint64Range(0, 6).Draw(t, of+" max")
			r.Min = 1e6 * rapid.Uint64Range(0, cmp.Or(r.Max/1e6, 6)).Draw(t, of+" share")
			return r
		}
		leaf := devlinkRate{bus: "pci", dev: "0000:03:00.0", port: 65541, node: "gold", rates: draw("has")}
		now, want := leaf.rates, draw("want")
		for _, req := range leaf.requests(0x15, want) {
			var set []uint16
			for a, v := range rtnl.Attrs(rtnl.Body(req.Message().Data, unix.GENL_HDRLEN)) {
				set = append(set, a)
				switch a {
				case unix.DEVLINK_ATTR_RATE_TX_SHARE:
					now.Min = 8 * rtnl.U64(v)
				case unix.DEVLINK_ATTR_RATE_TX_MAX:
					now.Max = 8 * rtnl.U64(v)
				case unix.DEVLINK_ATTR_RATE_PARENT_NODE_NAME:
					t.Fatal("it names a node")
				}
			}
			if bus, dev, port := devlinkHandle(rtnl.Body(req.Message().Data, unix.GENL_HDRLEN)); bus != leaf.bus || dev != leaf.dev || port != leaf.port {
				t.Fatalf("it is about %s/%s/%d", bus, dev, port)
			}
			if len(set) != 4 {
				t.Fatalf("attributes %v: want three of the leaf and a rate", set)
			}
			if now.Max > 0 && now.Min > now.Max {
				t.Fatalf("from %+v to %+v over %+v", leaf.rates, want, now)
			}
		}
		if now != want {
			t.Fatalf("%+v, want %+v", now, want)
		}
	})
}

// The nodes of ice are its own, unless they have other names.
func TestForeignNode(t *testing.T) {
	for _, c := range []struct{ driver, node, want string }{
		{"mlx5_core", "", ""},
		{"mlx5_core", "gold", "gold"},
		{"mlx5_core", "node_3", "node_3"},
		{"ice", "node_3", ""},
		{"ice", "node_3b", "node_3b"},
	} {
		leaf := devlinkRate{node: c.node}
		states := []vfState{{Index: 0, MaxTxRate: 9}, {Index: 1}}
		addLeaves(states, map[int]devlinkRate{1: leaf}, c.driver)
		if states[1].RateNode != c.want || states[0].MaxTxRate != 9 {
			t.Errorf("%s, node %q: %+v", c.driver, c.node, states)
		}
	}
}

// TestDevlinkWithoutRates checks that a kernel without devlink or without rate objects is no error.
func TestDevlinkWithoutRates(t *testing.T) {
	h := newHost(t)
	if got, err := h.devlink.list(kerneltest.Soon(t), "0000:03:00.0"); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if mode, err := h.devlink.eswitch(kerneltest.Soon(t), "0000:03:00.0", "mlx5_core"); err != nil || mode != model.EswitchUnknown {
		t.Errorf("mode of a device that is not there: %q, %v", mode, err)
	}
	if err := sysif.Absent(unix.EACCES); !errors.Is(err, unix.EACCES) {
		t.Errorf("a refusal: %v", err)
	}
}

// Only mlx5_core tells by EOPNOTSUPP that the embedded switch is managed elsewhere: others have no modes then.
func TestManagedElsewhere(t *testing.T) {
	for _, c := range []struct {
		driver string
		err    error
		want   bool
	}{
		{"mlx5_core", unix.EOPNOTSUPP, true}, {"mlx5_core", unix.ENODEV, false}, {"mlx5_core", nil, false}, {"igb", unix.EOPNOTSUPP, false},
	} {
		if got := managedElsewhere(c.driver, c.err); got != c.want {
			t.Errorf("%s, %v: %v", c.driver, c.err, got)
		}
	}
}

// TestDecodeEswitch decodes answers in the form of devlink_nl_eswitch_fill.
func TestDecodeEswitch(t *testing.T) {
	answer := func(fill func(r *rtnl.Request)) rtnl.Message {
		r := devlinkRequest(0x15, unix.DEVLINK_CMD_ESWITCH_GET).String(unix.DEVLINK_ATTR_BUS_NAME, "pci").String(unix.DEVLINK_ATTR_DEV_NAME,
			"0000:03:00.0")
		fill(r)
		return r.U8(unix.DEVLINK_ATTR_ESWITCH_INLINE_MODE, 1).U8(unix.DEVLINK_ATTR_ESWITCH_ENCAP_MODE, 1).Message()
	}
	mode := func(n uint16) func(*rtnl.Request) {
		return func(r *rtnl.Request) { r.U16(unix.DEVLINK_ATTR_ESWITCH_MODE, n) }
	}
	for name, c := range map[string]struct {
		fill func(*rtnl.Request)
		want model.EswitchMode
	}{
		"legacy":       {mode(0), model.EswitchLegacy},
		"switchdev":    {mode(1), model.EswitchSwitchdev},
		"a later mode": {mode(2), model.EswitchUnknown},
		"no mode":      {func(*rtnl.Request) {}, model.EswitchUnknown},
		"half a mode":  {func(r *rtnl.Request) { r.U8(unix.DEVLINK_ATTR_ESWITCH_MODE, 1) }, model.EswitchUnknown},
	} {
		if got, err := decodeEswitch(answer(c.fill)); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}
