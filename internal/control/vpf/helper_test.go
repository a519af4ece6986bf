package vpf

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/channel"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

func testState(t testing.TB, list ...model.VirtualPF) *State {
	t.Helper()
	return vpftest.Fill(t, (&State{}).Clone(), list...)
}

func bits(bits uint64) model.Rate { return model.Rate{Bits: bits} }

func vlans(text string) model.VLANs {
	v, err := model.ParseVLANs(text)
	if err != nil {
		panic(err)
	}
	return v
}

// samePolicy compares policies: lists that are nil and empty are equal.
var samePolicy = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})}

func code(err error) string {
	var e *channel.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
