package bandwidth

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// While the controller is quiet, no reading makes it set a limit; while it is not, something is promised, limited or in force.
func TestQuietDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := func(name string) model.Rate {
			return model.Rate{Bits: rapid.SampledFrom([]uint64{0, 0, 0, 5e8}).Draw(t, name)}
		}
		allocator := rapid.SampledFrom(published()).Draw(t, "allocator")
		k := kinds[allocator]
		c, err := NewCore(Options{Mode: model.ModeEnforce, Allocator: allocator, Period: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		snap := &model.Snapshot{PFs: []model.PF{{
			Name: "pf0", Network: "br0", Speed: 1e9, LinkUp: true, Managed: true,
			Uplink: model.Uplink{Switch: "br0"},
		}}}
		for i := range 3 {
			id := model.VMID(fmt.Sprint("vm", i))
			snap.VMs = append(snap.VMs, model.VM{
				ID: id, Name: string(id), State: model.VMRunning,
				NICs: []model.NIC{{Alias: "ua-0", Tap: "vnet", Network: "br0"}},
			})
		}
		w := World{Snapshot: snap, Enforcer: func(model.LimitKey) (string, model.Tri) { return "police", model.Yes }}
		now, sent := time.Unix(1000, 0), map[model.VMID]uint64{}
		for round := range 4 {
			w.Rules.VMs = nil
			asked, first := k.Always, 0.0
			for i := range snap.VMs {
				s := model.SLA{Guarantee: rate("guarantee"), Limit: rate("limit"), Receive: rate("receive")}
				asked = asked || s != model.SLA{}
				s.Weight = rapid.SampledFrom([]float64{0, 0, 0, 1, 5}).Draw(t, "weight")
				if i == 0 {
					first = s.Share()
				}
				asked = asked || k.Weights && s.Share() != first
				w.Rules.VMs = append(w.Rules.VMs, model.VMRule{Match: string(snap.VMs[i].ID), SLA: s})
			}
			c.Follow(now, w)
			if asked && c.Quiet() {
				t.Fatal("quiet although something is asked for")
			}
			for range 5 {
				quiet := c.Quiet()
				now = now.Add(100 * time.Millisecond)
				var readings []Reading
				for i := range snap.VMs {
					id := snap.VMs[i].ID
					sent[id] += uint64(rapid.IntRange(0, 1e8).Draw(t, "bytes"))
					readings = append(readings, Reading{
						NIC: model.NICID{VM: id, NIC: "ua-0"}, Path: model.PathVirtio, At: now, TxBytes: sent[id],
						TxPackets: sent[id] / 1000,
					})
				}
				batch := c.Tick(now, readings)
				if quiet && len(batch) > 0 {
					t.Fatalf("round %d: quiet, and then %+v", round, batch)
				}
				c.Applied(now, batch, LimitsOf(batch), nil)
			}
			if !asked && round > 0 && !c.Quiet() {
				for range 400 { // what stands is lifted, and then nothing does
					now = now.Add(100 * time.Millisecond)
					batch := c.Tick(now, nil)
					c.Applied(now, batch, LimitsOf(batch), nil)
				}
				if c.Follow(now, w); !c.Quiet() {
					t.Fatal("not quiet long after the last limit")
				}
			}
		}
	})
}
