package vf

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

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
	leaf := got[7]
	set, ok := decodeDevlinkRate(leaf.request(0x15, Rates{Max: 40e9, Min: 3e9}).Message())
	if !ok || set != (devlinkRate{"pci", nic, 65541, Rates{Max: 40e9, Min: 3e9}}) {
		t.Errorf("sets %+v", set)
	}
	for n := range len(port(nic, 1, 4, 2).Data) { // truncated anywhere
		decodeDevlinkPort(rtnl.Message{Data: port(nic, 1, 4, 2).Data[:n]})
		decodeDevlinkRate(rtnl.Message{Data: rate(nic, 1, 4, 2).Data[:min(n, 40)]})
	}
}

// TestDevlinkWithoutRates checks that a kernel without devlink or without rate objects is no error.
func TestDevlinkWithoutRates(t *testing.T) {
	h := newHost(t)
	if got, err := h.devlink.list(kerneltest.Soon(t), "0000:03:00.0"); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if mode, err := h.devlink.eswitch(kerneltest.Soon(t), "0000:03:00.0"); err != nil || mode != model.EswitchUnknown {
		t.Errorf("mode of a device that is not there: %q, %v", mode, err)
	}
	if err := sysif.Absent(unix.EACCES); !errors.Is(err, unix.EACCES) {
		t.Errorf("a refusal: %v", err)
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
