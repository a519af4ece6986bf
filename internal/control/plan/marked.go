package plan

import (
	"slices"

	"sluice/internal/model"
)

// marked is a list of MACs that can be marked; equal MACs are marked together.
type marked struct {
	macs  []model.MAC
	at    map[model.MAC]int // index of the mark of a MAC
	same  []int             // index of the mark, by index in the list
	marks []bool
}

// unmarked returns a list of these MACs without marks. It reuses m if m has the same MACs.
func (m *marked) unmarked(macs []model.MAC) *marked {
	if m != nil && slices.Equal(m.macs, macs) {
		clear(m.marks)
		return m
	}
	m = &marked{macs: slices.Clone(macs), at: make(map[model.MAC]int, len(macs)), marks: make([]bool, len(macs))}
	for i, mac := range macs {
		if _, twice := m.at[mac]; !twice {
			m.at[mac] = i
		}
		m.same = append(m.same, m.at[mac])
	}
	return m
}

// is reports whether the MAC at index i of the list is marked.
func (m *marked) is(i int) bool { return m.marks[m.same[i]] }

// mark marks a MAC and reports whether it is in the list.
func (m *marked) mark(mac model.MAC) bool {
	i, have := m.at[mac]
	if have {
		m.marks[i] = true
	}
	return have
}
