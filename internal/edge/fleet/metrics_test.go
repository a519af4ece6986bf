package fleet_test

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/edge/fleet"
)

func TestMetrics(t *testing.T) {
	var m fleet.Metrics
	values := func() map[string]string {
		out := map[string]string{}
		for _, f := range regexp.MustCompile(`(?m)^(\w+) (.*)$`).FindAllStringSubmatch(string(m.Text()), -1) {
			out[f[1]] = f[2]
		}
		return out
	}
	away := &fleet.Round{Err: errors.New("away"), Writes: 1}
	m.Add(away, time.Unix(50, 0))
	if diff := cmp.Diff(map[string]string{"sluice_fleet_failures_total": "1", "sluice_fleet_writes_total": "1"}, values()); diff != "" {
		t.Error(diff)
	}
	m.Add(&fleet.Round{Writes: 4, Unclaimed: make([]fleet.Unclaimed, 2), Refused: 3}, time.Unix(1.7e9, 0))
	m.Add(away, time.Unix(1.8e9, 0))
	want := map[string]string{
		"sluice_fleet_failures_total": "2", "sluice_fleet_writes_total": "6", "sluice_fleet_unclaimed_guarantees": "2",
		"sluice_fleet_refused_claims":              "3",
		"sluice_fleet_published_timestamp_seconds": "1700000000",
	}
	if diff := cmp.Diff(want, values()); diff != "" {
		t.Error(diff)
	}
	page, err := os.ReadFile("../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, f := range regexp.MustCompile("(?m)^\\| `(sluice_fleet_\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		documented[f[1]] = f[2]
	}
	exported := map[string]string{}
	for _, f := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(string(m.Text()), -1) {
		exported[f[1]] = f[2]
	}
	if diff := cmp.Diff(exported, documented); diff != "" {
		t.Errorf("docs/fleet.md: %s", diff)
	}
}
