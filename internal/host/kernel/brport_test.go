package kernel

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// TestIsolatedPorts reach others, and not each other; it is read back, changed in place and undone.
func TestIsolatedPorts(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	up := kerneltest.NewPort(t, "up0", "br0")
	taps := []*kerneltest.Port{kerneltest.NewPort(t, "tap0", "br0"), kerneltest.NewPort(t, "tap1", "br0")}
	macs := []model.MAC{guest, other}
	isolate := func(on bool) {
		t.Helper()
		for i, p := range taps {
			want := model.SwitchPort{Tap: p.Name, Bridge: "br0", Isolated: on, Rules: []model.SwitchRule{{MACs: macs[i : i+1]}}}
			if now := setPort(t, h, want); cmp.Diff(want, now.SwitchPort) != "" {
				t.Errorf("stands %+v", now)
			}
			if all := switchPorts(t, h); cmp.Diff(want, all[i].SwitchPort) != "" {
				t.Errorf("listed %+v", all)
			}
		}
	}
	hello := kerneltest.Frame(bcast, guest, "hello")
	reaches := func(want bool) {
		t.Helper()
		taps[0].Send(t, hello)
		up.Expect(t, hello)
		if got := taps[1].Waiting(t) != nil; got != want {
			t.Errorf("the other tap is reached: %v, want %v", got, want)
		}
	}
	isolate(true)
	reaches(false)
	isolate(false)
	reaches(true)
	isolate(true)
	for _, p := range taps {
		must(t, h.RemoveSwitchPort(soon(t), p.Name))
	}
	reaches(true)
}

// TestIsolatedBeforeItsRules: new rules let nothing pass from a port that is to be isolated with them and is not yet. A change that
// fails half-way shows the order.
func TestIsolatedBeforeItsRules(t *testing.T) {
	h := newHost(t)
	twoPorts(t)
	setPort(t, h, access)
	if _, err := h.SetSwitchPort(soon(t), model.SwitchPort{Tap: "tap0", Bridge: "br1", Isolated: true, Rules: []model.SwitchRule{{MACs: []model.MAC{guest}}}}); err == nil {
		t.Fatal("a port of another bridge")
	}
	if now := switchPorts(t, h)[0]; now.Rules[0].VLAN != 0 || !now.Isolated {
		t.Errorf("have %+v", now)
	}
}

// TestPortOfAnotherBridge is refused, and so is what only a bridge can do.
func TestPortOfAnotherBridge(t *testing.T) {
	h := newHost(t)
	twoPorts(t)
	kerneltest.NewPort(t, "alone0", "")
	rules := access.Rules
	for _, p := range []model.SwitchPort{
		{Tap: "tap0", Bridge: "br1", Rules: rules}, {Tap: "alone0", Bridge: "br0", Rules: rules}, {Tap: "alone0", Isolated: true, Rules: rules},
	} {
		if _, err := h.SetSwitchPort(soon(t), p); !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), p.Tap) {
			t.Errorf("%+v: %v, want model.ErrPermanent", p, err)
		}
		must(t, h.RemoveSwitchPort(soon(t), p.Tap))
	}
}

// TestVLANMembership: on a bridge that filters VLANs a port is a tagged member of those of its rules.
func TestVLANMembership(t *testing.T) {
	h := newHost(t)
	tap, out := twoPorts(t)
	if err := exec.Command("ip", "link", "set", "br0", "type", "bridge", "vlan_filtering", "1").Run(); err != nil {
		lacks(t, "bridges that filter VLANs")
		return
	}
	kerneltest.Bridge(t, "vlan add dev out0 vid 2-4094")
	members := func() string {
		return strings.Join(strings.Fields(kerneltest.Bridge(t, "-compressvlans vlan show dev tap0")), " ")
	}
	setPort(t, h, access)
	if got := members(); !strings.HasSuffix(got, "tap0 10") {
		t.Errorf("members: %s", got)
	}
	holdsTo10(t, tap, out)
	setPort(t, h, ofGuest(func(r *model.SwitchRule) { r.Trunk = model.VLANs{{First: 10, Last: 12}, {First: 20, Last: 20}} }))
	if got := members(); !strings.HasSuffix(got, "tap0 10-12 20") {
		t.Errorf("members: %s", got)
	}
	in := vlan(kerneltest.Frame(stray, guest, "in the trunk"), 12)
	tap.Send(t, in)
	out.Expect(t, in)
}

// TestVLANChanges: after what is to be left and joined, a port is in its rules' VLANs, with tags, and in the bridge's own for what has none
// if a rule has none.
func TestVLANChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(drawRule), 1, 3).Draw(t, "rules")
		have := map[int]uint16{}
		for _, id := range rapid.SliceOf(among(append(someVLANs, 12, 13)...)).Draw(t, "have") {
			have[id] = among[uint16](0, 0, vlanUntagged, vlanUntagged|vlanPVID).Draw(t, "flags")
		}
		want, plain := map[int]uint16{}, false
		for _, r := range rules {
			plain = plain || r.VLAN == 0 && len(r.Trunk) == 0
		}
		for id := 1; id <= model.MaxVLAN; id++ {
			for _, r := range rules {
				if r.VLAN == id || r.Trunk.Has(id) {
					want[id] = 0
				}
			}
			if _, in := want[id]; !in && have[id] != 0 && plain {
				want[id] = have[id]
			}
		}
		var list []portVLAN
		for id, flags := range have {
			list = append(list, portVLAN{id, flags})
		}
		leave, join := vlanChanges(list, rules)
		for id := 1; id <= model.MaxVLAN; id++ {
			if leave.Has(id) {
				delete(have, id)
			}
			if join.Has(id) {
				have[id] = 0
			}
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Fatalf("leave %v, join %v (-want +got): %s", leave, join, d)
		}
	})
}

// TestBridgeVLANMessages: what is asked for is what is read.
func TestBridgeVLANMessages(t *testing.T) {
	vlans := model.VLANs{{First: 5, Last: 5}, {First: 10, Last: 12}, {First: 4094, Last: 4094}}
	m := bridgeVLANsChange(unix.RTM_NEWLINK, 7, vlans).Message()
	want := []portVLAN{{5, 0}, {10, 0}, {11, 0}, {12, 0}, {4094, 0}}
	if got, ok := decodeBridgeVLANs(7)(m); !ok || cmp.Diff(want, got, cmp.AllowUnexported(portVLAN{})) != "" {
		t.Errorf("read %v, %v; want %v", got, ok, want)
	}
	if got, ok := decodeBridgeVLANs(8)(m); ok {
		t.Errorf("another port has %v", got)
	}
	// As the kernel tells it: the untagged VLAN first, a range with its flags at both ends.
	answer := rtnl.NewRequest(unix.RTM_NEWLINK, 0, rtnl.Link(unix.AF_BRIDGE, 7)).Nest(unix.IFLA_AF_SPEC, func(r *rtnl.Request) {
		for _, v := range [][]byte{{6, 0, 1, 0}, {8, 0, 20, 0}, {16, 0, 22, 0}, {8, 0, 30, 0}, {16 | 4, 0, 31}, {4, 0, 0xff, 0xff}} {
			r.Bytes(bridgeVLANInfo, v)
		}
	}).Message()
	want = []portVLAN{{1, vlanPVID | vlanUntagged}, {20, 0}, {21, 0}, {22, 0}}
	if got, ok := decodeBridgeVLANs(7)(answer); !ok || cmp.Diff(want, got, cmp.AllowUnexported(portVLAN{})) != "" {
		t.Errorf("read %v, %v; want %v", got, ok, want)
	}
}
