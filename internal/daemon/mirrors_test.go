package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel"
	"sluice/internal/model"
)

type fixedSource struct{ snap *model.Snapshot }

func (s fixedSource) Snapshot(context.Context) (*model.Snapshot, error) { return s.snap, nil }

type fixedMirrors struct {
	all        []kernel.Mirror
	taps       []kernel.TapPolicy
	ports      []model.SwitchPortState
	err, check error
}

func (m fixedMirrors) TapPolicies(context.Context) ([]kernel.TapPolicy, error) { return m.taps, nil }

func (m fixedMirrors) SwitchPorts(context.Context) ([]model.SwitchPortState, error) {
	return m.ports, nil
}

func (m fixedMirrors) CheckMirrors() error { return m.check }

func (m fixedMirrors) Mirrors(context.Context) ([]kernel.Mirror, error) { return m.all, m.err }

// TestLimitedTapsOfNobodyShow: those of taps that have gone, and of taps that no VM has.
func TestLimitedTapsOfNobodyShow(t *testing.T) {
	snap := &model.Snapshot{VMs: []model.VM{{ID: "a", NICs: []model.NIC{{Tap: "vnet0"}, {Tap: "vnet1"}}}}}
	got, err := mirrored{fixedSource{snap}, fixedMirrors{taps: []kernel.TapPolicy{
		{Tap: "vnet0", Detached: model.No}, {Tap: "vnet1", Detached: model.Yes}, {Tap: "vnet2", Detached: model.Unknown}, {Tap: "vnet3", Detached: model.Yes},
	}}}.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []model.TapLimit{{Tap: "vnet1", Detached: model.Yes}, {Tap: "vnet2"}, {Tap: "vnet3", Detached: model.Yes}}
	if diff := cmp.Diff(want, got.Limited); diff != "" {
		t.Error("limited taps of nobody's (-want +got):", diff)
	}
}

// TestSwitchPortsOfNobodyShow: those of taps that are no function's of a virtual PF.
func TestSwitchPortsOfNobodyShow(t *testing.T) {
	snap := &model.Snapshot{VMs: []model.VM{{ID: "a", NICs: []model.NIC{{Tap: "vnet0", VirtualPF: "vpf0"}, {Tap: "vnet1"}}}}}
	var ports []model.SwitchPortState
	for tap, detached := range map[string]model.Tri{"vnet0": model.Yes, "vnet1": model.Yes} {
		ports = append(ports, model.SwitchPortState{SwitchPort: model.SwitchPort{Tap: tap}, Detached: detached})
	}
	got, err := mirrored{fixedSource{snap}, fixedMirrors{ports: ports}}.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.TapLimit{{Tap: "vnet1", Detached: model.Yes}}, got.Ports); diff != "" {
		t.Error("switch ports of nobody's (-want +got):", diff)
	}
}

// TestMirrorsOfOtherProcessesShow tells those of a VM's NIC from those of nobody's. A NIC
// whose tap came back under the same name has none yet.
func TestMirrorsOfOtherProcessesShow(t *testing.T) {
	a, b := model.MAC{2, 1}, model.MAC{2, 2}
	at := func(tap string, mac model.MAC, detached model.Tri) kernel.Mirror {
		return kernel.Mirror{Window: kernel.Window{Tap: tap, MAC: mac, PF: "pf0", VLAN: 7}, Detached: detached}
	}
	snap := &model.Snapshot{VMs: []model.VM{{ID: "a", NICs: []model.NIC{
		{MAC: a, Tap: "vnet0"}, {MAC: b, Tap: "vnet1"}, {MAC: a, Tap: "vnet2"}, {MAC: a, Tap: "vnet3"},
	}}}}
	m := mirrored{fixedSource{snap}, fixedMirrors{all: []kernel.Mirror{
		at("vnet0", a, model.No), at("vnet1", a, model.No), at("vnet2", a, model.Yes), at("vnet3", a, model.Unknown),
	}}}
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
		t.Error("NICs with a window (-want +got):", diff)
	}
	want := []model.DualPath{
		{Tap: "vnet1", MAC: a, PF: "pf0", VLAN: 7, Detached: model.No},
		{Tap: "vnet2", MAC: a, PF: "pf0", VLAN: 7, Detached: model.Yes},
	}
	if diff := cmp.Diff(want, got.DualPaths); diff != "" {
		t.Error("mirrors of nobody's (-want +got):", diff)
	}
}

func TestMirrorsThatCannotBeListedOrKept(t *testing.T) {
	for _, broken := range []fixedMirrors{{err: errors.New("no")}, {check: errors.New("no")}} {
		got, err := mirrored{fixedSource{&model.Snapshot{}}, broken}.Snapshot(t.Context())
		if err != nil || len(got.Problems) != 1 {
			t.Errorf("%+v, %v; want a Snapshot that tells the problem", got, err)
		}
	}
}

func TestMirrorsThatCannotBeKeptHaveARemedy(t *testing.T) {
	got, err := mirrored{fixedSource{&model.Snapshot{}}, fixedMirrors{check: errors.New("none is mounted; mount -t bpf")}}.Snapshot(t.Context())
	if err != nil || len(got.Problems) != 1 {
		t.Fatalf("%+v, %v; want one problem", got, err)
	}
	if p := got.Problems[0]; !strings.HasSuffix(p.Text, ": none is mounted") || p.Remedy != "mount -t bpf" {
		t.Errorf("problem %+v, want text and remedy apart", p)
	}
}
