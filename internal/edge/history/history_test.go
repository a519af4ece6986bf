package history

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

var noon = time.Date(2026, 3, 1, 12, 0, 3, 0, time.UTC)

// world generates a sequence of Views.
type world struct {
	now    time.Time
	moves  uint64
	active []model.MoveStatus
	recent []model.MoveStatus
	views  naive
}

func flip(t *rapid.T, what string) bool { return rapid.Bool().Draw(t, what) }

// next returns the state of the world some time later; sometimes there is no new Snapshot.
func (w *world) next(t *rapid.T) *model.View {
	wait := rapid.SampledFrom([]time.Duration{
		0, time.Second, 3 * time.Second, 10 * time.Second, 45 * time.Second, 7 * time.Second,
		7 * time.Minute, 40 * time.Minute, time.Hour, 2 * time.Hour, -time.Second,
	}).Draw(t, "wait")
	w.now = w.now.Add(wait)
	w.carryOn(t)
	v := &model.View{
		Revision: uint64(len(w.views) + 1), Mode: model.ModeEnforce, Active: slices.Clone(w.active),
		Recent:   slices.Clone(w.recent[:min(5, len(w.recent))]),
		Snapshot: w.snapshot(t), Bandwidth: &model.Bandwidth{},
	}
	for i := range v.Active {
		v.Active[i].Times = slices.Clone(v.Active[i].Times)
	}
	for _, pf := range []string{"pf0", "pf1"} {
		if flip(t, "link") {
			v.Bandwidth.Links = append(v.Bandwidth.Links, model.LinkState{
				PF: pf, Carried: rapid.Float64Range(0, 1e10).Draw(t, "bits"),
				Capacity: 1, Carries: model.Capacity{Bits: rapid.Uint64Range(2, 9).Draw(t, "capacity")},
			})
		}
	}
	w.views = append(w.views, v)
	return v
}

func (w *world) snapshot(t *rapid.T) *model.Snapshot {
	s := &model.Snapshot{Time: w.now}
	pf := model.PF{Name: "pf0", Network: "br0", Managed: true, LinkUp: flip(t, "up")}
	holder := map[model.VMID]model.VFID{}
	for i := range rapid.IntRange(0, 3).Draw(t, "vfs") {
		vf := model.VF{
			ID:    model.VFID{PF: "pf0", Index: i},
			Owner: rapid.SampledFrom([]model.Owner{model.OwnerFree, model.OwnerSluice, model.OwnerForeign}).Draw(t, "owner"),
		}
		if vf.Owner != model.OwnerFree {
			vf.Holder = model.VMID(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "holder"))
			holder[vf.Holder] = vf.ID
		}
		pf.VFs = append(pf.VFs, vf)
	}
	s.PFs = []model.PF{pf}
	for _, id := range []model.VMID{"a", "b", "c", "d"} {
		if !flip(t, "there") {
			continue
		}
		vm := model.VM{
			ID: id, Name: "vm-" + string(id),
			NICs: []model.NIC{{Network: "br0", VF: model.NoVF, Virtio: traffic(t), VFPath: traffic(t)}},
		}
		if flip(t, "renamed") {
			vm.Name += "2"
		}
		if vf, has := holder[id]; has {
			vm.NICs[0].VF = vf
		}
		if flip(t, "another NIC") { // another NIC, which cannot have a VF
			vm.NICs = append(vm.NICs, model.NIC{Network: "br9", VF: model.NoVF, Virtio: traffic(t)})
		}
		s.VMs = append(s.VMs, vm)
	}
	return s
}

func traffic(t *rapid.T) model.Traffic {
	f := rapid.Float64Range(0, 1e6)
	return model.Traffic{
		Known: flip(t, "known"), RxPPS: f.Draw(t, "rx"), TxPPS: f.Draw(t, "tx"), RxBytes: f.Draw(t, "rx bytes"),
		TxBytes: f.Draw(t, "tx bytes"),
	}
}

// carryOn lets moves begin, proceed and end.
func (w *world) carryOn(t *rapid.T) {
	for range rapid.IntRange(0, 2).Draw(t, "new moves") {
		w.moves++
		w.active = append(w.active, model.MoveStatus{ID: w.moves, Started: w.now, Move: model.Move{
			Kind: model.MovePlug, VM: model.VMID(rapid.SampledFrom([]string{"a", "d"}).Draw(t, "vm")),
			Reason: model.Reason{Code: model.CodeRank, Score: float64(w.moves), Hold: true},
		}})
	}
	for i := len(w.active) - 1; i >= 0; i-- {
		s := &w.active[i]
		s.Times = append(slices.Clone(s.Times), model.StepTime{Kind: model.StepAttach, From: w.now, Tries: 1})
		if flip(t, "ends") {
			s.Ended = w.now
			w.recent = slices.Insert(w.recent, 0, *s)
			w.active = slices.Delete(w.active, i, i+1)
		}
	}
}

// The bounded history answers as if everything were kept.
func TestAnswersLikeOneThatRemembersEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, w := New(), &world{now: noon}
		for range rapid.IntRange(1, 60).Draw(t, "views") {
			m.Add(w.next(t))
		}
		q := answer.HistoryQuery{VM: rapid.SampledFrom([]string{"", "", "vm-a", "a", "vm-b2", "nobody"}).Draw(t, "vm")}
		if flip(t, "from") {
			q.From = w.now.Add(-time.Duration(rapid.IntRange(-60, 4000).Draw(t, "ago")) * time.Second)
		}
		want, have := w.views.History(q), m.History(q)
		if want.From.IsZero() {
			want.From, want.To = have.From, have.To
		}
		if diff := cmp.Diff(want, have, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("%+v (-want +have):\n%s", q, diff)
		}
	})
}

// Setting the clock back leaves no steps out of order, and does not stop recording until the previous time is reached
// again.
func TestClockSetBack(t *testing.T) {
	m, revision := New(), uint64(0)
	minute := func(from time.Time) {
		for i := range 60 {
			revision++
			m.Add(&model.View{Revision: revision, Snapshot: &model.Snapshot{
				Time: from.Add(time.Duration(i) * time.Second),
				VMs:  []model.VM{{ID: "a", Name: "a"}},
			}})
		}
	}
	minute(noon.Add(-65 * time.Minute))
	minute(noon)
	minute(noon.Add(-time.Hour))
	h := m.History(answer.HistoryQuery{})
	if end := noon.Add(-59 * time.Minute); h.To.Before(end.Add(-2*Step)) || h.To.After(end) {
		t.Errorf("the history ends at %s, and the clock shows %s", h.To, end)
	}
	if n := int(h.To.Sub(h.From) / Step); len(h.VMs) != 1 || len(h.VMs[0].Virtio) != n {
		t.Errorf("%+v has not %d steps", h.VMs, n)
	}
}
