package vf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// simulated is a NIC that the kernel simulates.
type simulated struct {
	*Functions
	kerneltest.SimulatedNIC
	t *testing.T
}

func newSimulated(t *testing.T) simulated {
	return simulated{newHost(t), kerneltest.NewSimulatedNIC(t), t}
}

// request is one of devlink about the NIC.
func (s simulated) request(cmd uint8) *rtnl.Request {
	s.t.Helper()
	family, err := sysif.GenericFamily(s.t.Context(), s.devlink.conn, "devlink")
	kerneltest.Must(s.t, err)
	return devlinkRequest(family, cmd).String(unix.DEVLINK_ATTR_BUS_NAME, "netdevsim").String(unix.DEVLINK_ATTR_DEV_NAME, s.Device)
}

func (s simulated) do(req *rtnl.Request) {
	s.t.Helper()
	kerneltest.Must(s.t, s.devlink.conn.Do(s.t.Context(), req))
}

// inMode fails the test unless the NIC is in a mode, with rate objects of so many VFs.
func (s simulated) inMode(want model.EswitchMode, leaves int) map[int]devlinkRate {
	s.t.Helper()
	mode, err := rtnl.Get(s.t.Context(), s.devlink.conn, s.request(unix.DEVLINK_CMD_ESWITCH_GET), decodeEswitch)
	if err != nil || mode != want {
		s.t.Errorf("in mode %q, %v; want %q", mode, err, want)
	}
	found, err := s.devlink.list(s.t.Context(), s.Device)
	if err != nil || len(found) != leaves {
		s.t.Fatalf("in mode %s: rate objects %v, %v; want %d", mode, found, err, leaves)
	}
	return found
}

func (s simulated) setRates(vf int, want Rates) (Rates, error) {
	return s.SetVFRates(s.t.Context(), s.PF, vf, want)
}

func (s simulated) state(vf int) vfState {
	s.t.Helper()
	e, err := s.editVF(s.t.Context(), s.PF, vf)
	kerneltest.Must(s.t, err)
	return e.before
}

// TestRatesOfSimulatedNIC sets rates by rate objects, and leaves alone what others have made of them.
func TestRatesOfSimulatedNIC(t *testing.T) {
	s := newSimulated(t)
	s.SetVFs(t, 4)
	s.inMode(model.EswitchLegacy, 0)
	s.Switchdev(t)
	leaves := s.inMode(model.EswitchSwitchdev, 4)

	for _, want := range []Rates{{Max: 100e6}, {Max: 2e9, Min: 1500e6}, {Max: 300e6, Min: 200e6}, {Min: 50e6}, {Max: 1e6}, {}} {
		if got, err := s.setRates(1, want); err != nil || got != want {
			t.Errorf("wants %+v, got %+v, %v", want, got, err)
		}
	}
	if got, err := s.setRates(1, Rates{Max: 1e9, Min: 2e9}); err != nil || got != (Rates{Max: 1e9, Min: 1e9}) {
		t.Errorf("a share above the maximum: %+v, %v", got, err)
	}
	got, err := s.setRates(1, Rates{Max: 6e9, Min: 1e9})
	if !errors.Is(err, unix.EINVAL) || got.Max != 1e9 {
		t.Errorf("a maximum above the link's 5 Gbit/s: %+v, %v", got, err)
	}

	// A leaf that somebody put into a node stays there, and is guaranteed nothing; the node stays as it is.
	s.do(s.request(unix.DEVLINK_CMD_RATE_NEW).String(unix.DEVLINK_ATTR_RATE_NODE_NAME, "gold").U64(unix.DEVLINK_ATTR_RATE_TX_MAX, 25e6))
	s.do(s.request(unix.DEVLINK_CMD_RATE_SET).U32(unix.DEVLINK_ATTR_PORT_INDEX, leaves[2].port).
		String(unix.DEVLINK_ATTR_RATE_PARENT_NODE_NAME, "gold"))
	if got, err := s.setRates(2, Rates{Max: 1e9, Min: 5e8}); err != nil || got != (Rates{Max: 1e9}) {
		t.Errorf("in a node: %+v, %v", got, err)
	}
	if in, out := s.state(2).RateNode, s.state(1).RateNode; in != "gold" || out != "" {
		t.Errorf("in nodes %q and %q", in, out)
	}
	req := s.request(unix.DEVLINK_CMD_RATE_GET).String(unix.DEVLINK_ATTR_RATE_NODE_NAME, "gold")
	node, err := rtnl.Get(t.Context(), s.devlink.conn, req, func(m rtnl.Message) (r Rates, err error) {
		attrs := rtnl.Body(m.Data, unix.GENL_HDRLEN)
		r.Min, r.Max = rtnl.U64(rtnl.Attr(attrs, unix.DEVLINK_ATTR_RATE_TX_SHARE)), rtnl.U64(rtnl.Attr(attrs, unix.DEVLINK_ATTR_RATE_TX_MAX))
		return r, nil
	})
	if err != nil || node != (Rates{Max: 25e6}) {
		t.Errorf("the node: %+v bytes/s, %v", node, err)
	}
}

