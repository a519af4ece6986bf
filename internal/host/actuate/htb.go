package actuate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/host/htb"
	"sluice/internal/host/kernel"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// Shapers manages HTB trees and directs taps to them.
type Shapers interface {
	Taps
	Shapable(ctx context.Context, tap string, index int) (bool, error)
	SetLocalMACs(ctx context.Context, macs []model.MAC) error
	SetShaper(ctx context.Context, want htb.Shaper) (htb.Shaper, error)
	RemoveShaper(ctx context.Context, pf int) error
	Shapers(ctx context.Context) ([]htb.Shaper, error)
}

var _ Shapers = (*kernel.Host)(nil)

// HTB enforces limits on what VMs send on the virtio path without feedback: the taps behind one PF share an HTB tree, in which each gets
// its guarantee immediately and may use what others leave. A PF has a tree while a Limit without VM is set for it, and the tree then
// includes all of its taps; without a tree, each tap is policed.
//
// Functions of virtual PFs are in no tree: the controller divides their common limit, and each is policed at its share.
//
// A tap that cannot be directed through the tree, because another program filters its ingress, is policed at the rate that takes nothing
// from the guarantees of others.
//
// The tree's limits end with the taps' leases, which a Limit without VM renews for all of them. A tree without taps is harmless; Sweep
// removes it.
type HTB struct {
	kernel Shapers
	made   time.Time

	unable atomic.Pointer[error] // why trees are impossible, nil if they are possible. Read without mu, since Can must not wait for Apply

	mu     sync.Mutex
	trees  map[string]*tree               // by PF
	limits map[model.LimitKey]model.Limit // of taps, as requested
	local  []model.MAC                    // local MACs as last set in the kernel
	swept  bool
}

// tree is the state of a PF's tree.
type tree struct {
	root       model.Limit
	pf         int             // its ifindex
	taps       []string        // taps directed to it
	unshapable map[string]bool // taps that cannot be
}

// NewHTB checks once whether the kernel can direct taps to trees.
func NewHTB(k Shapers) *HTB {
	h := &HTB{kernel: k, made: time.Now(), trees: map[string]*tree{}, limits: map[model.LimitKey]model.Limit{}}
	if err := k.CheckTaps(); errors.Is(err, model.ErrPermanent) {
		h.unable.Store(&err)
	}
	return h
}

// Unable returns why trees are impossible on this host, nil if they are possible.
func (h *HTB) Unable() error {
	if err := h.unable.Load(); err != nil {
		return *err
	}
	return nil
}

// Name returns the name that the kernel's tools use.
func (h *HTB) Name() string { return "htb" }

// Can reports whether the Limit can be enforced, according to the Snapshot.
func (h *HTB) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	switch {
	case key.Path != model.PathVirtio || key.Dir != model.Tx || h.Unable() != nil:
		return model.No
	case key.VM == "":
		pf := snap.FindPF(key.PF)
		return model.TriOf(pf != nil && pf.Index != 0)
	}
	nic := tapOf(snap, key)
	if nic == nil {
		return model.Unknown
	}
	return model.TriOf(nic.VirtualPF == "" && snap.VirtioPF(nic) != nil)
}

// Apply sets the Limits and returns what is then in force. A failure does not stop the rest.
func (h *HTB) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var r results
	h.dropGone(snap)
	byPF := map[string]map[model.LimitKey]model.Limit{}
	for _, limit := range batch {
		if limit.Path != model.PathVirtio || limit.Dir != model.Tx {
			r.add(limit, errors.New("an HTB tree only limits what VMs send on the virtio path"))
			continue
		}
		h.note(limit)
		pf := pfOf(snap, limit.LimitKey)
		if byPF[pf] == nil {
			byPF[pf] = map[model.LimitKey]model.Limit{}
		}
		byPF[pf][limit.LimitKey] = limit
	}
	for _, pf := range slices.Sorted(maps.Keys(byPF)) {
		h.applyTo(ctx, snap, pf, byPF[pf], &r)
	}
	if !h.swept && time.Since(h.made) > model.LimitLease {
		if err := h.sweep(ctx); err == nil {
			h.swept = true
		}
	}
	slices.SortFunc(r.now, func(a, b model.Limit) int { return model.CompareKeys(a.LimitKey, b.LimitKey) })
	return r.now, errors.Join(r.errs...)
}

// pfOf returns the name of the PF whose tree a Limit concerns, "" if there is none.
func pfOf(snap *model.Snapshot, key model.LimitKey) string {
	if key.VM == "" {
		return key.PF
	}
	if nic := tapOf(snap, key); nic != nil {
		if pf := snap.VirtioPF(nic); pf != nil {
			return pf.Name
		}
	}
	return ""
}

