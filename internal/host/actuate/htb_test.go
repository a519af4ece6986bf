package actuate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/host/htb"
	"sluice/internal/host/tap"
	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

// fakeShapers are taps and trees.
type fakeShapers struct {
	fakeTaps
	trees  map[int]htb.Shaper // by PF
	barred map[int]bool
	local  []model.MAC
	fail   error

	entered, hold chan struct{} // if set, SetShaper closes the first, and waits until the second is closed
}

func (f *fakeShapers) TapPolicies(context.Context) ([]tap.Policy, error) {
	var all []tap.Policy
	for _, p := range f.stands {
		p.Leased, p.Detached = true, model.No
		all = append(all, p)
	}
	return all, nil
}

func (f *fakeShapers) Shapable(_ context.Context, _ string, index int) (bool, error) {
	return !f.barred[index], nil
}

func (f *fakeShapers) SetLocalMACs(_ context.Context, macs []model.MAC) error {
	f.local = macs
	return nil
}

func (f *fakeShapers) SetShaper(_ context.Context, want htb.Shaper) (htb.Shaper, error) {
	if f.hold != nil {
		close(f.entered)
		<-f.hold
	}
	if f.fail != nil {
		return htb.Shaper{}, f.fail
	}
	want.Device = 1000 + want.PF
	want.Classes = slices.Clone(want.Classes)
	slices.SortFunc(want.Classes, func(a, b htb.ShaperClass) int { return int(a.ID) - int(b.ID) })
	f.trees[want.PF] = want
	return want, nil
}

func (f *fakeShapers) RemoveShaper(_ context.Context, pf int) error {
	for tap, p := range f.stands {
		if p.Shaper == 1000+pf {
			return fmt.Errorf("frames of %s would be lost", tap)
		}
	}
	delete(f.trees, pf)
	return nil
}

func (f *fakeShapers) Shapers(context.Context) (all []htb.Shaper, err error) {
	for _, s := range f.trees {
		all = append(all, s)
	}
	return all, nil
}

// treeHost is a host with three VMs behind pf0 (ifindex 2), and one behind pf1 (3).
func treeHost() (*fakeShapers, *model.Snapshot) {
	f := &fakeShapers{
		fakeTaps: fakeTaps{index: map[string]int{}, stands: map[string]tap.Policy{}}, trees: map[int]htb.Shaper{},
		barred: map[int]bool{},
	}
	snap := &model.Snapshot{PFs: []model.PF{
		{Name: "pf0", Index: 2, Network: "br0", Managed: true, Speed: 10e9},
		{Name: "pf1", Index: 3, Network: "br1", Managed: true, Speed: 10e9},
	}}
	for n := 1; n <= 4; n++ {
		network := "br0"
		if n == 4 {
			network = "br1"
		}
		nic := model.NIC{Alias: "ua-net0", MAC: mac(n), Tap: tapName(n), TapIndex: 10 + n, Network: network}
		f.index[nic.Tap] = nic.TapIndex
		snap.VMs = append(snap.VMs, model.VM{ID: id(n), NICs: []model.NIC{nic}})
	}
	return f, snap
}

func rootLimit(pf string, bits uint64) model.Limit {
	return model.Limit{LimitKey: model.LimitKey{PF: pf, Path: model.PathVirtio, Dir: model.Tx}, Rate: model.Rate{Bits: bits}}
}

// guaranteed is a Limit of VM n with a guarantee and packets/s.
func guaranteed(n int, bits uint64) model.Limit {
	l := policeLimit(n, model.Tx, model.Rate{Packets: 9000}, model.Rate{Bits: 8e9})
	l.Guarantee = bits
	return l
}

// classOf returns the class for frames of that priority, or nil.
func classOf(s *htb.Shaper, handle uint32) *htb.ShaperClass {
	for i := range s.Classes {
		if s.Classes[i].Handle() == handle {
			return &s.Classes[i]
		}
	}
	return nil
}

