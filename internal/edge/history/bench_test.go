package history

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// host returns a host with that many VMs, 64 VFs and two PFs.
func host(vms int, at time.Time) *model.View {
	s := &model.Snapshot{Time: at, PFs: []model.PF{{Name: "pf0", Network: "br0", Managed: true}, {Name: "pf1", Network: "br0", Managed: true}}}
	for i := range 64 {
		pf := &s.PFs[i%2]
		pf.VFs = append(pf.VFs, model.VF{ID: model.VFID{PF: pf.Name, Index: i / 2}, Owner: model.OwnerSluice, Holder: vmID(i)})
	}
	for i := range vms {
		s.VMs = append(s.VMs, model.VM{ID: vmID(i), Name: fmt.Sprintf("vm-%04d", i), NICs: []model.NIC{{
			Network: "br0", VF: model.NoVF, Virtio: model.Traffic{Known: true, RxPPS: float64(at.Unix() % 1000 * int64(i)), TxPPS: 1000},
		}}})
	}
	return &model.View{Snapshot: s, Bandwidth: &model.Bandwidth{Links: []model.LinkState{
		{PF: "pf0", Carried: 1e9},
		{PF: "pf1", Carried: 2e9},
	}}}
}

func vmID(i int) model.VMID { return model.VMID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)) }

func move(id uint64, at time.Time) model.MoveStatus {
	m := model.MoveStatus{ID: id, Started: at, Ended: at.Add(time.Second), Move: model.Move{
		Kind: model.MovePlug, VM: vmID(1), VMName: "vm-0001", VF: model.VFID{PF: "pf0"},
		Reason: model.Reason{
			VM: vmID(1), Code: model.CodeRank, Hold: true, Policy: "adaptive", Score: 12345, Price: 6789, Rank: 1, Slots: 64,
			Other: vmID(2), OtherNm: "vm-0002",
		},
	}}
	for range 12 {
		m.Times = append(m.Times, model.StepTime{Kind: model.StepAttach, From: at, To: at.Add(time.Second), Tries: 1})
	}
	return m
}

// BenchmarkAdd adds a Snapshot per second, and reports the memory for an hour with a move every ten seconds.
func BenchmarkAdd(b *testing.B) {
	for _, vms := range []int{100, 1000} {
		b.Run(fmt.Sprintf("vms=%d", vms), func(b *testing.B) {
			before := heap()
			m, v := New(), host(vms, noon)
			for i := range 2 * Hour {
				v.Snapshot.Time = noon.Add(time.Duration(i) * Step)
				v.Recent = []model.MoveStatus{move(uint64(i+1), v.Snapshot.Time)} //nolint:gosec // few
				m.Add(v)
			}
			retained := float64(heap()-before) / 1e6
			v.Recent = nil
			for b.Loop() {
				v.Snapshot.Time = v.Snapshot.Time.Add(time.Second)
				m.Add(v)
			}
			b.ReportMetric(retained, "MB-retained") // with a Snapshot
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkHistory answers with a whole hour: outside the loop, once per revision.
func BenchmarkHistory(b *testing.B) {
	for _, vms := range []int{100, 1000} {
		m, v := New(), host(vms, noon)
		for i := range Hour + 1 {
			v.Snapshot.Time = noon.Add(time.Duration(i) * Step)
			m.Add(v)
		}
		b.Run(fmt.Sprintf("vms=%d", vms), func(b *testing.B) {
			for b.Loop() {
				m.History(answer.HistoryQuery{})
			}
		})
		b.Run(fmt.Sprintf("vms=%d/copy under the lock", vms), func(b *testing.B) {
			for b.Loop() {
				m.copy()
			}
		})
	}
}

// Memory never keeps more than its documented bounds, and drops the oldest entries first.
func TestBounds(t *testing.T) {
	m := New()
	v := host(MaxVMs+100, noon)
	m.Add(v)
	v.Snapshot.Time = noon.Add(Step)
	m.Add(v)
	known := 0
	for _, vm := range m.History(answer.HistoryQuery{}).VMs {
		if vm.Virtio[0] == vm.Virtio[0] {
			known++
		}
	}
	if known != MaxVMs {
		t.Errorf("figures of %d VMs are kept, want %d", known, MaxVMs)
	}
	m = New()
	active := move(1, noon)
	active.Ended = time.Time{}
	for i := range maxHoldings + 100 {
		v := host(2, noon.Add(time.Duration(i)*time.Second))
		v.Snapshot.PFs[0].VFs[0].Holder = vmID(i % 2)
		v.Active, v.Recent = []model.MoveStatus{active}, []model.MoveStatus{move(uint64(i+2), v.Snapshot.Time)} //nolint:gosec // few
		m.Add(v)
	}
	h := m.History(answer.HistoryQuery{})
	if over := len(h.Holdings) - 64; over != maxHoldings || h.Holdings[over-1].To.IsZero() {
		t.Errorf("%d holdings that are over are kept, want %d", over, maxHoldings)
	}
	if len(h.Moves) != maxMoves || h.Moves[0].ID != 1 || h.Moves[1].ID != uint64(maxHoldings+100+2-maxMoves+1) || h.Dropped != maxHoldings+100+
		1-maxMoves {
		t.Errorf("%d moves are kept from %d and %d on, %d dropped; want %d with that under way", len(h.Moves), h.Moves[0].ID, h.Moves[1].ID,
			h.Dropped, maxMoves)
	}
}
