package observe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/tap"
	"sluice/internal/model"
)

type fixedSource struct{ snap *model.Snapshot }

func (s fixedSource) Snapshot(context.Context) (*model.Snapshot, error) { return s.snap, nil }

type fixedHost struct {
	all        []model.DualPath
	taps       []tap.Policy
	ports      []model.SwitchPortState
	err, check error
}

func (m fixedHost) TapPolicies(context.Context) ([]tap.Policy, error) { return m.taps, nil }

func (m fixedHost) SwitchPorts(context.Context) ([]model.SwitchPortState, error) {
	return m.ports, nil
}

func (m fixedHost) CheckDualPaths() error { return m.check }

func (m fixedHost) DualPaths(context.Context) ([]model.DualPath, error) { return m.all, m.err }

// TestLimitedTapsOfNobodyShow covers limits of taps that are gone, and of taps that no VM has.
func TestLimitedTapsOfNobodyShow(t *testing.T) {
	snap := &model.Snapshot{VMs: []model.VM{{ID: "a", NICs: []model.NIC{{Tap: "vnet0"}, {Tap: "vnet1"}}}}}
	got, err := Applied{fixedSource{snap}, fixedHost{}, fixedHost{taps: []tap.Policy{
		{Tap: "vnet0", Detached: model.No},
		{Tap: "vnet1", Detached: model.Yes},
		{Tap: "vnet2", Detached: model.Unknown},
		{Tap: "vnet3", Detached: model.Yes},
	}}}.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []model.TapLimit{{Tap: "vnet1", Detached: model.Yes}, {Tap: "vnet2"}, {Tap: "vnet3", Detached: model.Yes}}
	if diff := cmp.Diff(want, got.Limited); diff != "" {
		t.Error("limited taps of nobody's (-want +got):", diff)
	}
}

// TestSwitchPortsOfNobodyShow covers ports of taps that belong to no function of a virtual PF.
func TestSwitchPortsOfNobodyShow(t *testing.T) {
	snap := &model.Snapshot{VMs: []model.VM{{ID: "a", NICs: []model.NIC{{Tap: "vnet0", VirtualPF: "vpf0"}, {Tap: "vnet1"}}}}}
	var ports []model.SwitchPortState
	for tap, detached := range map[string]model.Tri{"vnet0": model.Yes, "vnet1": model.Yes} {
		ports = append(ports, model.SwitchPortState{SwitchPort: model.SwitchPort{Tap: tap}, Detached: detached})
	}
	got, err := Applied{fixedSource{snap}, fixedHost{}, fixedHost{ports: ports}}.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.TapLimit{{Tap: "vnet1", Detached: model.Yes}}, got.Ports); diff != "" {
		t.Error("switch ports of nobody's (-want +got):", diff)
	}
}

// TestDualPathsOfOtherProcessesShow distinguishes dual paths of a VM's NIC from those that belong to none. A NIC whose tap came
// back under the same name has none yet.
func TestDualPathsOfOtherProcessesShow(t *testing.T) {
	a, b := model.MAC{2, 1}, model.MAC{2, 2}
	at := func(tap string, mac model.MAC, detached model.Tri) model.DualPath {
		return model.DualPath{Tap: tap, MAC: mac, PF: "pf0", VLAN: 7, Kind: "test", Detached: detached}
	}
	snap := &model.Snapshot{VMs: []model.VM{{ID: "a", NICs: []model.NIC{
		{MAC: a, Tap: "vnet0"}, {MAC: b, Tap: "vnet1"}, {MAC: a, Tap: "vnet2"}, {MAC: a, Tap: "vnet3"},
	}}}}
	m := Applied{fixedSource{snap}, fixedHost{all: []model.DualPath{
		at("vnet0", a, model.No), at("vnet1", a, model.No), at("vnet2", a, model.Yes), at("vnet3", a, model.Unknown),
	}}, fixedHost{}}
	got, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, n := range got.VMs[0].NICs {
		if n.DualPath {
			open = append(open, n.Tap)
		}
	}
	if diff := cmp.Diff([]string{"vnet0", "vnet3"}, open); diff != "" {
		t.Error("NICs with a dual path (-want +got):", diff)
	}
	want := []model.DualPath{
		{Tap: "vnet1", MAC: a, PF: "pf0", VLAN: 7, Kind: "test", Detached: model.No},
		{Tap: "vnet2", MAC: a, PF: "pf0", VLAN: 7, Kind: "test", Detached: model.Yes},
	}
	if diff := cmp.Diff(want, got.DualPaths); diff != "" {
		t.Error("dual paths of nobody's (-want +got):", diff)
	}
}

func TestDualPathsThatCannotBeListedOrKept(t *testing.T) {
	for _, broken := range []fixedHost{{err: errors.New("no")}, {check: errors.New("no")}} {
		got, err := Applied{fixedSource{&model.Snapshot{}}, broken, broken}.Snapshot(t.Context())
		if err != nil || len(got.Problems) != 1 {
			t.Errorf("%+v, %v; want a Snapshot that tells the problem", got, err)
		}
	}
}

func TestDualPathsThatCannotBeKeptHaveARemedy(t *testing.T) {
	got, err := Applied{
		fixedSource{&model.Snapshot{}},
		fixedHost{check: errors.New("none is mounted; mount -t bpf")},
		fixedHost{},
	}.Snapshot(t.Context())
	if err != nil || len(got.Problems) != 1 {
		t.Fatalf("%+v, %v; want one problem", got, err)
	}
	if p := got.Problems[0]; !strings.HasSuffix(p.Text, ": none is mounted") || p.Remedy != "mount -t bpf" {
		t.Errorf("problem %+v, want text and remedy apart", p)
	}
}
