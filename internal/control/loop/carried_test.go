package loop

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// What is counted is what was sent in all the time that was measured, whatever the path, and never goes back.
func TestCarriedCountsWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c carried
		now := time.Unix(1, 0)
		want, last := 0.0, 0.0
		for n := range rapid.IntRange(1, 30).Draw(t, "samples") {
			dt := rapid.IntRange(0, 5000).Draw(t, "ms")
			now = now.Add(time.Duration(dt) * time.Millisecond)
			draw := func(path string) model.Traffic {
				return model.Traffic{Known: rapid.Bool().Draw(t, path+" known"), TxBytes: rapid.Float64Range(0, 1e9).Draw(t, path)}
			}
			vm := model.VM{ID: "a", NICs: []model.NIC{{Alias: "ua-0", Virtio: draw("virtio"), VFPath: draw("vf")}}}
			for _, x := range []model.Traffic{vm.NICs[0].Virtio, vm.NICs[0].VFPath} {
				if x.Known && n > 0 {
					want += x.TxBytes * float64(dt) / 1000
				}
			}
			snap := &model.Snapshot{Time: now, VMs: []model.VM{vm}}
			c.count(snap)
			nic := &snap.VMs[0].NICs[0]
			got := nic.Virtio.Carried.TxBytes + nic.VFPath.Carried.TxBytes
			if got < last || math.Abs(got-want) > 1e-6*want+1e-6 {
				t.Fatalf("%g bytes, %g before, want %g", got, last, want)
			}
			last = got
		}
		c.forget(func(model.VMID) bool { return true })
		if len(c.sums) != 0 {
			t.Fatal("a VM that is gone is remembered")
		}
	})
}
