package history

import (
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// naive keeps every View, and scans all of them for each answer.
type naive []*model.View

func (n naive) History(q answer.HistoryQuery) api.History {
	out := api.History{Step: 10, VMs: []api.VMHistory{}, Holdings: []api.Holding{}, Moves: []api.MoveRecord{}, Links: []api.LinkHistory{}}
	seen := n.snapshots()
	if len(n) > 0 {
		out.Revision = n[len(n)-1].Revision
	}
	if len(seen) == 0 {
		return out
	}
	now := seen[len(seen)-1].Snapshot.Time
	end := now.Truncate(10 * time.Second)
	begin := end.Add(-time.Hour)
	var steps []time.Time
	for at := begin; at.Before(end); at = at.Add(10 * time.Second) {
		if !at.Before(q.From) && len(during(seen, at)) > 0 {
			steps = append(steps, at)
		}
	}
	out.From, out.To = now, now
	if len(steps) > 0 {
		out.From, out.To = steps[0], steps[len(steps)-1].Add(10*time.Second)
	}
	for at := out.From; at.Before(out.To); at = at.Add(10 * time.Second) {
		n.step(&out, q, during(seen, at), int(at.Sub(out.From)/(10*time.Second)))
	}
	for i := range seen[len(seen)-1].Snapshot.VMs {
		n.name(&out, &seen[len(seen)-1].Snapshot.VMs[i], false)
	}
	n.pad(&out, q)
	n.holdings(&out, q, seen, begin)
	n.moves(&out, q, begin)
	return out
}

// snapshots returns the Views with a Snapshot newer than all before.
func (n naive) snapshots() (out []*model.View) {
	for _, v := range n {
		if v.Snapshot != nil && (len(out) == 0 || v.Snapshot.Time.After(out[len(out)-1].Snapshot.Time)) {
			out = append(out, v)
		}
	}
	return out
}

func during(seen []*model.View, at time.Time) (out []*model.View) {
	for _, v := range seen {
		if t := v.Snapshot.Time; !t.Before(at) && t.Before(at.Add(10*time.Second)) {
			out = append(out, v)
		}
	}
	return out
}

func (n naive) name(out *api.History, vm *model.VM, gone bool) *api.VMHistory {
	for i := range out.VMs {
		if v := &out.VMs[i]; v.ID == string(vm.ID) {
			v.Name, v.Gone = vm.Name, gone
			return v
		}
	}
	out.VMs = append(out.VMs, api.VMHistory{Name: vm.Name, ID: string(vm.ID), Gone: gone})
	return &out.VMs[len(out.VMs)-1]
}

func set(list *api.Figures, at int, f []float64) {
	for len(*list) <= at {
		*list = append(*list, float32(math.NaN()))
	}
	if len(f) == 0 {
		return
	}
	sum := 0.0
	for _, x := range f {
		sum += x
	}
	(*list)[at] = float32(sum / float64(len(f)))
}

func (n naive) step(out *api.History, q answer.HistoryQuery, views []*model.View, at int) {
	virtio, vf, bytes, links := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, v := range views {
		for i := range v.Snapshot.VMs {
			vm := &v.Snapshot.VMs[i]
			n.name(out, vm, true)
			nic := vm.NICs[0] // the generator's VMs have one that counts
			if nic.Virtio.Known {
				virtio[string(vm.ID)] = append(virtio[string(vm.ID)], nic.Virtio.RxPPS+nic.Virtio.TxPPS)
			}
			if nic.VF == model.NoVF {
				vf[string(vm.ID)] = append(vf[string(vm.ID)], 0)
			} else if nic.VFPath.Known {
				vf[string(vm.ID)] = append(vf[string(vm.ID)], nic.VFPath.RxPPS+nic.VFPath.TxPPS)
			}
			if _, b, known := nic.Load(); known {
				bytes[string(vm.ID)] = append(bytes[string(vm.ID)], b)
			}
		}
		for _, l := range v.Bandwidth.Links {
			links[l.PF] = append(links[l.PF], v.Carried(&l))
			if !slices.ContainsFunc(out.Links, func(h api.LinkHistory) bool { return h.PF == l.PF }) {
				out.Links = append(out.Links, api.LinkHistory{PF: l.PF})
			}
		}
	}
	for i := range out.VMs {
		v := &out.VMs[i]
		set(&v.Virtio, at, virtio[v.ID])
		set(&v.VF, at, vf[v.ID])
		if q.VM != "" {
			set(&v.Bytes, at, bytes[v.ID])
		}
	}
	for i := range out.Links {
		set(&out.Links[i].Bits, at, links[out.Links[i].PF])
	}
}

// pad makes the lists of all as long as the answer is, leaves out who was not asked for, and sorts.
func (n naive) pad(out *api.History, q answer.HistoryQuery) {
	steps := int(out.To.Sub(out.From) / (10 * time.Second))
	full := func(f api.Figures) api.Figures {
		if f == nil {
			f = api.Figures{}
		}
		if steps > 0 && len(f) < steps {
			set(&f, steps-1, nil)
		}
		return f
	}
	out.VMs = slices.DeleteFunc(out.VMs, func(v api.VMHistory) bool { return q.VM != "" && q.VM != v.Name && q.VM != v.ID })
	for i := range out.VMs {
		v := &out.VMs[i]
		v.Virtio, v.VF = full(v.Virtio), full(v.VF)
		if q.VM != "" {
			v.Bytes = full(v.Bytes)
		}
	}
	slices.SortFunc(out.VMs, func(a, b api.VMHistory) int { return strings.Compare(a.ID, b.ID) })
	if q.VM != "" {
		out.Links = out.Links[:0]
	}
	for i := range out.Links {
		for _, v := range n.snapshots() {
			for _, l := range v.Bandwidth.Links {
				if l.PF == out.Links[i].PF {
					out.Links[i].Capacity = l.Carries.Bits
				}
			}
		}
		out.Links[i].Bits = full(out.Links[i].Bits)
	}
	slices.SortFunc(out.Links, func(a, b api.LinkHistory) int { return strings.Compare(a.PF, b.PF) })
}

func (n naive) holdings(out *api.History, q answer.HistoryQuery, seen []*model.View, begin time.Time) {
	open := map[string]*api.Holding{}
	var all []*api.Holding
	for _, v := range seen {
		there := map[string]bool{}
		for _, pf := range v.Snapshot.PFs {
			for _, f := range pf.VFs {
				name := f.ID.String()
				if f.Owner == model.OwnerFree {
					continue
				}
				there[name] = true
				if h := open[name]; h != nil && h.ID == string(f.Holder) && h.Owner == string(f.Owner) {
					continue
				} else if h != nil {
					h.To = v.Snapshot.Time
				}
				h := &api.Holding{VF: name, PF: pf.Name, ID: string(f.Holder), Owner: string(f.Owner), From: v.Snapshot.Time}
				for _, vm := range v.Snapshot.VMs {
					if vm.ID == f.Holder {
						h.VM = vm.Name
					}
				}
				open[name] = h
				all = append(all, h)
			}
		}
		for name, h := range open {
			if !there[name] {
				h.To = v.Snapshot.Time
				delete(open, name)
			}
		}
	}
	for _, h := range all {
		if recent(h.To, begin, q.From) && asked(out, q, h.ID) {
			out.Holdings = append(out.Holdings, *h)
		}
	}
	sort.Slice(out.Holdings, func(i, k int) bool {
		a, b := out.Holdings[i], out.Holdings[k]
		return a.VF < b.VF || a.VF == b.VF && a.From.Before(b.From)
	})
}

func recent(end, begin, from time.Time) bool {
	return end.IsZero() || end.After(begin) && end.After(from)
}

func asked(out *api.History, q answer.HistoryQuery, id string) bool {
	return q.VM == "" || slices.ContainsFunc(out.VMs, func(v api.VMHistory) bool { return v.ID == id })
}

func (n naive) moves(out *api.History, q answer.HistoryQuery, begin time.Time) {
	first, last := map[uint64]api.MoveRecord{}, map[uint64]*model.MoveStatus{}
	for _, v := range n {
		for _, s := range slices.Concat(v.Active, v.Recent) {
			if _, known := first[s.ID]; !known {
				reason := answer.ReasonOf(&s.Move.Reason)
				first[s.ID] = api.MoveRecord{ID: s.ID, Reason: &reason, Sentence: answer.Sentence(v, s.Move.VM, s.Move.Reason)}
			}
			last[s.ID] = &s
		}
	}
	for id, r := range first {
		r.Move, r.Steps = answer.MoveOf(last[id]), answer.StepTimes(last[id])
		if recent(r.Move.Ended, begin, q.From) && asked(out, q, r.Move.ID) {
			out.Moves = append(out.Moves, r)
		}
	}
	slices.SortFunc(out.Moves, func(a, b api.MoveRecord) int { return int(a.ID) - int(b.ID) }) //nolint:gosec // few
}