func TestHTB(t *testing.T) {
	f, snap := treeHost()
	h := NewHTB(f)
	batch := []model.Limit{rootLimit("pf0", 5e9), guaranteed(1, 2e9)}
	now, err := h.Apply(t.Context(), snap, batch)
	if err != nil || len(now) != 2 || now[0] != batch[0] || now[1] != batch[1] {
		t.Fatalf("applied %+v, %v", now, err)
	}
	s := f.trees[2]
	if s.Rate != 5e9 || len(s.Classes) != 3 || len(f.trees) != 1 {
		t.Fatalf("trees %+v", f.trees)
	}
	for n := 1; n <= 3; n++ {
		p := f.stands[tapName(n)]
		c := classOf(&s, p.Class)
		if p.Shaper != s.Device || c == nil || p.Tx.Now.Bits != 0 {
			t.Fatalf("tap%d is led to %d:%x: %+v", n, p.Shaper, p.Class, p)
		}
		switch {
		case n == 1 && (c.Rate != 2e9 || c.Ceil != 8e9 || p.Tx.Now.Packets != 9000 || p.Tx.Contract.Bits != 8e9):
			t.Errorf("the guaranteed one has %+v and %+v", c, p)
		case n != 1 && (c.Rate > 1e8 || c.Ceil != 10e9):
			t.Errorf("one without a guarantee has %+v", c)
		}
	}
	if f.stands[tapName(4)].Shaper != 0 || len(f.local) != 3 {
		t.Errorf("tap4 %+v, local %v", f.stands[tapName(4)], f.local)
	}

	// One class changes; the others keep their limits.
	if now, err = h.Apply(t.Context(), snap, []model.Limit{guaranteed(2, 1e9)}); err != nil || len(now) != 1 || now[0].Guarantee != 1e9 {
		t.Errorf("applied %+v, %v", now, err)
	}
	s = f.trees[2]
	if classOf(&s, f.stands[tapName(2)].Class).Rate != 1e9 || classOf(&s, f.stands[tapName(1)].Class).Rate != 2e9 {
		t.Errorf("tree %+v", s)
	}

	// A tap that moves to another bridge leaves the tree, and a new one gets a class.
	snap.VMs[1].NICs[0].Network = "br1"
	if _, err = h.Apply(t.Context(), snap, batch[:1]); err != nil || len(f.trees[2].Classes) != 2 || f.stands[tapName(2)].Shaper != 0 {
		t.Errorf("after a tap left: %+v, %+v, %v", f.trees[2], f.stands[tapName(2)], err)
	}

	// Without its root there is no tree, and contracts are policed. The fake would lose frames of taps that were still directed there.
	stop := []model.Limit{rootLimit("pf0", 0), policeLimit(1, model.Tx, model.Rate{}, model.Rate{Bits: 8e9})}
	if now, err = h.Apply(t.Context(), snap, stop); err != nil || len(now) != 2 || len(f.trees) != 0 {
		t.Errorf("lifted: %+v, %v, trees %+v", now, err, f.trees)
	}
	if p := f.stands[tapName(1)]; p.Shaper != 0 || p.Tx != (tap.PathRates{Contract: model.Rate{Bits: 8e9}}) {
		t.Errorf("what is left on tap1: %+v", p)
	}
}

// A weight alone sets a class's turn, and a Limit without it takes that back.
func TestHTBOfWeights(t *testing.T) {
	f, snap := treeHost()
	h := NewHTB(f)
	for _, weight := range []float64{5, 0} {
		l := policeLimit(1, model.Tx, model.Rate{}, model.Rate{})
		l.Weight = weight
		if now, err := h.Apply(t.Context(), snap, []model.Limit{rootLimit("pf0", 5e9), l}); err != nil || len(now) != 2 || now[1] != l {
			t.Fatalf("applied %+v, %v", now, err)
		}
		s := f.trees[2]
		one, two := classOf(&s, f.stands[tapName(1)].Class), classOf(&s, f.stands[tapName(2)].Class)
		if want := max(1, weight); float64(one.Quantum) != want*float64(two.Quantum) {
			t.Errorf("weight %v: %+v beside %+v", weight, one, two)
		}
	}
}

// Another program filters the ingress of tap2: it stays out of the tree, and leaves the others their guarantees.
func TestHTBBesideForeignFilters(t *testing.T) {
	f, snap := treeHost()
	f.barred[12] = true
	h := NewHTB(f)
	if _, err := h.Apply(t.Context(), snap, []model.Limit{rootLimit("pf0", 6e9), guaranteed(1, 3e9)}); err != nil {
		t.Fatal(err)
	}
	p, s := f.stands[tapName(2)], f.trees[2]
	if p.Shaper != 0 || p.Tx.Now.Bits < 9e8 || p.Tx.Now.Bits > 11e8 || s.Rate+p.Tx.Now.Bits != 6e9 || len(s.Classes) != 2 {
		t.Errorf("tap2 %+v, tree %+v; want it policed at its part of the 3 Gbit/s that nobody is promised, outside of the tree", p, s)
	}
}

