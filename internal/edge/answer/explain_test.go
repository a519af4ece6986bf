package answer_test

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

// A VM's sentence is about the NIC that its Reason names; each NIC that may have a VF has its own reason.
func TestExplainSeveralNICs(t *testing.T) {
	nic := func(alias string, vf model.VFID) model.NIC {
		return model.NIC{Alias: alias, Network: "br0", Failover: model.FailoverTeaming, VF: vf}
	}
	vf := model.VFID{PF: "pf0", Index: 1}
	v := &model.View{
		Snapshot: &model.Snapshot{Time: time.Unix(1, 0), VMs: []model.VM{
			{ID: "a", Name: "db", State: model.VMRunning, NICs: []model.NIC{nic("mgmt", model.NoVF), nic("ua-0", vf), nic("ua-1", model.NoVF)}},
		}},
		Target: &model.Target{
			Reasons: []model.Reason{{VM: "a", NIC: "ua-1", Hold: true, Code: model.CodePinned}},
			NICs: []model.Reason{
				{VM: "a", NIC: "ua-0", Hold: true, Code: model.CodeEnough},
				{VM: "a", NIC: "ua-1", Hold: true, Code: model.CodePinned},
			},
		},
		Mode: model.ModeEnforce,
	}
	e, err := answer.Explain(v, "db")
	if err != nil {
		t.Fatal(err)
	}
	if want := "db is on virtio and gets a VF behind ua-1: pinned"; e.Sentence != want {
		t.Errorf("%q, want %q", e.Sentence, want)
	}
	want := []string{"", "holds a VF behind ua-0: there are VFs for every VM on its network", "gets a VF behind ua-1: pinned"}
	for i, p := range e.Paths {
		if p.Why != want[i] {
			t.Errorf("%s: %q, want %q", p.NIC, p.Why, want[i])
		}
	}
}

func TestExplainSentences(t *testing.T) {
	v := edgetest.View()
	for name, want := range map[string]string{
		"web-2":   "web-2 holds a VF: it gains more from a VF than web-10, the next in line",
		"web-10":  "web-10 is on virtio and gets a VF: it is one of the VMs that gain most from a VF",
		"db":      "db holds a VF: pinned",
		"batch-1": "batch-1 stays on virtio: released by hand (`sluice unpin` gives it back to the policy)",
	} {
		e, err := answer.Explain(v, name)
		if err != nil || e.Sentence != want {
			t.Errorf("%s:\nwant %s\nhave %s (%v)", name, want, e.Sentence, err)
		}
	}
	v.Mode = model.ModeObserve
	v.Target.Reasons[2].Hold = false
	for name, want := range map[string]string{
		"web-10": "web-10 is on virtio and would get a VF: ",
		"db":     "db has VF pf0/1 and would give it up: ",
	} {
		if e, _ := answer.Explain(v, name); !strings.HasPrefix(e.Sentence, want) {
			t.Errorf("want %s, have %s", want, e.Sentence)
		}
	}
	v.Target = nil
	if e, _ := answer.Explain(v, "db"); e.Sentence != "db: nothing is decided yet" {
		t.Errorf("have %s", e.Sentence)
	}
}

// A policy that decides at every sample has no rounds to wait for.
func TestExplainNamesNoRoundWithoutRounds(t *testing.T) {
	v := edgetest.View()
	for _, code := range []model.Code{model.CodeRank, model.CodeOutranked, model.CodeKept, model.CodeBudget} {
		v.Target.Reasons[3] = model.Reason{VM: edgetest.ID(4), Code: code}
		for _, rounds := range []bool{true, false} {
			v.Rounds = rounds
			e, err := answer.Explain(v, "legacy")
			if err != nil || strings.Contains(e.Changes[0], "round") != rounds {
				t.Errorf("%s, rounds %v: %q, %v", code, rounds, e.Changes, err)
			}
		}
	}
}

// Every code of a verdict has a text about what would change it.
func TestEveryReasonSaysWhatWouldChangeIt(t *testing.T) {
	v := edgetest.View()
	for _, code := range model.Codes() {
		if code == model.CodeRepair { // of a move, not of a verdict
			continue
		}
		v.Target.Reasons[3] = model.Reason{VM: edgetest.ID(4), Code: code}
		e, err := answer.Explain(v, "legacy")
		if err != nil || len(e.Changes) == 0 || e.Changes[0] == "" {
			t.Errorf("%s: %q, %v", code, e.Changes, err)
		}
	}
	for want, r := range map[string]model.Reason{
		"an SLA that can be kept on a VF: `sluice sla show legacy`":   {Code: model.CodeSLA},
		"an SLA that can be kept on virtio: `sluice sla show legacy`": {Code: model.CodeSLA, Hold: true},
		"time: it may have a VF again at 12:01:00":                    {Code: model.CodeSLA, Until: edgetest.Now.Add(time.Minute)},
	} {
		r.VM = edgetest.ID(4)
		v.Target.Reasons[3] = r
		if e, err := answer.Explain(v, "legacy"); err != nil || len(e.Changes) == 0 || !strings.HasPrefix(e.Changes[0], want) {
			t.Errorf("want %q, have %q, %v", want, e.Changes, err)
		}
	}
}

// What is not made, as in observe mode, is not said to be so.
func TestPlannedMoves(t *testing.T) {
	v := edgetest.View()
	move := func(kind model.MoveKind, hold bool) model.Move {
		return model.Move{Kind: kind, VM: "a", Reason: model.Reason{VM: "a", Code: model.CodePinned, Hold: hold}}
	}
	v.Pending = []model.Move{
		move(model.MovePlug, true),
		move(model.MoveUnplug, true),
		move(model.MoveUnplug, false),
		{Kind: model.MovePlug},
		{Kind: model.MoveRepair, Reason: model.Reason{Code: model.CodeRepair, Detail: "VF pf0/2 is trusted"}},
	}
	for mode, want := range map[model.Mode][]string{
		model.ModeEnforce: {
			"gets a VF: pinned", "changes to another VF: pinned", "goes back to virtio: pinned", "", "repair: VF pf0/2 is trusted",
		},
		model.ModeObserve: {
			"would get a VF: pinned", "would change to another VF: pinned", "would go back to virtio: pinned", "", "repair: VF pf0/2 is trusted",
		},
	} {
		v.Mode = mode
		for i, m := range answer.Planned(v).Pending {
			if m.Why != want[i] {
				t.Errorf("%s: %q, want %q", mode, m.Why, want[i])
			}
		}
	}
	for _, vm := range answer.VMs(v) {
		if strings.HasPrefix(vm.Why, "holds a VF") != (vm.VF != "") && vm.Hold {
			t.Errorf("%s has VF %q, and it is said: %s", vm.Name, vm.VF, vm.Why)
		}
	}
}
