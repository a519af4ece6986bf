package kernel

import (
	"testing"

	"sluice/internal/kernel/kerneltest"
	"sluice/internal/model"
)

// TestTapPolicy: beyond the burst frames are dropped and counted, the policy is listed, and
// nothing is left of it when it is removed.
func TestTapPolicy(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	want := PathRates{Contract: model.Rate{Packets: 1}}
	got, err := h.UpdateTap(soon(t), "tap0", func(p *TapPolicy) { p.Tx = want })
	must(t, err)
	if got.Tx != want || !got.Leased || got.Detached != model.No {
		t.Errorf("stands: %+v", got)
	}
	for range 100 * minBurst {
		tap.Send(t, kerneltest.Frame(stray, guest, "flood"))
	}
	all, err := h.TapPolicies(soon(t))
	must(t, err)
	if len(all) != 1 || all[0].Tx != want || all[0].TxDropped.Packets < 90*minBurst || all[0].TxDropped.Bytes != 60*all[0].TxDropped.Packets {
		t.Errorf("listed: %+v", all)
	}
	must(t, h.RemoveTap(soon(t), "tap0"))
	all, err = h.TapPolicies(soon(t))
	must(t, err)
	if len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
}