func TestHTBWhereThereCanBeNone(t *testing.T) {
	f, snap := treeHost()
	f.fail = fmt.Errorf("set shaper: %w", htb.ErrNoShapers)
	h := NewHTB(f)
	root, one := rootLimit("pf0", 6e9), guaranteed(1, 3e9)
	if h.Can(snap, one.LimitKey) != model.Yes || h.Can(snap, root.LimitKey) != model.Yes {
		t.Error("cannot before it was tried")
	}
	now, err := h.Apply(t.Context(), snap, []model.Limit{root, one})
	var failed *model.LimitError
	if !errors.As(err, &failed) || failed.Key != root.LimitKey ||
		!slices.ContainsFunc(now, func(l model.Limit) bool { return l.VM == id(1) && l.Bits >= 3e9 }) {
		t.Errorf("applied %+v, error %v; want the tap policed and an error about the tree", now, err)
	}
	if h.Can(snap, one.LimitKey) != model.No || h.Can(snap, root.LimitKey) != model.No || h.Unable() == nil {
		t.Error("can after it was tried")
	}
}

func TestCanHTB(t *testing.T) {
	f, snap := treeHost()
	snap.VMs[1].NICs[0].Tap, snap.VMs[2].NICs[0].Network = "", "lonely"
	h := NewHTB(f)
	tx, away, lonely, root := guaranteed(1, 0).LimitKey, guaranteed(2, 0).LimitKey, guaranteed(3, 0).LimitKey, rootLimit("pf0", 0).LimitKey
	rx, vf, none := tx, tx, rootLimit("pf9", 0).LimitKey
	rx.Dir, vf.Path = model.Rx, model.PathVF
	for key, want := range map[model.LimitKey]model.Tri{
		tx: model.Yes, away: model.Unknown, lonely: model.No, root: model.Yes, rx: model.No,
		vf: model.No, none: model.No,
	} {
		if got := h.Can(snap, key); got != want {
			t.Errorf("%+v: %v, want %v", key, got, want)
		}
	}
}

// A tree that an earlier run left is removed once no tap is directed to it.
func TestSweep(t *testing.T) {
	f, snap := treeHost()
	f.trees[2], f.trees[3], f.trees[9] = htb.Shaper{PF: 2, Device: 1002}, htb.Shaper{PF: 3, Device: 1003}, htb.Shaper{PF: 9, Device: 1009}
	f.stands[tapName(4)] = tap.Policy{Tap: tapName(4), Shaper: 1003}
	h := NewHTB(f)
	if _, err := h.Apply(t.Context(), snap, []model.Limit{rootLimit("pf0", 5e9)}); err != nil {
		t.Fatal(err)
	}
	if err := h.Sweep(t.Context(), snap); err != nil || len(f.trees) != 2 || f.trees[9].Device != 0 {
		t.Errorf("left %+v, %v; want the one in use and the one that a tap is led to", f.trees, err)
	}
}

// The members' sum never exceeds the budget, and all get their guarantees if that is feasible.
func TestShareProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "taps")
		budget := rapid.Uint64Range(1e8, 1e11).Draw(t, "budget")
		speed := max(budget, rapid.Uint64Range(1e8, 1e11).Draw(t, "speed"))
		all := make([]member, n)
		var promised uint64
		for i := range all {
			m := &all[i]
			m.nic = &model.NIC{TapIndex: 1 + rapid.IntRange(0, 1<<20).Draw(t, "ifindex")}
			m.limit.Guarantee = rapid.Uint64Range(0, budget/uint64(n)*2).Draw(t, "guarantee")
			m.limit.Contract.Bits = rapid.Uint64Range(0, speed).Draw(t, "limit")
			m.limit.Weight = rapid.Float64Range(0, 10).Draw(t, "weight")
			promised += max(leastRate, m.limit.Guarantee)
		}
		number(all)
		share(all, budget, speed)
		seen := map[uint16]bool{}
		var rates, alone uint64
		for i := range all {
			m := &all[i]
			if seen[m.class.ID] || m.class.ID < 1 || m.class.ID > htb.MostShaped {
				t.Fatalf("class %d is used twice, or not free", m.class.ID)
			}
			seen[m.class.ID] = true
			rates, alone = rates+m.class.Rate, alone+m.alone
			if m.class.Rate > m.class.Ceil || m.class.Rate < leastRate || m.class.Quantum < turn {
				t.Fatalf("%+v", m.class)
			}
			if c := m.limit.Contract.Bits; c >= leastRate && m.class.Ceil > c {
				t.Fatalf("ceiling %d above the limit of %d", m.class.Ceil, c)
			}
			if g := min(m.limit.Guarantee, m.class.Ceil); promised+leastRate <= budget && m.class.Rate < g {
				t.Fatalf("has %d of the %d that it is promised", m.class.Rate, g)
			}
		}
		if most := budget + uint64(n)*leastRate; rates > most || alone > most {
			t.Fatalf("%d bit/s in all, %d if all were policed, of %d", rates, alone, budget)
		}
	})
}