// dropGone drops the Limits of NICs that are gone.
func (h *HTB) dropGone(snap *model.Snapshot) {
	maps.DeleteFunc(h.limits, func(key model.LimitKey, _ model.Limit) bool { return tapOf(snap, key) == nil })
}

// note records a requested Limit of a tap.
func (h *HTB) note(limit model.Limit) {
	switch {
	case limit.VM == "":
	case limit.Lifts():
		delete(h.limits, limit.LimitKey)
	default:
		h.limits[limit.LimitKey] = limit
	}
}

// applyTo sets the requested Limits of one PF.
func (h *HTB) applyTo(ctx context.Context, snap *model.Snapshot, name string, asked map[model.LimitKey]model.Limit, r *results) {
	key := model.LimitKey{PF: name, Path: model.PathVirtio, Dir: model.Tx}
	root, whole := asked[key]
	delete(asked, key)
	pf := snap.FindPF(name)
	t := h.trees[name]
	switch {
	case whole && (root.Lifts() || pf == nil):
		err := h.removeTree(ctx, name, t, pf)
		if err == nil && !root.Lifts() {
			err = fmt.Errorf("there is no PF %s: %w", name, model.ErrGone)
		}
		r.add(root, err)
		t = nil
	case whole && t == nil:
		t = &tree{root: root, pf: pf.Index}
		h.trees[name] = t
	case whole:
		t.root, t.pf = root, pf.Index
	}
	if t == nil || pf == nil {
		h.police(ctx, snap, asked, r)
		return
	}
	h.setTree(ctx, snap, pf, t, asked, whole, r)
}

// police limits taps that are in no tree.
func (h *HTB) police(ctx context.Context, snap *model.Snapshot, asked map[model.LimitKey]model.Limit, r *results) {
	for key, limit := range asked {
		now := limit
		var err error
		if nic := tapOf(snap, key); nic != nil {
			now, err = h.lead(ctx, &member{nic: nic, limit: limit}, 0, limit.Bits)
		} else {
			err = fmt.Errorf("limit NIC %s of VM %s: it has no tap: %w", key.NIC, key.VM, model.ErrGone)
		}
		if limit.Lifts() && errors.Is(err, model.ErrGone) {
			err = nil // the limit went with its tap
		}
		r.add(now, err)
	}
}

// lead directs a member's frames to its class in the tree of device, or polices them if device is 0, and renews the lease.
func (h *HTB) lead(ctx context.Context, m *member, device int, bits uint64) (model.Limit, error) {
	set, err := updateTap(ctx, h.kernel, m.nic, m.limit.VM, func(p *tap.Policy) {
		p.Tx = tap.PathRates{Now: model.Rate{Bits: bits, Packets: m.limit.Packets}, Contract: m.limit.Contract}
		p.Shaper, p.Class = device, 0
		if device != 0 {
			p.Class = m.class.Handle()
		}
	})
	now := m.limit
	now.Rate, now.Contract = set.Tx.Now, set.Tx.Contract
	if device != 0 {
		now.Bits = m.limit.Bits // its ceiling in the tree
	}
	return now, err
}

// setTree updates a PF's tree and directs the requested taps to it, or all of them.
func (h *HTB) setTree(ctx context.Context, snap *model.Snapshot, pf *model.PF, t *tree, asked map[model.LimitKey]model.Limit, all bool,
	r *results,
) {
	taps := members(snap, pf, &t.root, h.limits)
	if all {
		t.findUnshapable(ctx, h.kernel, taps)
	}
	set, err := h.kernel.SetShaper(ctx, t.shaper(pf, taps))
	if errors.Is(err, htb.ErrNoShapers) {
		h.unable.Store(&err) // from now on Can returns No, and other enforcers are asked
	}
	if all {
		root := t.root
		root.Rate = model.Rate{Bits: set.Rate + t.outside(taps)}
		r.add(root, errors.Join(err, h.tellLocal(ctx, snap), h.release(ctx, t, taps)))
	}
	for i := range taps {
		m := &taps[i]
		_, wanted := asked[m.limit.LimitKey]
		if !wanted && !all {
			continue
		}
		if l, err := h.join(ctx, t, m, &set); wanted {
			r.add(l, err)
		}
	}
}

// join directs a member to its class if that exists, and polices it otherwise.
func (h *HTB) join(ctx context.Context, t *tree, m *member, set *htb.Shaper) (model.Limit, error) {
	class := set.Class(m.class.ID)
	if t.polices(m) || class == nil {
		return h.lead(ctx, m, 0, m.alone)
	}
	l, err := h.lead(ctx, m, set.Device, 0)
	l.Guarantee = min(l.Guarantee, class.Rate)
	return l, err
}

