package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/host/netdev"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// fakeReader answers as counters.Reader does.
type fakeReader struct {
	links []netdev.LinkStats
	vfs   map[string][]vf.Counters
	asked int // ports
	fail  map[string]error
}

func (f *fakeReader) Links(_ context.Context, buf []netdev.LinkStats) ([]netdev.LinkStats, error) {
	return append(buf, f.links...), f.fail["links"]
}

func (f *fakeReader) VFs(_ context.Context, pf string, _ int, buf []vf.Counters) ([]vf.Counters, error) {
	if err := f.fail[pf]; err != nil {
		return buf, err
	}
	return append(buf, f.vfs[pf]...), nil
}

func (f *fakeReader) Port(_ context.Context, pf string, _ int) (netdev.Counters, error) {
	f.asked++
	return netdev.Counters{RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4}, f.fail["port of "+pf]
}

// readerOf returns counters for the links and VFs of a fake world.
func readerOf(f *fakeWorld) *fakeReader {
	r := &fakeReader{vfs: map[string][]vf.Counters{}, fail: map[string]error{}}
	for i, l := range f.links {
		n := uint64(1000 * i)
		r.links = append(r.links, netdev.LinkStats{
			Index:    l.Index,
			Counters: netdev.Counters{RxPackets: n + 1, TxPackets: n + 2, RxBytes: n + 3, TxBytes: n + 4},
		})
	}
	for i, pf := range f.pfs {
		for k := range pf.VFs {
			n := uint64(1e6*(i+1) + 1000*k)
			r.vfs[pf.Name] = append(r.vfs[pf.Name], vf.Counters{
				VF:       k,
				Counters: netdev.Counters{RxPackets: n + 1, TxPackets: n + 2, RxBytes: n + 3, TxBytes: n + 4},
			})
		}
	}
	return r
}

func TestCounters(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 4, counting)
	f.addPF("pf1", "br0", 4, mute)
	for i := range 3 {
		f.addVM(i, "br0")
	}
	f.attach(1, addr(2))
	f.attach(2, addr(64)) // of the PF without counters
	s := New(f, f.uplinks(), f, nil, Options{Pool: poolAll})
	defer s.Close()
	snap := snapshot(t, s)
	r := readerOf(f)
	c := NewCounters(r)
	if got, err := c.Read(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("before it follows anything: %v, %v", got, err)
	}
	c.Follow(snap)
	got, err := c.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	nic := func(n int) model.NICID { return model.NICID{VM: model.VMID(fmt.Sprintf("id-%03d", n)), NIC: "ua-net0"} }
	place := func(name string) uint64 {
		for i := range f.links {
			if f.links[i].Name == name {
				return uint64(1000 * i)
			}
		}
		return 0
	}
	var want []Count
	for i := range 3 {
		n := place(fmt.Sprintf("vnet%d", i))
		want = append(want, Count{NIC: nic(i), Device: 1000 + i, RxPackets: n + 2, TxPackets: n + 1, RxBytes: n + 4, TxBytes: n + 3})
	}
	want = append(want, Count{
		NIC: nic(1), VF: model.VFID{PF: "pf0", Index: 2}, Device: 100, RxPackets: 1002001, TxPackets: 1002002,
		RxBytes: 1002003, TxBytes: 1002004,
	})
	want = append(want, Count{
		NIC: model.NICID{NIC: "pf1"}, Device: 101, RxPackets: 1, TxPackets: 2, RxBytes: 3,
		TxBytes: 4,
	}) // its VF is in a guest and has no counters
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Count{}, "At")); d != "" {
		t.Error(d)
	}
	for i := range got {
		if got[i].At.IsZero() {
			t.Errorf("%v: no time", got[i].NIC)
		}
	}
	r.fail["pf0"] = errors.New("no answer")
	if got, err = c.Read(t.Context(), got[:0]); err == nil || len(got) != 4 {
		t.Errorf("when a PF does not answer: %d counts, %v", len(got), err)
	}
	f.set(func() { f.dom(1).Hostdevs = nil })
	c.Follow(snapshot(t, s))
	if got, err = c.Read(t.Context(), nil); err != nil || len(got) != 4 {
		t.Errorf("after the VF went: %d counts, %v", len(got), err)
	}
}

// A port whose driver provides no counters is not an error, and is not read many times a second.
func TestPortsThatDoNotTell(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 4, mute)
	f.addVM(0, "br0")
	f.attach(0, addr(2))
	s := New(f, f.uplinks(), f, nil, Options{Pool: poolAll})
	defer s.Close()
	r := readerOf(f)
	r.fail["port of pf0"] = errors.New("no such statistics")
	c := NewCounters(r)
	c.Follow(snapshot(t, s))
	for range 10 {
		if got, err := c.Read(t.Context(), nil); err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if r.asked != 1 {
		t.Errorf("asked %d times", r.asked)
	}
}

// A read does not allocate and does not wait for a Snapshot, however long that takes.
func TestCountersDoNotWaitForTheInventory(t *testing.T) {
	f := crowd(100)
	s := New(f, f.uplinks(), f, nil, Options{Pool: Pool{"pf0": {All: true}, "pf1": {All: true}}})
	defer s.Close()
	c := NewCounters(readerOf(f))
	c.Follow(snapshot(t, s))
	s.mu.Lock() // a Snapshot that never ends
	defer s.mu.Unlock()
	buf, err := c.Read(t.Context(), nil)
	if err != nil || len(buf) != 164 {
		t.Fatalf("%d counts, %v; want 164", len(buf), err)
	}
	if n := testing.AllocsPerRun(100, func() { buf, _ = c.Read(t.Context(), buf[:0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCounters measures the cost of a read without the kernel's part.
func BenchmarkCounters(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := crowd(n)
			s := New(f, f.uplinks(), f, nil, Options{Pool: Pool{"pf0": {All: true}, "pf1": {All: true}}})
			defer s.Close()
			snap, err := s.Snapshot(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			c := NewCounters(readerOf(f))
			c.Follow(snap)
			var buf []Count
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = c.Read(b.Context(), buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
