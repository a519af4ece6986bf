package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a View with VM a, which holds pf0/0, and pf0 on which all is well.
func world(at time.Duration) *model.View {
	vf := model.VFID{PF: "pf0"}
	return &model.View{
		Mode: model.ModeEnforce, Rules: model.Rules{Policy: "adaptive"}, Bandwidth: &model.Bandwidth{Links: []model.LinkState{{PF: "pf0"}}},
		Snapshot: &model.Snapshot{
			Time: noon.Add(at),
			PFs: []model.PF{{Name: "pf0", Managed: true, LinkUp: true, VFs: []model.VF{
				{ID: vf, Owner: model.OwnerSluice, Holder: "a"},
			}}},
			VMs: []model.VM{{ID: "a", Name: "web-07", State: model.VMRunning, NICs: []model.NIC{{VF: vf}}}},
		},
	}
}

// free takes the VF away from VM a.
func free(v *model.View) {
	v.Snapshot.PFs[0].VFs[0].Owner, v.Snapshot.PFs[0].VFs[0].Holder = model.OwnerFree, ""
}

func unplug(at time.Duration, err string) model.MoveStatus {
	return model.MoveStatus{
		ID: 1, Ended: noon.Add(at), Error: err,
		Move: model.Move{
			Kind: model.MoveUnplug, VM: "a", VMName: "web-07", VF: model.VFID{PF: "pf0"}, Cause: model.Cause{Kind: model.CauseLinkDown, PF: "pf0"},
		},
	}
}

func text(e *model.Event) string {
	return fmt.Sprintf("%s %s %s|%s|%t %s", e.At.Format(time.TimeOnly), e.Kind, e.VMName, e.Text, e.Alarm, e.Cause)
}

