package plan

import (
	"slices"

	"sluice/internal/model"
)

// marked is a list of MACs, each of which can be marked; equal ones are marked together.
type marked struct {
	macs  []model.MAC
	at    map[model.MAC]int // where the mark of a MAC is
	same  []int             // the same, by index in the list
	marks []bool
}

// unmarked is a list of those MACs without marks: m itself when it is of the same ones.
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

// is says whether the MAC at that index of the list is marked.
func (m *marked) is(i int) bool { return m.marks[m.same[i]] }

// mark marks a MAC and says whether it is in the list.
func (m *marked) mark(mac model.MAC) bool {
	i, have := m.at[mac]
	if have {
		m.marks[i] = true
	}
	return have
}
