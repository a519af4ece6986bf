package history

import (
	"math"
	"slices"
	"strings"
)

// key identifies a VM or PF.
type key struct{ id, name string }

// column holds the values of one step. It is immutable.
type column struct {
	step     int64 // its start, in steps since 1970
	vms, pfs block
}

// block holds the values of a step: gatherer.width values per key.
type block struct {
	keys    []*key // sorted by id; columns share the list while it stays the same
	figures []float32
}

// gatherer computes the means over one step.
type gatherer struct {
	width int // values per key
	most  int // maximum number of keys
	rows  []row
	next  int // expected index of the next key: they come in order
}

type row struct {
	key  *key
	seen bool // in this step
	sum  [3]float64
	n    [3]int
}

// add adds values for a key; NaN means unknown. The latest name is kept.
func (g *gatherer) add(id, name string, figures ...float64) {
	r := g.find(id, name)
	if r == nil {
		return
	}
	r.seen = true
	if r.key.name != name {
		r.key = &key{id, name}
	}
	for i, f := range figures {
		if !math.IsNaN(f) {
			r.sum[i] += f
			r.n[i]++
		}
	}
}

// find returns the row of an id, or nil if there are too many rows.
func (g *gatherer) find(id, name string) *row {
	if g.next >= len(g.rows) || g.rows[g.next].key.id != id {
		at, found := slices.BinarySearchFunc(g.rows, id, func(r row, id string) int { return strings.Compare(r.key.id, id) })
		g.next = at
		if !found {
			if len(g.rows) >= g.most {
				return nil
			}
			g.rows = slices.Insert(g.rows, at, row{key: &key{id, name}})
		}
	}
	g.next++
	return &g.rows[g.next-1]
}

// close ends a step. last is the key list of the previous step, which is reused if it is the same.
func (g *gatherer) close(last []*key) block {
	g.rows = slices.DeleteFunc(g.rows, func(r row) bool { return !r.seen })
	b := block{keys: g.keys(last), figures: make([]float32, 0, len(g.rows)*g.width)}
	for i := range g.rows {
		r := &g.rows[i]
		for k := range g.width {
			b.figures = append(b.figures, mean(r.sum[k], r.n[k]))
		}
		*r = row{key: r.key}
	}
	g.next = 0
	return b
}

func (g *gatherer) keys(last []*key) []*key {
	if slices.EqualFunc(g.rows, last, func(r row, k *key) bool { return r.key == k }) {
		return last
	}
	list := make([]*key, len(g.rows))
	for i := range g.rows {
		list[i] = g.rows[i].key
	}
	return list
}

var unknown = float32(math.NaN())

func mean(sum float64, n int) float32 {
	if n == 0 {
		return unknown
	}
	return float32(sum / float64(n))
}