// Each change between two Views is told once, and what stays is not told.
func TestEachChangeIsToldOnce(t *testing.T) {
	pin := model.Override{Kind: model.OverridePin, VM: "a", VMName: "web-07", By: "ann", At: noon.Add(-time.Second), Reason: "a demo"}
	ends := pin
	ends.Until = noon.Add(2 * time.Second)
	for name, c := range map[string]struct {
		before, then, later func(*model.View)
		want                []string // told by then
		over                []string // told when it is as before again
	}{
		"nothing": {},
		"a link goes down": {
			then: func(v *model.View) { v.Snapshot.PFs[0].LinkUp = false },
			want: []string{"12:00:01 link |link of pf0 down|true link of pf0 down"},
			over: []string{"12:00:02 link |link of pf0 up again|false link of pf0 up again"},
		},
		"a PF is taken out of the host": {
			then: func(v *model.View) { v.Snapshot.PFs = nil },
			want: []string{
				"12:00:01 link |pf0 is gone from the host|true pf0 is gone from the host",
				"12:00:01 lost web-07||false pf0 is gone from the host",
			},
			over: []string{"12:00:02 link |pf0 is in the host again|false link of pf0 up again"},
		},
		"a PF leaves sluice.yaml, and then the host": {
			then:  func(v *model.View) { v.Snapshot.PFs[0].Managed = false },
			later: func(v *model.View) { v.Snapshot.PFs, v.Recent = nil, []model.MoveStatus{unplug(time.Second, "")} },
			over:  []string{"12:00:01 unplug web-07||false link of pf0 down"},
		},
		"a PF leaves its bridge": {
			then: func(v *model.View) { v.Snapshot.PFs[0].Uplink.Why = "pf0 is in no bridge" },
			want: []string{"12:00:01 link |pf0 is in no bridge|true pf0 is in no bridge"},
			over: []string{"12:00:02 link |pf0 is connected to its switch again|false pf0 is connected to its switch again"},
		},
		"somebody pins": {
			then: func(v *model.View) { v.Overrides = []model.Override{pin} },
			want: []string{"11:59:59 request web-07|pin of web-07 by ann (a demo)|false pinned by ann"},
			over: []string{"12:00:02 request-over web-07|pin of web-07 by ann (a demo) is over|false pinned by ann"},
		},
		"a pin ends by itself": {
			then: func(v *model.View) { v.Overrides = []model.Override{ends} },
			want: []string{"11:59:59 request web-07|pin of web-07 by ann (a demo)|false pinned by ann"},
			over: []string{"12:00:02 request-over web-07|pin of web-07 by ann (a demo) is over, because its time was up|false pinned by ann"},
		},
		"a reload": {
			then:  func(v *model.View) { v.Reloaded, v.Rules.Policy = noon, "fair" },
			later: func(v *model.View) { v.Reloaded, v.Rules.Policy = noon, "fair" },
			want: []string{
				"12:00:00 reload |sluice.yaml was reloaded with other rules: policy fair instead of adaptive|false sluice.yaml changed",
			},
		},
		"another mode": {
			then:  func(v *model.View) { v.Mode = model.ModeObserve },
			later: func(v *model.View) { v.Mode = model.ModeObserve },
			want:  []string{"12:00:01 mode |observe mode instead of enforce|false sluice.yaml changed"},
		},
		"the host cannot be observed": {
			then: func(v *model.View) { v.Errors = []string{"libvirt is gone"} },
			want: []string{"12:00:01 error |libvirt is gone|true libvirt is gone"},
			over: []string{"12:00:02 error-over |the daemon works again without errors|false "},
		},
		"a move": {
			then:  func(v *model.View) { free(v); v.Recent = []model.MoveStatus{unplug(time.Second, "")} },
			later: func(v *model.View) { free(v); v.Recent = []model.MoveStatus{unplug(time.Second, "")} },
			want:  []string{"12:00:01 unplug web-07||false link of pf0 down"},
		},
		"a move under way": {
			then:  func(v *model.View) { free(v); v.Active = []model.MoveStatus{unplug(0, "")} },
			later: func(v *model.View) { free(v); v.Recent = []model.MoveStatus{unplug(2*time.Second, "")} },
			over:  []string{"12:00:02 unplug web-07||false link of pf0 down"},
		},
		"a move that fails": {
			then:  func(v *model.View) { v.Recent = []model.MoveStatus{unplug(time.Second, "detach: no answer")} },
			later: func(v *model.View) { v.Recent = []model.MoveStatus{unplug(time.Second, "detach: no answer")} },
			want:  []string{"12:00:01 failed web-07|unplug|true detach: no answer"},
		},
		"somebody detaches the VF": {
			then: free, later: free, want: []string{"12:00:01 lost web-07||false detached by somebody else"},
		},
		"the VM ends": {
			then:  func(v *model.View) { free(v); v.Snapshot.VMs = nil },
			later: func(v *model.View) { free(v); v.Snapshot.VMs = nil },
			want:  []string{"12:00:01 lost web-07||false the VM ended"},
		},
		"the VM cannot be read": {
			then: func(v *model.View) { free(v); v.Snapshot.VMs, v.Snapshot.Unread = nil, []model.VMID{"a"} },
		},
		"a guarantee is short": {
			then: func(v *model.View) { v.Bandwidth.Links[0].Shortage = &model.Shortage{Text: "db-1 lacks 1Gbit"} },
			want: []string{"12:00:01 short |db-1 lacks 1Gbit|true db-1 lacks 1Gbit"},
		},
	} {
		as := func(at time.Duration, edit func(*model.View)) *model.View {
			v := world(at)
			if edit != nil {
				edit(v)
			}
			return v
		}
		w := &Watcher{}
		tell := func(v *model.View) (out []string) {
			for _, e := range w.Next(v) {
				if e.ID != w.count-uint64(len(w.out)-1-len(out)) {
					t.Errorf("%s: event %d of %d", name, e.ID, w.count)
				}
				out = append(out, text(&e))
			}
			return out
		}
		if got, want := tell(world(0)), []string{
			"12:00:00 start |Sluice started in enforce mode, policy adaptive|false ",
		}; !slices.Equal(got, want) {
			t.Errorf("%s: at the start %q, want %q", name, got, want)
		}
		if got := tell(as(time.Second, c.then)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := tell(as(time.Second, c.then)); len(got) > 0 {
			t.Errorf("%s: told again: %q", name, got)
		}
		if got := tell(as(2*time.Second, c.later)); !slices.Equal(got, c.over) {
			t.Errorf("%s: afterwards %q, want %q", name, got, c.over)
		}
	}
}

// What Sluice took while the host could not be observed was not taken by somebody else, however long that lasted.
func TestMoveWhileNothingIsObserved(t *testing.T) {
	w := &Watcher{}
	w.Next(world(0))
	v := world(10 * time.Minute)
	free(v)
	v.Recent = []model.MoveStatus{unplug(time.Minute, "")}
	if got := w.Next(v); len(got) != 1 || got[0].Kind != model.EventUnplug {
		t.Errorf("told: %v", got)
	}
	again := world(11 * time.Minute) // and after that somebody else takes one
	w.Next(again)
	later := world(12 * time.Minute)
	free(later)
	later.Recent = v.Recent
	if got := w.Next(later); len(got) != 1 || got[0].Kind != model.EventLost {
		t.Errorf("told: %v", got)
	}
}

// What happens at one time is told in one order.
func TestOrderOfLosses(t *testing.T) {
	const vfs = 8
	for range 20 {
		v := world(0)
		for i := 1; i < vfs; i++ {
			id := model.VMID(fmt.Sprint("vm", i))
			v.Snapshot.PFs[0].VFs = append(v.Snapshot.PFs[0].VFs, model.VF{ID: model.VFID{PF: "pf0", Index: i}, Owner: model.OwnerSluice, Holder: id})
		}
		w := &Watcher{}
		w.Next(v)
		gone := world(time.Second)
		gone.Snapshot.PFs[0].VFs = nil
		for i, e := range w.Next(gone) {
			if e.VF.Index != i {
				t.Fatalf("event %d is of %s", i, e.VF)
			}
		}
	}
}

// A guarantee that is short again and again within a minute is short once, and kept again when it has not been short for one. Both
// events concern who lacked something and who took it, and nobody else.
func TestShortageThatComesAndGoesIsOne(t *testing.T) {
	w := &Watcher{}
	var got []string
	for i := range 8 {
		v := world(time.Duration(i) * 30 * time.Second)
		if i == 1 || i == 3 {
			takes := model.Taker{NICID: model.NICID{VM: "a"}, VMName: "web-07"}
			unknown := model.Taker{}
			v.Bandwidth.Links[0].Shortage = &model.Shortage{Text: "db-1 lacks 1Gbit", Takers: []model.Taker{takes, unknown}}
			nic := func(pf, vm string, short uint64) model.NICBandwidth {
				return model.NICBandwidth{NICID: model.NICID{VM: model.VMID("id of " + vm)}, VMName: vm, PF: pf, Short: short}
			}
			v.Bandwidth.NICs = []model.NICBandwidth{
				nic("pf0", fmt.Sprint("db-", i), 1e9), nic("pf0", fmt.Sprint("db-", i), 1e9), nic("pf0", "idle", 0), nic("pf1", "elsewhere", 1e9),
			}
			v.Bandwidth.VirtualPFs = []model.NICBandwidth{nic("pf0", "node-1", 1e9)}
		}
		for _, e := range w.Next(v) {
			var about []string
			for _, p := range e.About {
				if about = append(about, p.VMName); !e.Concerns(p.VMName) || !e.Concerns(string(p.VM)) || e.Concerns("idle") {
					t.Errorf("%+v", e)
				}
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.At.Format(time.TimeOnly), e.Kind, strings.Join(about, ","))))
		}
	}
	if want := []string{
		"12:00:00 start", "12:00:30 short db-1,node-1,web-07", "12:01:30 short-over db-1,node-1,web-07,db-3",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A run goes on with the IDs of the run before, and tells whether that one was stopped.
func TestRunsFollowEachOther(t *testing.T) {
	first := &Watcher{}
	first.Next(world(0))
	stop := first.Stop(noon.Add(time.Second))
	for _, c := range []struct {
		last model.Event
		want string
	}{
		{stop, "12:00:02 start |Sluice started in enforce mode, policy adaptive|false "},
		{model.Event{ID: stop.ID, Kind: model.EventPlug}, "12:00:02 start |Sluice started in enforce mode, policy adaptive, after a run that ended without a stop|false "},
	} {
		second := &Watcher{}
		second.Resume(&c.last)
		if got := second.Next(world(2 * time.Second)); stop.ID != 2 || len(got) != 1 || got[0].ID != 3 || text(&got[0]) != c.want {
			t.Errorf("after %s: %v, want %s", c.last.Kind, got, c.want)
		}
	}
}

// A problem is told when doctor lists it first and when it is gone for good, for the VM that it is about; what is told otherwise,
// for information only, or was there from the start is not.
func TestProblems(t *testing.T) {
	cable := model.Problem{Subject: "pf0", Text: "its link is down"}
	port := model.Problem{Subject: "web-07", Text: "it has no free port: 3 of 3 are taken"}
	more := model.Problem{Subject: "web-07", Text: "it has no free port: 4 of 4 are taken"}
	over := model.Problem{Subject: "pf0", Text: "more is guaranteed than its link carries"}
	lacks := model.Problem{Subject: "pf0", Text: "db-1 lacks 1Gbit"}
	old := model.Problem{Text: "no agent"}
	one := model.Problem{Subject: "web-07", Text: "NIC ua-net0 cannot fail over"}
	other := model.Problem{Subject: "web-07", Text: "NIC ua-net1 cannot fail over"}
	note := model.Problem{Text: "a guest without agent", Info: true}
	w := &Watcher{Examine: func(s *model.Snapshot) []model.Problem { return s.Problems }}
	for _, c := range []struct {
		at                 time.Duration
		problems, promised []model.Problem
		down               bool
		want               []string
	}{
		{at: 0, problems: []model.Problem{old}},
		{at: 1, problems: []model.Problem{old, note, port}, want: []string{
			"12:00:01 problem web-07|it has no free port: 3 of 3 are taken|true it has no free port: 3 of 3 are taken",
		}},
		{at: 2, problems: []model.Problem{old, more}}, // the same, with other figures
		{at: 3, promised: []model.Problem{over, lacks}, want: []string{
			"12:00:03 short |db-1 lacks 1Gbit|true db-1 lacks 1Gbit",
			"12:00:03 problem |pf0: more is guaranteed than its link carries|true more is guaranteed than its link carries",
		}},
		{at: 50, problems: []model.Problem{port}, promised: []model.Problem{over, lacks}}, // it comes and goes
		{at: 51, problems: []model.Problem{cable}, promised: []model.Problem{over, lacks}, down: true, want: []string{
			"12:00:51 link |link of pf0 down|true link of pf0 down",
		}},
		{at: 110, promised: []model.Problem{over, lacks}, want: []string{
			"12:00:02 problem-over |no agent|false no agent",
			"12:00:50 problem-over web-07|it has no free port: 3 of 3 are taken|false it has no free port: 3 of 3 are taken",
			"12:01:50 link |link of pf0 up again|false link of pf0 up again",
		}},
		{at: 111, problems: []model.Problem{one}, promised: []model.Problem{over, lacks}, want: []string{
			"12:01:51 problem web-07|NIC ua-net0 cannot fail over|true NIC ua-net0 cannot fail over",
		}},
		{at: 112, problems: []model.Problem{one, other}, promised: []model.Problem{over, lacks}, want: []string{
			"12:01:52 problem web-07|NIC ua-net1 cannot fail over|true NIC ua-net1 cannot fail over",
		}},
	} {
		v := world(c.at * time.Second)
		v.Snapshot.Problems, v.Bandwidth.Problems = c.problems, c.promised
		v.Snapshot.PFs[0].LinkUp = !c.down
		if c.promised != nil {
			v.Bandwidth.Links[0].Shortage = &model.Shortage{Text: lacks.Text}
		}
		var got []string
		for _, e := range w.Next(v) {
			if e.Kind != model.EventStart {
				got = append(got, text(&e))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %d s: %q, want %q", c.at, got, c.want)
		}
		if got := w.Next(v); len(got) > 0 {
			t.Errorf("after %d s, again: %v", c.at, got)
		}
	}
}
