package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0s", 0.056: "56ms", 0.64: "640ms", 2.504: "2.5s", 75.4: "1m15s"} {
		if got := seconds(s); got != want {
			t.Errorf("seconds(%v) = %q, want %q", s, got, want)
		}
	}
}

// Text from outside must not control the terminal.
func TestCellsAreMadePrintable(t *testing.T) {
	var b bytes.Buffer
	table(&b, "A B", [][]string{{"x\x1by", "\t"}})
	if strings.ContainsAny(b.String(), "\x1b\t") {
		t.Errorf("have %q", &b)
	}
}

func TestLivePlainTellsEachThingOnce(t *testing.T) {
	first := edgetest.View()
	second := *first
	snap := *first.Snapshot
	snap.Time = snap.Time.Add(3 * time.Second)
	second.Snapshot = &snap
	target := *first.Target
	target.Reasons = append([]model.Reason(nil), target.Reasons...)
	target.Reasons[6] = model.Reason{VM: edgetest.ID(7), Code: model.CodeOutranked, Policy: "activity", Rank: 3, Slots: 2, Score: 10}
	second.Target = &target
	done := model.MoveStatus{Move: first.Active[0].Move, Started: first.Active[0].Started, Ended: snap.Time}
	second.Active, second.Recent = nil, append([]model.MoveStatus{done}, first.Recent...)
	third := second
	snap3 := snap
	snap3.Time = snap.Time.Add(58 * time.Second)
	third.Snapshot = &snap3

	var b bytes.Buffer
	var l liveLines
	for _, v := range []*model.View{first, &second, &third} {
		l.print(&b, v)
	}
	want := `12:00:00 decide db holds a VF: pinned
12:00:00 decide router holds a VF: its VF was attached by somebody else
12:00:00 decide web-2 holds a VF: it gains more from a VF than web-10, the next in line
12:00:00 decide web-10 is on virtio and gets a VF: it is one of the VMs that gain most from a VF
11:59:00 plug   burst pf0/2 failed: attach burst pf0/2: no free PCIe root port
11:59:52 unplug batch-1 pf0/2 in 1s
12:00:00 status 2 of 5 VFs held, 8 VMs, 374k packets/s (70 % by VMs with a VF), 20 plugs, 18 unplugs, 1 failed, 1 under way
12:00:03 decide web-2 has VF pf0/0 and gives it up: others come first
12:00:03 plug   web-10 pf0/2 in 5s
12:01:01 status 2 of 5 VFs held, 8 VMs, 374k packets/s (70 % by VMs with a VF), 20 plugs, 18 unplugs, 1 failed, 0 under way
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestNoTerminal(t *testing.T) {
	var b bytes.Buffer
	if IsTerminal(&b) {
		t.Error("a buffer is a terminal")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // only read
	if IsTerminal(f) {
		t.Error("/dev/null is a terminal")
	}
}

// In observe mode the pending moves are not made; without any, nothing more is printed.
func TestPlanWithNothingToDo(t *testing.T) {
	for _, mode := range []string{api.ModeObserve, "enforce"} {
		var b bytes.Buffer
		printPlan(&b, api.Plan{Mode: mode}, false)
		if have := b.String(); have != "Nothing to do: every VM has what it should have.\n" {
			t.Errorf("%s: %q", mode, have)
		}
	}
}

// Similar repairs that ended together take one line; a failed repair has its own.
func TestLikeRepairsShareALine(t *testing.T) {
	v := edgetest.View()
	v.Recent = nil
	for i, step := range []model.StepKind{model.StepAddSelf, model.StepAddSelf, model.StepClearVF, model.StepAddSelf, model.StepAddSelf} {
		m := model.MoveStatus{Move: model.Move{
			Kind: model.MoveRepair, VM: edgetest.ID(byte(i + 1)), VMName: fmt.Sprint("vm", i), VF: model.NoVF,
			Steps: []model.Step{{Kind: step}},
		}, Started: edgetest.Now, Ended: edgetest.Now}
		if i == 3 {
			m.Error = "no room"
		}
		v.Recent = append([]model.MoveStatus{m}, v.Recent...)
	}
	have := (&liveLines{}).moves(v)
	want := []string{
		clock(edgetest.Now) + " repair vm0 add-self in 0s, and 2 more of the same kind",
		clock(edgetest.Now) + " repair vm2 clear-vf in 0s",
		clock(edgetest.Now) + " repair vm3 add-self failed: no room",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// At the start VMs that get a VF for the same reason take one line; later each has its own.
func TestLikeVerdictsShareALine(t *testing.T) {
	v := edgetest.View()
	var out []model.Reason
	for i := range 5 {
		out = append(out, model.Reason{VM: v.Snapshot.VMs[i].ID, Code: model.CodePinned, Hold: i > 0})
	}
	out[4].Code = model.CodeForeign
	v.Target = &model.Target{Reasons: out}
	l, at := &liveLines{}, clock(edgetest.Now)+" decide "
	if diff := cmp.Diff([]string{
		at + "burst is on virtio and gets a VF: pinned, and 1 more of the same kind",
		at + "db holds a VF: pinned",
		at + "quiet is on virtio and gets a VF: its VF was attached by somebody else",
	}, l.verdicts(v)); diff != "" {
		t.Error(diff)
	}
	for i := range out {
		out[i].Hold = false
	}
	if lines := l.verdicts(v); len(lines) != 4 {
		t.Errorf("later: %q", lines)
	}
}

// The line of a repair names its step: the word repair alone explains nothing.
func TestRepairsSayWhatTheyDo(t *testing.T) {
	m := model.MoveStatus{Move: model.Move{
		Kind: model.MoveRepair, VM: edgetest.ID(1), VMName: "web-1", VF: model.NoVF,
		Steps: []model.Step{{Kind: model.StepAddSelf}},
	}, Started: edgetest.Now, Ended: edgetest.Now}
	lines := (&liveLines{}).moves(&model.View{Recent: []model.MoveStatus{m}})
	if diff := cmp.Diff([]string{clock(edgetest.Now) + " repair web-1 add-self in 0s"}, lines); diff != "" {
		t.Error(diff)
	}
	r := api.MoveReport{Kind: api.MoveRepair, VF: "pf0/2", Steps: []string{"clear-vf vf pf0/2"}, Started: edgetest.Now, Ended: edgetest.Now}
	if have, want := moveLine(r), clock(edgetest.Now)+" repair - clear-vf pf0/2 in 0s"; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}