// TestSimulatedNICLosesItsVFs: a PF in mode switchdev that loses its VFs falls back to mode legacy. Then nothing of them is read or set,
// and VFs that come back are found again, with nothing of what was.
func TestSimulatedNICLosesItsVFs(t *testing.T) {
	s := newSimulated(t)
	s.SetVFs(t, 4)
	s.Switchdev(t)
	leaf := s.inMode(model.EswitchSwitchdev, 4)[1]
	want := Rates{Max: 1e9, Min: 5e8}
	if got, err := s.setRates(1, want); err != nil || got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
	begun, err := s.editVF(t.Context(), s.PF, 1)
	kerneltest.Must(t, err)

	s.SetVFs(t, 0)
	s.inMode(model.EswitchLegacy, 0)
	if states, err := s.vfStates(t.Context(), s.PF, 0); err != nil || len(states) != 0 {
		t.Errorf("VFs %+v, %v", states, err)
	}
	for what, change := range map[string]func() error{
		"set":          func() error { _, err := s.SetVF(t.Context(), s.PF, 1, Settings{VLAN: 7}); return err },
		"set the MAC":  func() error { return s.SetVFMAC(t.Context(), s.PF, 1, kerneltest.Guest) },
		"clear":        func() error { _, err := s.ClearVF(t.Context(), s.PF, 1); return err },
		"set rates":    func() error { _, err := s.setRates(1, want); return err },
		"end a change": func() error { _, err := begun.setRates(t.Context(), Rates{Max: 2e9}); return err },
		"set rates of the rate object": func() error {
			err := s.devlink.set(t.Context(), leaf, Rates{Max: 1e9})
			return sysif.Fail("set", "VF", err)
		},
	} {
		if err := change(); !errors.Is(err, model.ErrGone) {
			t.Errorf("%s of a VF that is gone: %v", what, err)
		} else if strings.HasPrefix(what, "set rates of") {
			continue
		} else if wanted := fmt.Sprintf("VF %s/1: %s: the PF has 0 VFs", s.PF, model.ErrGone); !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %v; want %q", what, err, wanted)
		}
	}

	s.SetVFs(t, 2)
	s.inMode(model.EswitchLegacy, 0)
	if got, err := s.setRates(1, want); err != nil || got != (Rates{Max: 1e9}) {
		t.Errorf("in mode legacy, whose driver is not known to guarantee anything: %+v, %v", got, err)
	}
	s.Switchdev(t)
	s.inMode(model.EswitchSwitchdev, 2)
	if now := s.state(1); now.MaxTxRate != 0 || now.MinTxRate != 0 || now.RateNode != "" {
		t.Errorf("a new VF has %+v", now)
	}
	if got, err := s.setRates(1, want); err != nil || got != want {
		t.Errorf("of a new VF: %+v, %v", got, err)
	}
}
