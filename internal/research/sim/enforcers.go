package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// place identifies a Limit in force by its enforcer and key.
type place struct {
	by  string
	key model.LimitKey
}

// held is a Limit in force.
type held struct {
	model.Limit
	until time.Time // end of the lease; afterwards only the contract counts
}

func (h *held) rate(now time.Time) model.Rate {
	if now.Before(h.until) {
		return h.InForce()
	}
	return h.Contract
}

// The enforcers of a simulated host except max_tx_rate.
const (
	byTree   = "htb"
	byPolice = "police"
	byGuest  = "guest-htb"
)

// Enforcers returns the enforcers of the host in order of preference: the first that can apply a Limit gets it.
func (w *World) Enforcers() []loop.Enforcer {
	return []loop.Enforcer{limiter{w}, &leased{w, byGuest}, &leased{w, byTree}, &leased{w, byPolice}}
}

// leased is an enforcer whose Limits expire.
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

// isFunction reports whether a Limit belongs to a function of a virtual PF, which is in no tree.
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
	return l.w.applyEach(batch, l.apply)
}

// applyEach applies Limits one by one and returns those now in force.
func (w *World) applyEach(batch []model.Limit, apply func(*model.Limit) error) (now []model.Limit, err error) {
	var errs []error
	for _, limit := range batch {
		var err error
		if w.FailLimit != nil {
			err = w.FailLimit(limit)
		}
		if err == nil {
			err = apply(&limit)
		}
		if err != nil {
			errs = append(errs, &model.LimitError{Key: limit.LimitKey, Err: err})
			continue
		}
		now = append(now, limit)
	}
	return now, errors.Join(errs...)
}

func (l *leased) apply(limit *model.Limit) error {
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
	l.w.traffic.held[at] = &held{*limit, l.w.Now.Add(model.LimitLease)}
	return nil
}

// forget drops the Limits of a VM that is gone, or only those inside a guest that restarts.
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

// virtioLimit returns the Limit of a kind in force on a NIC's tap, nil if there is none.
func (w *World) virtioLimit(by string, n *NIC) *held {
	return w.traffic.held[place{by, model.LimitKey{VM: n.VM.ID, NIC: n.Alias, Path: model.PathVirtio, Dir: model.Tx}}]
}

// allowed returns what the limits in force let a NIC send with packets of a given size, in bits/s.
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
	// The guest's own limiter is on the master of both paths.
	inGuest := place{byGuest, model.LimitKey{VM: n.VM.ID, NIC: n.Alias, Path: model.PathVF, Dir: model.Tx}}
	if h := w.traffic.held[inGuest]; h != nil && !n.VM.Lies {
		take(h.rate(w.Now))
	}
	if vf := w.vf(n.hasVF); n.open && vf != nil {
		take(model.Rate{Bits: vf.MaxTxRate, Packets: vf.MaxPackets})
		return most
	}
	for _, by := range []string{byTree, byPolice} {
		if h := w.virtioLimit(by, n); h != nil {
			take(h.rate(w.Now))
		}
	}
	return most
}

// standing lists the Limits in force that no Snapshot shows.
func (w *World) standing() (out []model.Limit) {
	for _, h := range w.traffic.held {
		out = append(out, h.Limit)
	}
	slices.SortFunc(out, func(a, b model.Limit) int { return model.CompareKeys(a.LimitKey, b.LimitKey) })
	return out
}

// trees shares what each PF's tree of taps may send: guarantees first, then the rest by weight, however many flows a tap has.
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
			first, weight := 0.0, 1.0
			if h := w.virtioLimit(byTree, f.nic); h != nil {
				if weight = cmp.Or(h.Weight, weight); w.Now.Before(h.until) {
					first = min(f.rate, float64(h.Guarantee))
				}
			}
			s.add(f, weight, f.rate-first)
			rest -= first
		}
		for k, bits := range s.share(max(0, rest)) {
			s.of[k].rate += bits - s.want[k]
		}
	}
}
