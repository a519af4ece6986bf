package cli

import (
	"testing"
	"time"

	"sluice/api/v1"
)

func TestJudgeOfRepairs(t *testing.T) {
	ours := api.Finding{Code: "stale-mac", Subject: "pf0/1", Text: "x", Repair: []string{"clear-vf"}}
	under, failed, foreign := ours, ours, ours
	under.Repairing, failed.LastError, foreign.Repair = true, "device busy", nil
	for name, c := range map[string]struct {
		now   []api.Finding
		mode  string
		late  bool
		want  string
		done  bool
		error string
	}{
		"gone":               {nil, api.ModeEnforce, false, api.Repaired, true, ""},
		"not taken up yet":   {[]api.Finding{ours}, api.ModeEnforce, false, api.Waiting, false, ""},
		"under way":          {[]api.Finding{under}, api.ModeEnforce, true, api.Waiting, false, ""},
		"failed before":      {[]api.Finding{failed}, api.ModeEnforce, false, api.Waiting, false, ""},
		"failed":             {[]api.Finding{failed}, api.ModeEnforce, true, api.Failed, true, "device busy"},
		"waits for its VM":   {[]api.Finding{ours}, api.ModeEnforce, true, api.Waiting, false, ""},
		"somebody else's":    {[]api.Finding{foreign}, api.ModeEnforce, false, api.Left, true, ""},
		"in observe mode":    {[]api.Finding{ours}, api.ModeObserve, false, api.Left, true, ""},
		"another came up":    {[]api.Finding{{Code: "new"}}, api.ModeEnforce, false, api.Repaired, true, ""},
		"another like it is": {[]api.Finding{{Code: "stale-mac", Subject: "pf0/2", Text: "x"}}, api.ModeEnforce, false, api.Repaired, true, ""},
	} {
		results := []api.RepairResult{{Finding: ours, Result: api.Waiting}}
		done := judge(results, &api.Fsck{Findings: c.now}, c.mode, c.late)
		if results[0].Result != c.want || done != c.done || results[0].LastError != c.error {
			t.Errorf("%s: %s, done %v, error %q", name, results[0].Result, done, results[0].LastError)
		}
	}
}

func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 3, 1, 12, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"12:31":                     time.Date(2026, 3, 1, 12, 31, 0, 0, zone),
		"12:30":                     time.Date(2026, 3, 2, 12, 30, 0, 0, zone), // its next occurrence
		"06:00:05":                  time.Date(2026, 3, 2, 6, 0, 5, 0, zone),
		"2026-04-01 06:00":          time.Date(2026, 4, 1, 6, 0, 0, 0, zone),
		"2026-04-01 06:00:07":       time.Date(2026, 4, 1, 6, 0, 7, 0, zone),
		"2026-04-01T06:00:00+02:00": time.Date(2026, 4, 1, 5, 0, 0, 0, zone),
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "25:00", "2026-13-01 06:00", "2h"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// A clock step between the start and the last observation does not change the daemon's uptime.
func TestUptimeIsTheDaemons(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := api.Status{Started: start, Observed: start.Add(-58 * time.Minute), Uptime: 121.7}
	if got := upText(s); got != "up 2m1s" {
		t.Errorf("have %q", got)
	}
}
