package vf

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
)

func TestAppendVFCounters(t *testing.T) {
	m := pfAnswer(
		vfState{Index: 0, MAC: kerneltest.Guest, Counters: netdev.Counters{RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4}},
		vfState{Index: 5, MAC: kerneltest.Other, Counters: netdev.Counters{RxPackets: 6, RxDropped: 7, TxDropped: 8}},
	)
	states, err := decodeVFs(m)
	kerneltest.Must(t, err)
	var want []Counters
	for _, s := range states {
		want = append(want, Counters{s.Index, s.Counters})
	}
	got := AppendVFCounters(nil, m)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 2 || got[1].VF != 5 || got[1].RxDropped != 7 {
		t.Errorf("%+v (-want +got): %s", got, diff)
	}
}
