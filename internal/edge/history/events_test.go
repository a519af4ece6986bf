package history

import (
	"testing"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Events of earlier runs are listed before those of this one, within the same bound, and refer to none of its moves.
func TestEventsOfEarlierRuns(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	earlier := make([]model.Event, maxEvents+10)
	for i := range earlier {
		earlier[i] = model.Event{ID: uint64(i + 1), At: noon, Kind: model.EventPlug, VM: "a", VMName: "a", Move: 7}
	}
	m := New()
	var told []model.Event
	m.Tell = func(e *model.Event) { told = append(told, *e) }
	m.Resume(earlier)
	m.Add(&model.View{Snapshot: &model.Snapshot{Time: noon.Add(time.Hour)}})
	m.Stop(noon.Add(2 * time.Hour))
	if len(told) != 2 || told[0].Kind != model.EventStart || told[0].ID != maxEvents+11 || told[1].Kind != model.EventStop {
		t.Errorf("told %v; what was told in an earlier run is not told again", told)
	}
	lines := m.Events(answer.EventsQuery{}).Lines
	if len(lines) != 3 || lines[0].Count != maxEvents-2 || lines[0].VMs[0].Move != 0 {
		t.Errorf("%d lines", len(lines))
	}
}
