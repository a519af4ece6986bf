package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// Filters of VMs that end while the daemon is stopped are removed at its next start; a filter made by others remains.
func TestFiltersOfVMsThatEndUnseen(t *testing.T) {
	h := newHost(t, 5, 2, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	p := h.World.PFs()[0]
	p.self[foreignMAC] = true
	h.run(10 * time.Second)
	vms := h.World.VMs()
	virtio, holder, mac := vms[0], vms[4], vms[0].NICs[0].MAC
	if !p.self[mac] {
		t.Fatalf("no filter for a VM on virtio\n%s", h.dump())
	}
	h.Kill()
	h.World.Destroy(virtio)
	h.World.Destroy(holder)
	h.boot()
	h.run(10 * time.Second)
	if p.self[mac] || !p.self[foreignMAC] {
		t.Errorf("filters %v: want that of the VM that ended gone, and somebody else's kept", p.self)
	}
	h.run(2 * 64 * time.Second)
	h.Core.Repair(h.World.Now) // the VF of the holder that ended unseen
	h.run(5 * time.Second)
	if err := h.sound(); err != nil {
		t.Error(err)
	}
	for f := range h.filters {
		if !p.self[f.MAC] {
			t.Errorf("the filter for %s is recorded, but not there", f.MAC)
		}
	}
}

// A reboot of the host removes its filters. A new filter with the same address, made by others, is theirs.
func TestBookedFiltersThatAreGoneAreStruckOut(t *testing.T) {
	h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.run(10 * time.Second)
	v := h.World.VMs()[0]
	p := h.World.PFs()[0]
	h.Kill()
	h.World.Destroy(v)
	delete(p.self, v.NICs[0].MAC)
	h.boot()
	h.run(5 * time.Second)
	p.self[v.NICs[0].MAC] = true
	h.Kill()
	h.boot()
	h.run(10 * time.Second)
	if !p.self[v.NICs[0].MAC] {
		t.Error("somebody else's filter was removed")
	}
}

// A filter that is being added while the records are checked stays recorded.
func TestFilterUnderWayStaysBooked(t *testing.T) {
	h := newHost(t, 3, 2, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.opts.Timeouts.Kernel = 5 * time.Second
	h.boot()
	h.run(30 * time.Second)
	h.World.Timing.Kernel = 2500 * time.Millisecond
	for i := range 40 { // one of them at the moment at which the book is gone through
		h.World.AddVM(10+i, "new", "br0", &level{})
		h.run(2 * time.Second)
	}
	h.run(10 * time.Second)
	for mac := range h.World.PFs()[0].self {
		if !h.filters[model.Filter{PF: "pf0", MAC: mac}] {
			t.Errorf("the filter for %s is there, but not recorded", mac)
		}
	}
}
