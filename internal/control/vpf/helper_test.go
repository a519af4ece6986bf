package vpf

import (
	"errors"
	"testing"

	"sluice/internal/channel"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

func testState(t testing.TB, list ...model.VirtualPF) *State {
	t.Helper()
	return vpftest.Fill(t, (&State{}).Clone(), list...)
}

func code(err error) string {
	var e *channel.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
