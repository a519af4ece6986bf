package answer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/api/v1"
	"sluice/internal/model"
)

var evening = time.Date(2026, 3, 1, 18, 52, 0, 0, time.UTC)

// on makes an event of VM n, some seconds after 18:52.
func on(kind model.EventKind, n, after int, c model.Cause) model.Event {
	return model.Event{
		At: evening.Add(time.Duration(after) * time.Second), Kind: kind, VM: model.VMID(fmt.Sprint("id", n)),
		VMName: fmt.Sprintf("web-%02d", n), VF: model.VFID{PF: "pf1", Index: n}, Cause: c,
	}
}

func numbered(list []model.Event) []model.Event {
	for i := range list {
		list[i].ID = uint64(i + 1) //nolint:gosec // few
	}
	return list
}

func texts(e api.Events) []string {
	return convert(e.Lines, func(l *api.Event) string { return l.From.Format(time.TimeOnly) + " " + l.Text })
}

func TestEventsOfOneCauseAreOneLine(t *testing.T) {
	down := model.Cause{Kind: model.CauseLinkDown, PF: "pf1"}
	way := model.Cause{Kind: model.CauseLinkDown, PF: "pf1", Other: "id9", OtherNm: "web-09"}
	policy := model.Cause{Kind: model.CausePolicy, Other: "id9", OtherNm: "web-09"}
	full := model.Cause{Kind: model.CauseFailure, Detail: "attach: no free port"}
	fails := func(n, after int, c model.Cause) model.Event {
		e := on(model.EventFailed, n, after, c)
		e.Text = "plug"
		return e
	}
	ofVF := func(after int) model.Event { // a repair of a VF that nobody has
		return model.Event{
			At: evening.Add(time.Duration(after) * time.Second), Kind: model.EventFailed, Text: "repair", VF: model.VFID{PF: "pf1", Index: 3},
			Cause: model.Cause{Kind: model.CauseFailure, Detail: "device busy"},
		}
	}
	list := numbered([]model.Event{
		{At: evening, Kind: model.EventLink, Text: "link of pf1 down", Cause: down, Alarm: true},
		on(model.EventUnplug, 7, 1, down), on(model.EventUnplug, 1, 2, way), on(model.EventUnplug, 8, 3, down), on(model.EventUnplug, 2, 20, way),
		on(model.EventUnplug, 3, 31, down), // 28 s after the one before, 30 s after the first
		on(model.EventUnplug, 4, 90, down), // not at the same time
		on(model.EventUnplug, 5, 91, policy),
		on(model.EventPlug, 9, 92, model.Cause{Kind: model.CausePolicy, Detail: "takes over from web-05"}),
		fails(1, 200, full), fails(1, 201, full), fails(2, 202, full),
		fails(3, 203, model.Cause{Kind: model.CauseFailure, Detail: "attach: gone"}),
		ofVF(300), ofVF(301), ofVF(400),
		{
			At: evening.Add(500 * time.Second), Kind: model.EventShort, Text: "db-1 lacks 1Gbit/s: web-07 takes 2Gbit/s",
			About: []model.Party{{VM: "db", VMName: "db-1"}, {VM: "id7", VMName: "web-07"}},
		},
		on(model.EventRepair, 3, 600, model.Cause{Kind: model.CauseFinding, Detail: "no-self"}),
		{At: evening.Add(450 * time.Second), Kind: model.EventSolved, Text: "pf1: slow"}, // known a minute after it is so
	})
	for name, c := range map[string]struct {
		q    EventsQuery
		want []string
	}{
		"all": {EventsQuery{}, []string{
			"18:52:00 link of pf1 down",
			"18:52:01 3 VMs lost their VFs: link of pf1 down",
			"18:52:02 2 VMs gave way to others, whose own VF cannot be used: link of pf1 down",
			"18:53:30 web-04 lost VF pf1/4: link of pf1 down",
			"18:53:31 web-05 lost VF pf1/5: gives way to web-09",
			"18:53:32 web-09 got VF pf1/9: takes over from web-05",
			"18:55:20 3 plugs of 2 VMs failed: attach: no free port",
			"18:55:23 a plug of web-03 failed: attach: gone",
			"18:57:00 2 repairs failed: device busy",
			"18:58:40 a repair failed: device busy",
			"18:59:30 no longer a problem: pf1: slow",
			"19:00:20 db-1 lacks 1Gbit/s: web-07 takes 2Gbit/s",
			"19:02:00 found and repaired: no-self",
		}},
		"why did web-07 lose its VF at 18:52?": {
			EventsQuery{VM: "web-07", Until: evening.Add(time.Minute)}, []string{"18:52:01 web-07 lost VF pf1/7: link of pf1 down"},
		},
		"who takes db-1's bandwidth?": {EventsQuery{VM: "db-1"}, []string{"19:00:20 db-1 lacks 1Gbit/s: web-07 takes 2Gbit/s"}},
		"whose does web-07 take?":     {EventsQuery{VM: "id7", Since: evening.Add(time.Minute)}, []string{"19:00:20 db-1 lacks 1Gbit/s: web-07 takes 2Gbit/s"}},
		"one VM by UUID":              {EventsQuery{VM: "id4"}, []string{"18:53:30 web-04 lost VF pf1/4: link of pf1 down"}},
		"the last":                    {EventsQuery{Last: 1}, []string{"19:02:00 found and repaired: no-self"}},
		"what is newer": {EventsQuery{After: 11}, []string{
			"18:55:22 a plug of web-02 failed: attach: no free port", "18:55:23 a plug of web-03 failed: attach: gone",
			"18:57:00 2 repairs failed: device busy", "18:58:40 a repair failed: device busy", "18:59:30 no longer a problem: pf1: slow",
			"19:00:20 db-1 lacks 1Gbit/s: web-07 takes 2Gbit/s", "19:02:00 found and repaired: no-self",
		}},
	} {
		got := Events(list, c.q)
		if !slices.Equal(texts(got), c.want) || got.Newest != 19 || got.More != (c.q.Last > 0) {
			t.Errorf("%s: %q, newest %d, more %t; want %q", name, texts(got), got.Newest, got.More, c.want)
		}
	}
	if l := Events(list, EventsQuery{}).Lines[1]; l.Count != 3 || len(l.VMs) != 3 || l.VMs[0].Text != "web-07 lost VF pf1/7: link of pf1 down" ||
		l.Cause.PF != "pf1" || l.ID != 6 || l.To != list[5].At {
		t.Errorf("%+v", l)
	}
}

// Whatever happens, every event is in exactly one line, and lines are in order of their first events.
func TestNoEventIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []model.Event
		after := 0
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			after += rapid.SampledFrom([]int{0, 1, 10, 40, 700}).Draw(t, "pause")
			kind := rapid.SampledFrom([]model.EventKind{model.EventPlug, model.EventUnplug, model.EventFailed, model.EventRepair}).Draw(t, "kind")
			c := model.Cause{Kind: rapid.SampledFrom([]model.CauseKind{model.CauseLinkDown, model.CausePolicy, model.CauseDrain}).Draw(t, "cause")}
			list = append(list, on(kind, rapid.IntRange(0, 3).Draw(t, "vm"), after, c))
		}
		seen := 0
		lines := Events(numbered(list), EventsQuery{}).Lines
		for i, l := range lines {
			seen += l.Count
			if l.Count != len(l.VMs) || l.To.Before(l.From) || l.To.Sub(l.From) > eventSpan || i > 0 && l.From.Before(lines[i-1].From) || l.Text == "" {
				t.Errorf("line %d of %d: %+v", i, len(lines), l)
			}
		}
		if seen != len(list) {
			t.Errorf("%d events in %d lines have %d", len(list), len(lines), seen)
		}
	})
}
