package bridge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// TestReadPortThatLeavesItsBridge reads a port again and again while it leaves its bridge and returns: it is in the bridge or in
// none, and never unreadable.
func TestReadPortThatLeavesItsBridge(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "tap0", "br0")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			now := model.SwitchPortState{SwitchPort: model.SwitchPort{Tap: "tap0"}}
			if err := h.ReadPort(t.Context(), &now); err != nil || now.Bridge != "" && now.Bridge != "br0" {
				t.Errorf("in bridge %q, %v", now.Bridge, err)
				return
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 50 {
		kerneltest.IP(t, "link set tap0 nomaster")
		kerneltest.IP(t, "link set tap0 master br0")
	}
}

// someVLANs are few, so that rules and ports often share them.
var someVLANs = []int{1, 2, 9, 10, 11, 20, 4093, 4094}

// drawVLANs draws a rule with no VLAN, one or several.
func drawVLANs(t *rapid.T) (r model.SwitchRule) {
	switch rapid.IntRange(0, 2).Draw(t, "sort of port") {
	case 1:
		r.VLAN = rapid.SampledFrom(someVLANs).Draw(t, "access")
	case 2:
		for _, v := range rapid.SliceOfN(rapid.SampledFrom(someVLANs), 1, 3).Draw(t, "trunk") {
			r.Trunk = append(r.Trunk, model.VLANRange{First: v, Last: min(model.MaxVLAN, v+rapid.IntRange(0, 2).Draw(t, "more"))})
		}
	}
	return r
}

// TestVLANChanges checks that after the changes a port is a tagged member of its rules' VLANs, and keeps its untagged VLAN if a
// rule has none.
func TestVLANChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(drawVLANs), 1, 3).Draw(t, "rules")
		have := map[int]uint16{}
		for _, id := range rapid.SliceOf(rapid.SampledFrom(append(someVLANs, 12, 13))).Draw(t, "have") {
			have[id] = rapid.SampledFrom([]uint16{0, 0, vlanUntagged, vlanUntagged | vlanPVID}).Draw(t, "flags")
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

// TestBridgeVLANMessages checks that encoded VLANs are decoded unchanged.
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
	// In the kernel's form: the untagged VLAN first, a range with its flags at both ends.
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
