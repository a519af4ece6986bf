package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// Hosts that lack what a dual path needs cut off a VM at each move, but not for longer than stated here.
func TestHostsThatLackSomething(t *testing.T) {
	changeover := PaperTiming.Attach + PaperTiming.Guest + 4*PaperTiming.Kernel
	letGo := PaperTiming.Detach + PaperTiming.Gone + 4*PaperTiming.Kernel
	for _, c := range []struct {
		name    string
		prepare func(w *World)
		want    gaps // at most
	}{
		{"nothing", func(*World) {}, gaps{}},
		{
			// The entry is moved by the Step after the one in which the guest changes paths. Until then the bridge returns the PF's frames to
			// the PF, where nobody receives them.
			"TCX", func(w *World) { w.NoMirror = true }, gaps{fromWire: 2 * PaperTiming.Kernel, fromBridge: 2 * PaperTiming.Kernel},
		},
		{
			"TCX, and libvirt is late", func(w *World) {
				w.NoMirror = true
				w.Timing.Gone, w.Timing.Close = 200*time.Millisecond, 100*time.Millisecond
			},
			gaps{fromWire: 100*time.Millisecond + 2*PaperTiming.Kernel, fromBridge: 100*time.Millisecond + 2*PaperTiming.Kernel},
		},
		{
			// From set-mac until the driver is up, and from when it is gone until clear-vf.
			"a filter to spare", func(w *World) { w.pfs[0].SelfSlots = 1; w.pfs[0].self[model.MAC{2, 9}] = true },
			gaps{fromWire: max(changeover, letGo), fromVFs: time.Hour},
		},
	} {
		h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
		c.prepare(h.World)
		h.OnEvent = h.meter.Note
		h.run(6 * time.Second)
		swap(h)
		h.run(20 * time.Second)
		h.want("vm0 ")
		got := h.meter.Stop(h.World.Now)
		for d, g := range got {
			if g > c.want[d] || g == 0 && c.want[d] > 0 {
				t.Errorf("without %s: %s; want at most %s, and not nothing", c.name, got, c.want)
				break
			}
		}
		t.Logf("without %s: %s", c.name, got)
	}
}

// After a kill between set-mac and attach on a PF without a spare filter, the NIC sends frames from the wire to a VF without a holder. The
// next start repairs that at its first Snapshot.
func TestKillWithoutAFilterToSpare(t *testing.T) {
	h := newHost(t, 2, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
	h.World.pfs[0].SelfSlots, h.World.pfs[0].self[model.MAC{2, 9}] = 1, true
	h.OnEvent = h.meter.Note
	h.OnStep = func(s model.Step) Verdict {
		if s.Kind == model.StepAttach {
			h.OnStep = nil
			h.At(h.World.Now, func() { h.killNow(3 * time.Second) })
			return Verdict{Lose: true}
		}
		return Verdict{}
	}
	h.run(20 * time.Second)
	h.want("vm1 ")
	if got := h.meter.Stop(h.World.Now); got[fromWire] == 0 || got[fromWire] > 5*time.Second || got[fromBridge] > 0 {
		t.Errorf("%s; want the wire for as long as the daemon is away and little more, the bridge never", got)
	}
}

// If a PF's link goes down, the VMs on its VFs are cut off until the next Snapshot: then they fall back to virtio and can be reached from
// the host's other VMs.
func TestLinkDown(t *testing.T) {
	h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
	h.OnEvent = h.meter.Note
	h.run(6 * time.Second)
	h.World.pfs[0].LinkUp = false
	h.run(10 * time.Second)
	h.want("")
	if got := h.meter.Stop(h.World.Now); got[fromBridge] == 0 || got[fromBridge] > seen {
		t.Errorf("%s; want at most %s from the bridge", got, seen)
	}
}
