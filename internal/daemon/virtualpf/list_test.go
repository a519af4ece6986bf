package virtualpf

import "testing"

// Before the first observation of the host List fails: an empty list would be taken for an answer.
func TestListBeforeTheFirstLook(t *testing.T) {
	m := &Manager{Runner: (&Runner{}).Init()}
	if list, err := m.List(t.Context()); err == nil {
		t.Errorf("%v, want an error", list)
	}
}