// The controller divides the limit of a virtual PF's functions: none is in a tree, where each would be a separate sender.
func TestHTBLeavesFunctionsOut(t *testing.T) {
	f, snap := treeHost()
	h := NewHTB(f)
	nic := &snap.VMs[1].NICs[0]
	nic.VirtualPF = "vpf0"
	if can := h.Can(snap, guaranteed(2, 0).LimitKey); can != model.No {
		t.Errorf("can have the limit of a function: %v", can)
	}
	if _, err := h.Apply(t.Context(), snap, []model.Limit{rootLimit("pf0", 5e9), guaranteed(1, 2e9)}); err != nil {
		t.Fatal(err)
	}
	if p, led := f.stands[tapName(2)]; led || len(f.trees[2].Classes) != 2 {
		t.Errorf("tree %+v, the function's tap %+v", f.trees[2], p)
	}
}

// TestHTBWithMoreTapsThanClasses: taps without a class are policed at what the tree leaves for them.
func TestHTBWithMoreTapsThanClasses(t *testing.T) {
	const taps = htb.MostShaped + 3
	f, snap := treeHost()
	snap.VMs = nil
	for n := 1; n <= taps; n++ {
		nic := model.NIC{Alias: "ua-net0", Tap: tapName(n), TapIndex: 10 + n, Network: "br0"}
		f.index[nic.Tap] = nic.TapIndex
		snap.VMs = append(snap.VMs, model.VM{ID: id(n), NICs: []model.NIC{nic}})
	}
	if _, err := NewHTB(f).Apply(t.Context(), snap, []model.Limit{rootLimit("pf0", 5e9)}); err != nil {
		t.Fatal(err)
	}
	s := f.trees[2]
	var policed uint64
	for n := 1; n <= taps; n++ {
		p := f.stands[tapName(n)]
		switch last := n > htb.MostShaped; {
		case last && (p.Shaper != 0 || p.Tx.Now.Bits == 0):
			t.Errorf("tap%d, which no class is left for, has %+v", n, p)
		case !last && p.Shaper != s.Device:
			t.Errorf("tap%d is not in the tree: %+v", n, p)
		}
		policed += p.Tx.Now.Bits
	}
	if len(s.Classes) != htb.MostShaped || s.Rate+policed > 5e9 {
		t.Errorf("%d classes of %d bits/s, and %d policed beside them", len(s.Classes), s.Rate, policed)
	}
}

// A slow kernel call does not block Can: the placement loop calls it at each Snapshot.
func TestCanDoesNotWaitForApply(t *testing.T) {
	f, snap := treeHost()
	f.entered, f.hold = make(chan struct{}), make(chan struct{})
	h := NewHTB(f)
	applied, asked := make(chan error, 1), make(chan model.Tri, 1)
	go func() {
		_, err := h.Apply(t.Context(), snap, []model.Limit{rootLimit("pf0", 5e9), guaranteed(1, 2e9)})
		applied <- err
	}()
	<-f.entered
	go func() { asked <- h.Can(snap, guaranteed(1, 0).LimitKey) }()
	select {
	case can := <-asked:
		if can != model.Yes {
			t.Errorf("can be limited: %s", can)
		}
	case <-time.After(testkit.Time(3 * time.Second)):
		t.Error("Can waits for Apply")
	}
	close(f.hold)
	if err := <-applied; err != nil {
		t.Error(err)
	}
}
