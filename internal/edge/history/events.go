package history

import (
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// noteEvents records what has happened since the previous View.
func (m *Memory) noteEvents(v *model.View) {
	m.watcher.Examine = m.Examine
	m.keepEvents(m.watcher.Next(v)...)
}

func (m *Memory) keepEvents(news ...model.Event) {
	for i := range news {
		if m.Tell != nil {
			m.Tell(&news[i])
		}
	}
	m.events = append(m.events, news...)
	m.events = slices.Delete(m.events, 0, max(0, len(m.events)-maxEvents))
}

// Resume begins with the events of earlier runs, with increasing IDs. It must be called before Add.
func (m *Memory) Resume(earlier []model.Event) {
	if len(earlier) == 0 {
		return
	}
	m.watcher.Resume(&earlier[len(earlier)-1])
	m.events = slices.Clone(earlier[max(0, len(earlier)-maxEvents):])
	for i := range m.events {
		m.events[i].Move = 0 // Moves have other IDs now
	}
}

// Stop notes that the daemon ends.
func (m *Memory) Stop(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepEvents(m.watcher.Stop(at))
}

// Events implements server.History.
func (m *Memory) Events(q answer.EventsQuery) api.Events {
	m.mu.Lock()
	list, at := slices.Clone(m.events), m.at
	m.mu.Unlock()
	out := answer.Events(list, q)
	out.Now = at
	return out
}
