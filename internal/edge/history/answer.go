package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

// copied is a reader's copy of the Memory: lists of its own, of records that do not change.
type copied struct {
	revision uint64
	at       time.Time
	columns  []*column
	now      []*key
	holdings []*api.Holding
	moves    []*api.MoveRecord
	dropped  int
	capacity map[string]uint64
}

func (m *Memory) copy() *copied {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &copied{
		revision: m.revision, at: m.at, columns: slices.Clone(m.columns), now: m.now, holdings: slices.Clone(m.holdings),
		moves: slices.Clone(m.moves), dropped: m.dropped, capacity: maps.Clone(m.capacity),
	}
	for _, h := range m.held {
		c.holdings = append(c.holdings, h)
	}
	return c
}

// History implements server.History.
func (m *Memory) History(q answer.HistoryQuery) api.History {
	c := m.copy()
	c.columns = slices.DeleteFunc(c.columns, func(col *column) bool { return beginOf(col.step).Before(q.From) })
	out := api.History{
		Revision: c.revision, From: c.at, To: c.at, Step: Step.Seconds(), Dropped: c.dropped,
		VMs: []api.VMHistory{}, Holdings: []api.Holding{}, Moves: []api.MoveRecord{}, Links: []api.LinkHistory{},
	}
	if n := len(c.columns); n > 0 {
		out.From, out.To = beginOf(c.columns[0].step), beginOf(c.columns[n-1].step+1)
	}
	n := int(out.To.Sub(out.From) / Step)
	c.vms(&out, q, n)
	if q.VM == "" {
		c.links(&out, n)
	}
	c.events(&out, q)
	return out
}

// vms converts the columns to one list per VM. For a renamed VM the latest name is used.
func (c *copied) vms(out *api.History, q answer.HistoryQuery, n int) {
	at := map[string]int{} // by id; -1: not selected by the query
	place := func(k *key, gone bool) int {
		i, known := at[k.id]
		switch {
		case known:
			return i
		case q.VM != "" && q.VM != k.id && q.VM != k.name:
			i = -1
		default:
			i = len(out.VMs)
			v := api.VMHistory{Name: k.name, ID: k.id, Gone: gone, Virtio: figures(n), VF: figures(n)}
			if q.VM != "" || q.Bytes {
				v.Bytes = figures(n)
			}
			out.VMs = append(out.VMs, v)
		}
		at[k.id] = i
		return i
	}
	for _, k := range c.now {
		place(k, false)
	}
	for _, col := range slices.Backward(c.columns) {
		slot := col.step - c.columns[0].step
		for i, k := range col.vms.keys {
			p := place(k, true)
			if p < 0 {
				continue
			}
			v, f := &out.VMs[p], col.vms.figures[i*figuresOfVM:]
			v.Virtio[slot], v.VF[slot] = f[0], f[1]
			if v.Bytes != nil {
				v.Bytes[slot] = f[2]
			}
		}
	}
	slices.SortStableFunc(out.VMs, func(a, b api.VMHistory) int { return answer.Natural(a.Name, b.Name) })
}

func figures(n int) api.Figures {
	f := make(api.Figures, n)
	for i := range f {
		f[i] = unknown
	}
	return f
}

func (c *copied) links(out *api.History, n int) {
	at := map[string]int{}
	for _, col := range c.columns {
		for i, k := range col.pfs.keys {
			p, known := at[k.id]
			if !known {
				p = len(out.Links)
				at[k.id] = p
				out.Links = append(out.Links, api.LinkHistory{PF: k.id, Bits: figures(n), Capacity: c.capacity[k.id]})
			}
			out.Links[p].Bits[col.step-c.columns[0].step] = col.pfs.figures[i]
		}
	}
	slices.SortFunc(out.Links, func(a, b api.LinkHistory) int { return answer.Natural(a.PF, b.PF) })
}

// events selects the holdings and moves that match the query.
func (c *copied) events(out *api.History, q answer.HistoryQuery) {
	about := func(id string, end time.Time) bool {
		return (q.VM == "" || slices.ContainsFunc(out.VMs, func(v api.VMHistory) bool { return v.ID == id })) &&
			(end.IsZero() || end.After(q.From))
	}
	for _, h := range c.holdings {
		if about(h.ID, h.To) {
			out.Holdings = append(out.Holdings, *h)
		}
	}
	slices.SortFunc(out.Holdings, func(a, b api.Holding) int {
		return cmp.Or(answer.Natural(a.VF, b.VF), a.From.Compare(b.From))
	})
	for _, r := range c.moves {
		if about(r.Move.ID, r.Move.Ended) {
			out.Moves = append(out.Moves, *r)
		}
	}
}
