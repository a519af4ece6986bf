package vf

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// simulated is the kernel's simulated NIC of that name, whose rates are rate objects. It has no PCI device, hence no PFInfo.
type simulated struct {
	*devlink
	t *testing.T
}

const simulatedNIC = "netdevsim77"

func (s simulated) vfStates(ctx context.Context, _ string, _ uint32) ([]vfState, error) {
	leaves, err := s.list(ctx, simulatedNIC)
	states := make([]vfState, 4)
	for i := range states {
		states[i].Index = i
	}
	addLeaves(states, leaves, "netdevsim")
	return states, err
}

func (s simulated) changeVF(ctx context.Context, _ string, idx int, c vfChange) error {
	leaves, err := s.list(ctx, simulatedNIC)
	if err != nil {
		return err
	}
	return s.set(ctx, leaves[idx], c.rates())
}

// do sends a command about the NIC, which `devlink` could send too.
func (s simulated) do(cmd uint8, fill func(*rtnl.Request)) error {
	s.t.Helper()
	family, err := sysif.GenericFamily(s.t.Context(), s.conn, "devlink")
	kerneltest.Must(s.t, err)
	req := devlinkRequest(family, cmd).String(unix.DEVLINK_ATTR_BUS_NAME, "netdevsim").String(unix.DEVLINK_ATTR_DEV_NAME, simulatedNIC)
	fill(req)
	return s.conn.Do(s.t.Context(), req)
}

func (s simulated) rates(idx int, want Rates) (Rates, error) {
	e := &vfEdit{io: s, pf: simulatedNIC, idx: idx, driver: "netdevsim", caps: model.Caps{MaxTxRate: model.Yes, MinTxRate: model.Yes}}
	var err error
	e.before, err = e.state(s.t.Context())
	kerneltest.Must(s.t, err)
	return e.setRates(s.t.Context(), want)
}

// TestRatesOfSimulatedNIC sets rates of a NIC that the kernel simulates (CONFIG_NETDEVSIM, which no distribution's kernel has:
// scripts/netdevsim builds the module and boots it).
func TestRatesOfSimulatedNIC(t *testing.T) {
	const bus = "/sys/bus/netdevsim/"
	write := func(path, text string) { t.Helper(); kerneltest.Must(t, os.WriteFile(bus+path, []byte(text), 0)) }
	if _, err := os.Stat(bus); err != nil {
		t.Skip("this kernel has no netdevsim: scripts/netdevsim")
	}
	conn, err := rtnl.DialGeneric(1)
	kerneltest.Must(t, err)
	defer conn.Close()
	write("new_device", "77 1")
	defer write("del_device", "77")
	write("devices/"+simulatedNIC+"/sriov_numvfs", "4")
	s := simulated{&devlink{conn}, t}
	if leaves, err := s.list(t.Context(), simulatedNIC); err != nil || len(leaves) != 0 {
		t.Errorf("in mode legacy: %v, %v", leaves, err)
	}
	kerneltest.Must(t, s.do(unix.DEVLINK_CMD_ESWITCH_SET, func(r *rtnl.Request) {
		r.U16(unix.DEVLINK_ATTR_ESWITCH_MODE, unix.DEVLINK_ESWITCH_MODE_SWITCHDEV)
	}))
	leaves, err := s.list(t.Context(), simulatedNIC)
	if err != nil || len(leaves) != 4 {
		t.Fatalf("%d leaves, %v", len(leaves), err)
	}

	for _, want := range []Rates{{Max: 100e6}, {Max: 2e9, Min: 1500e6}, {Max: 300e6, Min: 200e6}, {Min: 50e6}, {Max: 1e6}, {}} {
		if got, err := s.rates(1, want); err != nil || got != want {
			t.Errorf("wants %+v, got %+v, %v", want, got, err)
		}
	}
	if got, err := s.rates(1, Rates{Max: 1e9, Min: 2e9}); err != nil || got != (Rates{Max: 1e9, Min: 1e9}) {
		t.Errorf("a share above the maximum: %+v, %v", got, err)
	}
	got, err := s.rates(1, Rates{Max: 6e9, Min: 1e9})
	if !errors.Is(err, unix.EINVAL) || got.Max != 1e9 {
		t.Errorf("a maximum above the link's 5 Gbit/s: %+v, %v", got, err)
	}
	kerneltest.Must(t, s.set(t.Context(), leaves[1], Rates{}))

	// A leaf that somebody put into a node stays there, and is guaranteed nothing.
	node := func(r *rtnl.Request) { r.String(unix.DEVLINK_ATTR_RATE_NODE_NAME, "gold") }
	kerneltest.Must(t, s.do(unix.DEVLINK_CMD_RATE_NEW, func(r *rtnl.Request) { node(r); r.U64(unix.DEVLINK_ATTR_RATE_TX_MAX, 25e6) }))
	parent := func(name string) error {
		return s.do(unix.DEVLINK_CMD_RATE_SET, func(r *rtnl.Request) {
			r.U32(unix.DEVLINK_ATTR_PORT_INDEX, leaves[2].port).String(unix.DEVLINK_ATTR_RATE_PARENT_NODE_NAME, name)
		})
	}
	kerneltest.Must(t, parent("gold"))
	if got, err := s.rates(2, Rates{Max: 1e9, Min: 5e8}); err != nil || got != (Rates{Max: 1e9}) {
		t.Errorf("in a node: %+v, %v", got, err)
	}
	if states, err := s.vfStates(t.Context(), "", 0); err != nil || states[2].RateNode != "gold" || states[1].RateNode != "" {
		t.Errorf("nodes: %+v, %v", states, err)
	}
	kerneltest.Must(t, parent(""))
	kerneltest.Must(t, s.do(unix.DEVLINK_CMD_RATE_DEL, node))

	// Without VFs, and in mode legacy again, nothing is left to set.
	write("devices/"+simulatedNIC+"/sriov_numvfs", "0")
	if leaves, err := s.list(t.Context(), simulatedNIC); err != nil || len(leaves) != 0 {
		t.Errorf("without VFs: %v, %v", leaves, err)
	}
	if err := s.set(t.Context(), leaves[1], Rates{Max: 1e9}); err == nil {
		t.Error("set the rate of a leaf that is gone")
	}
}
