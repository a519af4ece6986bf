package vpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// The order of actions on one function, from any initial state.
func TestOrder(t *testing.T) {
	p := vpftest.PF("a", "vpf0", 1)
	p.VFs[0].Grant = &model.VFGrant{Owner: "pod"}
	good := Wanted(&p, 0, "tap1")
	other := Wanted(&p, 0, "tap1")
	other.Rules = []model.SwitchRule{{MACs: good.Rules[0].MACs, NoSpoofCheck: true}}
	on := func(port model.SwitchPort, detached model.Tri) []model.SwitchPortState {
		return []model.SwitchPortState{{SwitchPort: port, Detached: detached, Counts: make([]model.SwitchDrop, 2)}}
	}
	refuse := errors.New("no")
	for name, c := range map[string]struct {
		ports   []model.SwitchPortState
		carrier model.Tri
		grant   bool
		failed  error // of the last attempt to set the policy
		want    string
	}{
		"new":                          {nil, model.No, true, nil, "set-port"},
		"its policy is in force":       {on(good, model.No), model.No, true, nil, "link-up"},
		"everything is in force":       {on(good, model.No), model.Yes, true, nil, ""},
		"up without a policy":          {nil, model.Yes, true, nil, "link-down set-port"},
		"up, and detached":             {on(good, model.Yes), model.Yes, true, nil, "link-down set-port"},
		"up, and nobody can tell":      {on(good, model.Unknown), model.Yes, true, nil, "link-down set-port"},
		"down, and detached":           {on(good, model.Yes), model.No, true, nil, "set-port"},
		"up with another policy":       {on(other, model.No), model.Yes, true, nil, "set-port"},
		"and it cannot be set":         {on(other, model.No), model.Yes, true, refuse, "link-down"},
		"released":                     {on(other, model.No), model.Yes, false, nil, "link-down"},
		"released and down":            {on(other, model.No), model.No, false, nil, "set-port"},
		"nobody knows whether it's up": {nil, model.Unknown, true, nil, "link-down set-port"},
	} {
		q := vpftest.PF("a", "vpf0", 1)
		if c.grant {
			q = p
		}
		pf := Wanted(&q, -1, "tap0")
		w := World{VMs: []VM{{VM: model.VM{ID: "a", Name: "a", NICs: []model.NIC{
			{Alias: q.PFAlias(), MAC: q.MAC, Tap: "tap0", Network: "br0", VirtualPF: "vpf0", Carrier: model.Yes},
			{Alias: q.VFAlias(0), MAC: q.VFs[0].MAC, Tap: "tap1", Network: "br0", VirtualPF: "vpf0", Function: 1, Carrier: c.carrier},
		}}}}, Ports: append(on(pf, model.No), c.ports...)}
		core := NewCore()
		if c.failed != nil {
			core.tried.Object(key{SetPort, "a", q.VFAlias(0)}).Failed.Fail(time.Unix(1000, 0), c.failed, backoff(SetPort))
		}
		var got []string
		for _, a := range core.Tick(time.Unix(1000, 0), testState(t, q), &w).Actions {
			got = append(got, string(a.Kind))
			if a.Alias != q.VFAlias(0) {
				t.Errorf("%s: %s", name, a.String())
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A function whose MAC another VM has too is not brought up; one that is already up stays up.
func TestSharedMAC(t *testing.T) {
	p := vpftest.PF("a", "vpf0", 1)
	p.VFs[0].Grant = &model.VFGrant{Owner: "pod", MAC: model.MAC{2, 0, 0, 0, 0, 1}}
	for _, carrier := range []model.Tri{model.No, model.Yes} {
		w := World{VMs: []VM{
			{VM: model.VM{ID: "a", Name: "a", NICs: []model.NIC{
				{Alias: p.PFAlias(), MAC: p.MAC, Tap: "tap0", Network: "br0", VirtualPF: "vpf0", Carrier: model.Yes},
				{Alias: p.VFAlias(0), MAC: p.VFs[0].MAC, Tap: "tap1", Network: "br0", VirtualPF: "vpf0", Function: 1, Carrier: carrier},
			}}},
			{VM: model.VM{ID: "b", Name: "b", NICs: []model.NIC{{Alias: "net0", MAC: p.VFs[0].Grant.MAC, Network: "br0"}}}},
		}}
		for i, tap := range []string{"tap0", "tap1"} {
			w.Ports = append(w.Ports, model.SwitchPortState{SwitchPort: Wanted(&p, i-1, tap), Detached: model.No})
		}
		out := NewCore().Tick(time.Unix(1000, 0), testState(t, p), &w)
		if f := out.Virtual[0].Functions[1]; len(out.Actions) > 0 || len(f.Problems) != 1 ||
			!strings.Contains(f.Problems[0].Text, "net0 of VM b") {
			t.Errorf("carrier %s: %v, %+v", carrier, out.Actions, f)
		}
	}
}

// Failed actions are retried with backoff, except that taking a carrier away is retried soon.
func TestPause(t *testing.T) {
	var got []string
	for _, n := range []int{1, 2, 3, 7, 100} {
		got = append(got, fmt.Sprint(backoff(SetPort).After(n), backoff(LinkDown).After(n)))
	}
	if s := strings.Join(got, ", "); s != "1s 1s, 2s 2s, 4s 4s, 1m0s 4s, 1m0s 4s" {
		t.Error(s)
	}
}

// A running VM that could not be read keeps its guest's grants, its vDPA devices, and the record of failed actions.
func TestUnreadVMIsNotGone(t *testing.T) {
	p := vpftest.PF("a", "vpf0", 1)
	p.VFs[0].Grant = &model.VFGrant{Owner: "pod"}
	now := time.Unix(1000, 0)
	w := World{Unread: []model.VMID{"a"}, VDPA: []model.VDPADevice{{Name: model.VDPAName("a", "old", 0), InUse: model.No}}}
	core := NewCore()
	failed := key{SetPort, "a", p.VFAlias(0)}
	core.tried.Object(failed).Failed.Fail(now, errors.New("no"), backoff(SetPort))
	out := core.Tick(now, testState(t, p), &w)
	if len(out.Actions) != 0 || core.failed(failed) == nil {
		t.Errorf("actions %v, failure %v", out.Actions, core.failed(failed))
	}
	if why := out.Virtual[0].Why; strings.Contains(why, "does not run") {
		t.Errorf("its virtual PF: %s", why)
	}
	w.Unread = nil
	var kinds []string
	for _, a := range core.Tick(now, testState(t, p), &w).Actions {
		kinds = append(kinds, string(a.Kind))
	}
	if len(kinds) == 0 || kinds[0] != string(Forget) || core.failed(failed) != nil {
		t.Errorf("when it has ended: actions %v, failure %v", kinds, core.failed(failed))
	}
}
