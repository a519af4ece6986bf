package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"sluice/internal/model"
)

// TestMemoryIsBounded lets VMs, networks and PFs with new names come and go for a year of virtual time: the memory must depend on
// what exists, not on what existed.
func TestMemoryIsBounded(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, func(t *testing.T) {
			d := decider(t, model.Rules{Policy: policy, Interval: time.Hour})
			year := newYear()
			const steps = 3000
			var peaks [2]int // of the halves of the year: how much there is to remember goes up and down
			early := uint64(0)
			for n := range steps {
				year.step()
				d.Decide(year.Time, &year.Snapshot, &Hints{})
				if n == steps/2 {
					early = heap()
				}
				if n%10 == 0 {
					peaks[2*n/steps] = max(peaks[2*n/steps], memorySize(t, d))
				}
			}
			if n := year.Time.Sub(start); n < 360*24*time.Hour {
				t.Fatalf("%s is no year", n)
			}
			if w, limit := &d.work, 3*len(year.PFs)+8; len(d.policies) > limit || len(d.links) > limit || cap(w.pools) > limit {
				t.Errorf("%d policies, %d links, room for %d pools with %d PFs", len(d.policies), len(d.links), cap(w.pools), len(year.PFs))
			}
			if peaks[1] > peaks[0]+peaks[0]/4+4<<10 {
				t.Errorf("its memory takes up to %d bytes as JSON in the second half of the year, %d in the first", peaks[1], peaks[0])
			}
			if late := heap(); late > early+4<<20 {
				t.Errorf("the heap grew from %d to %d bytes in half a year", early, late)
			}
			runtime.KeepAlive(d)
		})
	}
}

// TestMemoryIsACopy checks that a copy does not change while the Decider continues.
func TestMemoryIsACopy(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, func(t *testing.T) {
			d := decider(t, model.Rules{Policy: policy, Interval: time.Hour})
			year := newYear()
			step := func() {
				year.step()
				d.Decide(year.Time, &year.Snapshot, &Hints{})
			}
			for range 20 {
				step()
			}
			m := d.Memory()
			before, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				step()
			}
			if after, err := json.Marshal(m); err != nil || !bytes.Equal(before, after) {
				t.Errorf("%v: the copy changed from\n%s\nto\n%s", err, before, after)
			}
			again := decider(t, model.Rules{Policy: policy, Interval: time.Hour})
			if err := again.Recall(m); err != nil {
				t.Fatal(err)
			}
			if back, err := json.Marshal(again.Memory()); err != nil || !bytes.Equal(before, back) {
				t.Errorf("%v: recalled it is\n%s\nnot\n%s", err, back, before)
			}
		})
	}
}

// BenchmarkMemory measures how long a copy holds up the loop, with 1,000 VMs.
func BenchmarkMemory(b *testing.B) {
	s := newScene().pf("a", "net", 64, 0)
	for i := range 1000 {
		s.vm("net", float64(i))
	}
	d, err := New(model.Rules{Policy: "adaptive"})
	if err != nil {
		b.Fatal(err)
	}
	d.Decide(start, &s.Snapshot, &Hints{})
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			d.Memory()
		}
	})
	b.Run("write", func(b *testing.B) {
		m := d.Memory()
		for b.Loop() {
			if _, err := json.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func memorySize(t *testing.T, d *Decider) int {
	t.Helper()
	text, err := json.Marshal(d.Memory())
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// year is a host on which nothing remains but one PF and its network.
type year struct {
	*scene
	r    *rand.Rand
	next int
}

func newYear() *year {
	return &year{scene: newScene().pf("a", "stays", 4, 0), r: rand.New(rand.NewPCG(1, 2))}
}

// step advances about three hours, in which a PF, its network and some VMs are replaced by others.
func (y *year) step() {
	y.Time = y.Time.Add(3 * time.Hour)
	y.next++
	if len(y.PFs) >= 4 {
		y.PFs = append(y.PFs[:1], y.PFs[2:]...)
	}
	network := fmt.Sprintf("net%d", y.next)
	y.pf(fmt.Sprintf("pf%06d", y.next), network, 4, 0)
	vms := y.VMs[:0:0]
	for i := range y.VMs {
		if y.r.IntN(4) > 0 {
			vms = append(vms, y.VMs[i])
		}
	}
	y.VMs = vms
	for len(y.VMs) < 20 {
		y.next++
		name := fmt.Sprintf("vm%09d", y.next)
		y.VMs = append(y.VMs, model.VM{ID: model.VMID(name), Name: name, State: model.VMRunning, Ready: model.Yes, NICs: []model.NIC{{
			Alias: "ua-net0", Failover: model.FailoverTeaming, LinkUp: model.Yes,
			MAC: model.MAC{2, 1, byte(y.next >> 24), byte(y.next >> 16), byte(y.next >> 8), byte(y.next)},
		}}})
	}
	for i := range y.VMs {
		n := &y.VMs[i].NICs[0]
		n.Network = y.PFs[max(0, y.r.IntN(2*len(y.PFs))-len(y.PFs))].Network
		if y.r.IntN(10) == 0 {
			n.Network = fmt.Sprintf("stray%d", y.r.Int())
		}
		n.Virtio = model.Traffic{Known: true, RxPPS: float64(y.r.IntN(1000))}
	}
}
