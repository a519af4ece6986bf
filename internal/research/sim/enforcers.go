package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// place is where a Limit stands.
type place struct {
	by  string
	key model.LimitKey
}

// held is a Limit in force.
type held struct {
	model.Limit
	until time.Time // of the lease: then only the contract counts
}

func (h *held) rate(now time.Time) model.Rate {
	if now.Before(h.until) {
		return h.InForce()
	}
	return h.Contract
}

// The enforcers of a simulated host, but for max_tx_rate.
const (
	byTree   = "htb"
	byPolice = "police"
	byGuest  = "guest-htb"
)

// Enforcers are those of the host, in order of preference: the first that can have a Limit is to have it.
func (w *World) Enforcers() []loop.Enforcer {
	return []loop.Enforcer{w.Limiter(), &leased{w, byGuest}, &leased{w, byTree}, &leased{w, byPolice}}
}

// leased is an enforcer whose Limits end by themselves.
type leased struct {
	w    *World
	name string
}

// Name implements loop.Enforcer.
func (l *leased) Name() string { return l.name }

// Can implements loop.Enforcer.
func (l *leased) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	switch {
	case l.name == byGuest && key.Path == model.PathVF && key.Dir == model.Tx:
		if vm := snap.FindVM(key.VM); vm != nil {
			return model.TriOf(vm.InGuest == model.Yes)
		}
	case l.name == byTree && key.Path == model.PathVirtio && key.Dir == model.Tx && !isFunction(snap, key):
		return model.TriOf(l.w.traffic != nil && l.w.traffic.Tree)
	case l.name == byPolice && key.Path == model.PathVirtio && key.VM != "":
		return model.Yes
	}
	return model.No
}

// isFunction says whether a Limit is about a function of a virtual PF, which is in no tree.
func isFunction(snap *model.Snapshot, key model.LimitKey) bool {
	vm := snap.FindVM(key.VM)
	if vm == nil {
		return false
	}
	n := vm.FindNIC(key.NIC)
	return n != nil && n.VirtualPF != ""
}

// Apply implements loop.Enforcer.
func (l *leased) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	var errs []error
	for _, limit := range batch {
		if err := l.apply(limit); err != nil {
			errs = append(errs, &model.LimitError{Key: limit.LimitKey, Err: err})
			continue
		}
		now = append(now, limit)
	}
	return now, errors.Join(errs...)
}

func (l *leased) apply(limit model.Limit) error {
	if l.w.FailLimit != nil {
		if err := l.w.FailLimit(limit); err != nil {
			return err
		}
	}
	if limit.VM != "" {
		v := l.w.vm(limit.VM)
		if v == nil || !slices.ContainsFunc(v.NICs, func(n *NIC) bool { return n.Alias == limit.NIC }) {
			return fmt.Errorf("VM %s has no NIC %s any more", limit.VM, limit.NIC)
		}
		if l.name == byGuest && (!v.InGuest || v.Blind || !v.listens()) {
			return fmt.Errorf("the guest agent of %s does not answer", v.Name)
		}
	}
	at := place{l.name, limit.LimitKey}
	if limit.Lifts() {
		delete(l.w.traffic.held, at)
		return nil
	}
	l.w.traffic.held[at] = &held{limit, l.w.Now.Add(model.LimitLease)}
	return nil
}

// forget lifts what stood on a VM that has gone, or in a guest that begins anew.
func (w *World) forget(v *VM, inGuestOnly bool) {
	if w.traffic == nil {
		return
	}
	for at := range w.traffic.held {
		if at.key.VM == v.ID && (at.by == byGuest || !inGuestOnly) {
			delete(w.traffic.held, at)
		}
	}
}

// allowed is what the limits in force let a NIC send with packets of a size, bits/s.
func (w *World) allowed(n *NIC, size float64) float64 {
	most := math.Inf(1)
	take := func(r model.Rate) {
		if r.Bits > 0 {
			most = min(most, float64(r.Bits))
		}
		if r.Packets > 0 && size > 0 {
			most = min(most, float64(r.Packets)*size)
		}
	}
	on := func(by string, path model.Path) {
		if h := w.traffic.held[place{by, model.LimitKey{VM: n.VM.ID, NIC: n.Alias, Path: path, Dir: model.Tx}}]; h != nil {
			take(h.rate(w.Now))
		}
	}
	if !n.VM.Lies {
		on(byGuest, model.PathVF) // it stands on the master of both paths
	}
	if vf := w.vf(n.hasVF); n.open && vf != nil {
		take(model.Rate{Bits: vf.MaxTxRate})
		return most
	}
	on(byTree, model.PathVirtio)
	on(byPolice, model.PathVirtio)
	return most
}

// standing lists the Limits that stand and that no Snapshot shows.
func (w *World) standing() (out []model.Limit) {
	for _, h := range w.traffic.held {
		out = append(out, h.Limit)
	}
	slices.SortFunc(out, func(a, b model.Limit) int { return model.CompareKeys(a.LimitKey, b.LimitKey) })
	return out
}

// Stands is what limits a NIC on a path beside the guest's own limiter, and whether anything does.
func (w *World) Stands(n *NIC, path model.Path) (model.Rate, bool) {
	if path == model.PathVF {
		vf := w.vf(n.hasVF)
		if vf == nil {
			return model.Rate{}, false
		}
		return model.Rate{Bits: vf.MaxTxRate}, vf.MaxTxRate > 0
	}
	for _, by := range []string{byTree, byPolice} {
		if h := w.traffic.held[place{by, model.LimitKey{VM: n.VM.ID, NIC: n.Alias, Path: path, Dir: model.Tx}}]; h != nil {
			return h.rate(w.Now), !h.rate(w.Now).IsZero()
		}
	}
	return model.Rate{}, false
}

// trees shares what each PF's tree of taps may send: guarantees first, then the rest by flows.
func (t *Traffic) trees(w *World) {
	if !t.Tree {
		return
	}
	for _, p := range w.pfs {
		root := t.held[place{byTree, model.LimitKey{PF: p.Name, Path: model.PathVirtio, Dir: model.Tx}}]
		if root == nil || root.rate(w.Now).Bits == 0 {
			continue
		}
		rest := float64(root.rate(w.Now).Bits)
		s := t.sharing.reset()
		for i := range t.flows {
			f := &t.flows[i]
			if f.pf != p || f.nic.open || f.nic.Function != nil {
				continue
			}
			first := 0.0
			if h := t.held[place{byTree, model.LimitKey{VM: f.nic.VM.ID, NIC: f.nic.Alias, Path: model.PathVirtio, Dir: model.Tx}}]; h != nil &&
				w.Now.Before(h.until) {
				first = min(f.rate, float64(h.Guarantee))
			}
			s.add(f, f.weight, f.rate-first)
			rest -= first
		}
		for k, bits := range s.share(max(0, rest)) {
			s.of[k].rate += bits - s.want[k]
		}
	}
}
