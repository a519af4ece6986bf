package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// memory keeps one T per NIC between calls. A NIC with a move under way is temporarily not a candidate, so the entries of
// absent NICs are kept until there are too many of them.
type memory[T any] struct {
	ids []model.NICID
	ptr []*T
	all map[model.NICID]*T
}

// sync returns the entries of cands in their order; fresh initializes those of new NICs.
func (m *memory[T]) sync(cands []Candidate, fresh func(*T)) []*T {
	if m.same(cands) {
		return m.ptr
	}
	old := m.all
	m.all = make(map[model.NICID]*T, len(cands))
	if len(old) <= 2*len(cands)+64 { // otherwise drop all NICs that are absent now
		maps.Copy(m.all, old)
	}
	m.ids, m.ptr = m.ids[:0], m.ptr[:0]
	for i := range cands {
		id := cands[i].id()
		p, ok := old[id]
		if !ok {
			p = new(T)
			fresh(p)
		}
		m.all[id] = p
		m.ids, m.ptr = append(m.ids, id), append(m.ptr, p)
	}
	return m.ptr
}

func (m *memory[T]) same(cands []Candidate) bool {
	if len(m.ids) != len(cands) {
		return false
	}
	for i := range cands {
		if m.ids[i].VM != cands[i].VM || m.ids[i].NIC != cands[i].NIC {
			return false
		}
	}
	return true
}

// copy is a snapshot of the memory that nobody modifies. It is only for writing to a file.
func (m *memory[T]) copy() memory[T] {
	values := make([]T, 0, len(m.all)) // one allocation for all
	out := memory[T]{ids: slices.Clone(m.ids), all: make(map[model.NICID]*T, len(m.all))}
	for id, p := range m.all {
		values = append(values, *p)
		out.all[id] = &values[len(values)-1]
	}
	return out
}

// written is the file format of a memory: all NICs, and the candidates of the last call.
type written[T any] struct {
	All  map[model.NICID]*T
	Last []model.NICID
}

// MarshalJSON implements json.Marshaler.
func (m memory[T]) MarshalJSON() ([]byte, error) { return json.Marshal(written[T]{m.all, m.ids}) }

// UnmarshalJSON implements json.Unmarshaler.
func (m *memory[T]) UnmarshalJSON(text []byte) error {
	var w written[T]
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*m = memory[T]{all: w.All}
	for id, p := range w.All {
		if p == nil {
			return fmt.Errorf("a policy's memory names NIC %s but has no entry for it", id)
		}
	}
	for _, id := range w.Last {
		p := w.All[id]
		if p == nil {
			return fmt.Errorf("a policy's memory lists NIC %s but has no entry for it", id)
		}
		m.ids, m.ptr = append(m.ids, id), append(m.ptr, p)
	}
	return nil
}

// Memory is all state of a Decider beside its rules: a new Decider that recalls it continues exactly as this one would.
type Memory struct {
	Policies map[string]PolicyMemory // by network
	Links    map[string]time.Time
}

// PolicyMemory is what one policy remembers: its exported fields, as JSON.
type PolicyMemory struct {
	policy Policy // a copy; nil if the memory was read from a file
	text   json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (m PolicyMemory) MarshalJSON() ([]byte, error) {
	if m.policy == nil {
		return m.text, nil
	}
	return json.Marshal(m.policy)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *PolicyMemory) UnmarshalJSON(text []byte) error {
	m.policy, m.text = nil, slices.Clone(text)
	return nil
}

// remembers is a policy with state that can be copied, so that it can be written while the policy runs on. The other policies
// have no state.
type remembers interface {
	Policy
	copy() Policy
}

// Memory copies the state of the Decider. The copy is quick; marshaling it takes the time.
func (d *Decider) Memory() Memory {
	m := Memory{Policies: make(map[string]PolicyMemory, len(d.policies)), Links: maps.Clone(d.links)}
	for network, p := range d.policies {
		if r, ok := p.(remembers); ok {
			p = r.copy()
		}
		m.Policies[network] = PolicyMemory{policy: p}
	}
	return m
}

// Recall restores the state of another Decider that ran the same policy.
func (d *Decider) Recall(m Memory) error {
	for network, known := range m.Policies {
		p, err := NewPolicy(d.rules)
		var text []byte
		if err == nil {
			text, err = known.MarshalJSON()
		}
		if err == nil {
			err = json.Unmarshal(text, p)
		}
		if a, ok := p.(*adaptive); ok && err == nil {
			err = a.check()
		}
		if err != nil {
			return fmt.Errorf("read the memory of policy %s for network %s: %w", d.rules.Policy, network, err)
		}
		d.policies[network] = p
	}
	maps.Copy(d.links, m.Links)
	return nil
}
