package tap

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// TestIsolatedPorts checks that isolated ports reach other ports but not each other, and that isolation is read back, changed and
// undone.
func TestIsolatedPorts(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	up := kerneltest.NewPort(t, "up0", "br0")
	taps := []*kerneltest.Port{kerneltest.NewPort(t, "tap0", "br0"), kerneltest.NewPort(t, "tap1", "br0")}
	macs := []model.MAC{kerneltest.Guest, kerneltest.Other}
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
	hello := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "hello")
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
		kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), p.Name))
	}
	reaches(true)
}

// TestIsolatedBeforeItsRules checks that a port is isolated before its new rules apply, so that they let nothing reach other
// isolated ports. A change that fails half-way shows the order.
func TestIsolatedBeforeItsRules(t *testing.T) {
	h := newHost(t)
	twoPorts(t)
	setPort(t, h, access)
	if _, err := h.SetSwitchPort(kerneltest.Soon(t), model.SwitchPort{
		Tap: "tap0", Bridge: "br1", Isolated: true,
		Rules: []model.SwitchRule{{MACs: []model.MAC{kerneltest.Guest}}},
	}); err == nil {
		t.Fatal("a port of another bridge")
	}
	if now := switchPorts(t, h)[0]; now.Rules[0].VLAN != 0 || !now.Isolated {
		t.Errorf("have %+v", now)
	}
}

// TestPortOfAnotherBridge checks that a port of another bridge is refused, and so is what only a bridge port supports.
func TestPortOfAnotherBridge(t *testing.T) {
	h := newHost(t)
	twoPorts(t)
	kerneltest.NewPort(t, "alone0", "")
	rules := access.Rules
	for _, p := range []model.SwitchPort{
		{Tap: "tap0", Bridge: "br1", Rules: rules}, {Tap: "alone0", Bridge: "br0", Rules: rules}, {Tap: "alone0", Isolated: true, Rules: rules},
	} {
		if _, err := h.SetSwitchPort(kerneltest.Soon(t), p); !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), p.Tap) {
			t.Errorf("%+v: %v, want model.ErrPermanent", p, err)
		}
		kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), p.Tap))
	}
}

// TestVLANMembership checks that on a bridge that filters VLANs a port is a tagged member of the VLANs of its rules.
func TestVLANMembership(t *testing.T) {
	h := newHost(t)
	tap, out := twoPorts(t)
	if err := exec.Command("ip", "link", "set", "br0", "type", "bridge", "vlan_filtering", "1").Run(); err != nil {
		kerneltest.Lacks(t, "bridges that filter VLANs")
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
	in := vlan(kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "in the trunk"), 12)
	tap.Send(t, in)
	out.Expect(t, in)
}
