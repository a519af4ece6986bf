package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// told is a daemon on which one VM after the other loses its VF, each a second after the one before, at each look.
type told struct {
	looks int
	until int // looks; later ones find nothing new
}

var errEnough = errors.New("enough")

func (d *told) After(_ context.Context, revision uint64) (uint64, error) {
	if d.looks++; d.looks > 40 {
		return 0, errEnough
	}
	return revision + 1, nil
}

func (d *told) Happened(_ context.Context, q answer.EventsQuery) (api.Events, error) {
	begin := time.Date(2026, 3, 1, 18, 52, 0, 0, time.UTC)
	var list []model.Event
	for i := range min(d.looks, d.until) {
		list = append(list, model.Event{
			ID: uint64(i + 1), At: begin.Add(time.Duration(i) * time.Second), Kind: model.EventUnplug, //nolint:gosec // few
			VM: model.VMID(rune('a' + i)), VMName: string(rune('a' + i)), Cause: model.Cause{Kind: model.CauseLinkDown, PF: "pf1"},
		})
	}
	e := answer.Events(list, q)
	e.Now = begin.Add(time.Duration(d.looks) * time.Second)
	return e, nil
}

func TestFollowedEventsAreToldTogether(t *testing.T) {
	for name, c := range map[string]struct {
		until int
		want  string
	}{
		"nothing": {0, ""},
		"one": {1, `2026-03-01 18:52:00   a lost VF -: link of pf1 down
`},
		"several at a time": {5, `2026-03-01 18:52:00   5 VMs lost their VFs: link of pf1 down
                      a, b, c, d, e
`},
		"so many that it takes long": {20, `2026-03-01 18:52:00   15 VMs lost their VFs: link of pf1 down
                      a, b, c, d, e, f, g, h and 7 more
2026-03-01 18:52:15   5 VMs lost their VFs: link of pf1 down
                      p, q, r, s, t
`},
	} {
		var out bytes.Buffer
		err := followEvents(t.Context(), &told{until: c.until}, answer.EventsQuery{}, api.Events{}, func(e *api.Events) error {
			return printEach(&out, &output{}, e)
		})
		if !errors.Is(err, errEnough) || out.String() != c.want {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 3, 1, 3, 10, 0, 0, time.Local)
	at := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 3, day, hour, minute, second, 0, time.Local)
	}
	for text, want := range map[string]time.Time{
		"":                    {},
		"1h30m":               at(1, 1, 40, 0),
		"02:45":               at(1, 2, 45, 0),
		"03:10:00":            now,
		"18:52":               at(0, 18, 52, 0), // yesterday's
		"2026-03-01 01:02:03": at(1, 1, 2, 3),
		"2026-03-01 01:02":    at(1, 1, 2, 0),
		at(1, 1, 2, 3).UTC().Format(time.RFC3339): at(1, 1, 2, 3),
	} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "25:00", "1"} {
		if got, err := moment(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
