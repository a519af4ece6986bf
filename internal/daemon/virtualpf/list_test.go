package virtualpf

import "testing"

// Before the first look at the host nobody knows whether there are virtual PFs: a list without any would be taken for an answer.
func TestListBeforeTheFirstLook(t *testing.T) {
	m := &Manager{Runner: (&Runner{}).Init()}
	if list, err := m.List(t.Context()); err == nil {
		t.Errorf("%v, want an error", list)
	}
}