// polices reports whether a member is outside of the tree: it cannot be directed there, or no class was left for it.
func (t *tree) polices(m *member) bool { return t.unshapable[m.nic.Tap] || m.class.ID == 0 }

// findUnshapable records which taps cannot be directed to the tree.
func (t *tree) findUnshapable(ctx context.Context, k Shapers, taps []member) {
	t.unshapable = map[string]bool{}
	for i := range taps {
		if ok, err := k.Shapable(ctx, taps[i].nic.Tap, taps[i].nic.TapIndex); !ok || err != nil {
			t.unshapable[taps[i].nic.Tap] = true
		}
	}
}

// shaper returns the desired tree.
func (t *tree) shaper(pf *model.PF, taps []member) htb.Shaper {
	all := budget(pf, &t.root)
	s := htb.Shaper{PF: pf.Index, Rate: max(leastRate, all-min(all, t.outside(taps))), Queue: queueOf(max(all, pf.Shared()))}
	for i := range taps {
		if !t.polices(&taps[i]) {
			s.Classes = append(s.Classes, taps[i].class)
		}
	}
	return s
}

// outside returns how much the taps outside of the tree may send in total, in bits/s.
func (t *tree) outside(taps []member) (sum uint64) {
	for i := range taps {
		if t.polices(&taps[i]) {
			sum += taps[i].alone
		}
	}
	return sum
}

// release directs taps that no longer belong to the tree past it, and records the current ones.
func (h *HTB) release(ctx context.Context, t *tree, taps []member) error {
	var errs []error
	now := make([]string, 0, len(taps))
	for i := range taps {
		now = append(now, taps[i].nic.Tap)
	}
	for _, tap := range t.taps {
		if !slices.Contains(now, tap) {
			errs = append(errs, h.bypass(ctx, tap))
		}
	}
	t.taps = now
	return errors.Join(errs...)
}

// bypass directs a tap past any tree. It is not an error if the tap is gone.
func (h *HTB) bypass(ctx context.Context, name string) error {
	_, err := h.kernel.UpdateTap(ctx, name, func(p *tap.Policy) { p.Shaper, p.Class = 0, 0 })
	if errors.Is(err, model.ErrGone) {
		return nil
	}
	return err
}

// removeTree removes a PF's tree after directing its taps past it.
func (h *HTB) removeTree(ctx context.Context, name string, t *tree, pf *model.PF) error {
	var errs []error
	index := 0
	if pf != nil {
		index = pf.Index
	}
	if t != nil {
		index = t.pf
		for _, tap := range t.taps {
			errs = append(errs, h.bypass(ctx, tap))
		}
	}
	if err := errors.Join(errs...); err != nil || index == 0 {
		return err
	}
	delete(h.trees, name)
	return h.kernel.RemoveShaper(ctx, index)
}

// tellLocal sets the MACs whose frames bypass the trees: those of VMs on virtio on the same switch. The filter cannot tell which switch
// a frame is in, so if several have trees, all frames go through them.
func (h *HTB) tellLocal(ctx context.Context, snap *model.Snapshot) error {
	var macs []model.MAC
	networks := map[string]bool{}
	for _, n := range snap.NICs() {
		if pf := snap.VirtioPF(n); n.TapIndex != 0 && n.VF == model.NoVF && pf != nil && h.trees[pf.Name] != nil {
			networks[n.Network] = true
			macs = append(macs, n.MAC)
		}
	}
	if len(networks) > 1 {
		macs = nil
	}
	slices.SortFunc(macs, func(a, b model.MAC) int { return slices.Compare(a[:], b[:]) })
	if h.local != nil && slices.Equal(macs, h.local) {
		return nil
	}
	err := h.kernel.SetLocalMACs(ctx, macs)
	if err == nil {
		h.local = append([]model.MAC{}, macs...)
	}
	return err
}

// Sweep removes trees that an earlier run left and to which no tap is directed any more.
func (h *HTB) Sweep(ctx context.Context, _ *model.Snapshot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sweep(ctx)
}

func (h *HTB) sweep(ctx context.Context) error {
	found, err := h.kernel.Shapers(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	policies, err := h.kernel.TapPolicies(ctx)
	if err != nil {
		return err
	}
	used := map[int]bool{}
	for _, t := range h.trees {
		used[t.pf] = true
	}
	var errs []error
	for _, s := range found {
		leads := func(p tap.Policy) bool { return p.LeadsTo(s.Device) }
		if !used[s.PF] && !slices.ContainsFunc(policies, leads) {
			errs = append(errs, h.kernel.RemoveShaper(ctx, s.PF))
		}
	}
	return errors.Join(errs...)
}
