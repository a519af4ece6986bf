package daemon

import (
	"context"
	"testing"

	"sluice/internal/host/netdev"
	"sluice/internal/host/observe"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// fixedCounters are two taps; a policer dropped packets of one.
type fixedCounters struct{ observe.CounterReader }

func (fixedCounters) Links(_ context.Context, buf []netdev.LinkStats) ([]netdev.LinkStats, error) {
	return append(buf, netdev.LinkStats{Index: 7}, netdev.LinkStats{Index: 8}), nil
}

// fixedDrops is the number of packets that tap 7 dropped; 0: the tap is not listed.
type fixedDrops uint64

func (d fixedDrops) TapDrops(buf []tap.Drops) []tap.Drops {
	if d == 0 {
		return buf
	}
	return append(buf, tap.Drops{Index: 7, Tx: uint64(d), Rx: 2})
}

func TestReadingsTellWhatWasDropped(t *testing.T) {
	c := readings{Counters: observe.NewCounters(fixedCounters{})}
	nics := []model.NIC{{Alias: "net0", Tap: "vnet0", TapIndex: 7}, {Alias: "net1", Tap: "vnet1", TapIndex: 8}}
	c.Follow(&model.Snapshot{VMs: []model.VM{{ID: "vm", State: model.VMRunning, NICs: nics}}})
	for _, drops := range []fixedDrops{5, 6, 0} {
		c.taps = drops
		readings, err := c.Read(t.Context(), nil)
		if err != nil || len(readings) != 2 {
			t.Fatalf("%+v, %v", readings, err)
		}
		for _, r := range readings {
			want := model.Dropped{}
			if r.NIC.NIC == "net0" && drops > 0 {
				want = model.Dropped{Tx: uint64(drops), Rx: 2}
			}
			if r.Dropped != want {
				t.Errorf("%s: %+v, want %+v", r.NIC.NIC, r.Dropped, want)
			}
		}
	}
}
