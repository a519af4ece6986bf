package history

import (
	"slices"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// noteEvents records what has happened since the previous View.
func (m *Memory) noteEvents(v *model.View) {
	news := m.watcher.Next(v)
	for i := range news {
		if m.Tell != nil {
			m.Tell(&news[i])
		}
	}
	m.events = append(m.events, news...)
	m.events = slices.Delete(m.events, 0, max(0, len(m.events)-maxEvents))
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
