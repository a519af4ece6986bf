package actuate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/model"
)

// fakeGuests keep the limits that were last set. Those in hung never answer.
type fakeGuests struct {
	now    map[model.VMID]string
	hung   map[model.VMID]bool
	fails  map[model.VMID]error
	left   map[model.VMID]model.Rate // by an earlier run
	lifted int
}

func newFakeGuests() *fakeGuests {
	return &fakeGuests{now: map[model.VMID]string{}, hung: map[model.VMID]bool{}, fails: map[model.VMID]error{}}
}

func (f *fakeGuests) Limit(ctx context.Context, vm model.VMID, mac model.MAC, now, contract model.Rate) error {
	if f.hung[vm] {
		<-ctx.Done()
		return ctx.Err()
	}
	f.now[vm] = fmt.Sprintf("%s %s/%s", mac, now, contract)
	return f.fails[vm]
}

func (f *fakeGuests) Lift(context.Context, model.VMID, model.MAC) error {
	f.lifted++
	return nil
}

func (f *fakeGuests) InForce(_ context.Context, vm model.VMID, _ model.MAC) (model.Rate, error) {
	if f.fails[vm] != nil {
		return model.Rate{}, f.fails[vm]
	}
	return f.left[vm], nil
}

func (f *fakeGuests) Forget(func(model.VMID) bool) {}

func guestSnap() *model.Snapshot {
	s := &model.Snapshot{}
	for n := 1; n <= 3; n++ {
		s.VMs = append(s.VMs, model.VM{
			ID: id(n), Ready: model.Yes, InGuest: model.Yes,
			NICs: []model.NIC{{Alias: "ua-net0", MAC: mac(n), Failover: model.FailoverTeaming}},
		})
	}
	return s
}

func TestGuestHTBCan(t *testing.T) {
	g := NewGuestHTB(newFakeGuests())
	key := limitOf(1, 0).LimitKey
	for name, c := range map[string]struct {
		edit func(*model.Snapshot, *model.LimitKey)
		want model.Tri
	}{
		"can":             {func(*model.Snapshot, *model.LimitKey) {}, model.Yes},
		"not asked yet":   {func(s *model.Snapshot, _ *model.LimitKey) { s.VMs[0].InGuest = model.Unknown }, model.Unknown},
		"exec is blocked": {func(s *model.Snapshot, _ *model.LimitKey) { s.VMs[0].InGuest = model.No }, model.No},
		"no agent":        {func(s *model.Snapshot, _ *model.LimitKey) { s.VMs[0].Ready = model.Unknown }, model.No},
		"no failover":     {func(s *model.Snapshot, _ *model.LimitKey) { s.VMs[0].NICs[0].Failover = "" }, model.No},
		"no such NIC":     {func(_ *model.Snapshot, k *model.LimitKey) { k.NIC = "x" }, model.No},
		"no such VM":      {func(_ *model.Snapshot, k *model.LimitKey) { k.VM = id(9) }, model.Unknown},
		"virtio":          {func(_ *model.Snapshot, k *model.LimitKey) { k.Path = model.PathVirtio }, model.No},
		"receives":        {func(_ *model.Snapshot, k *model.LimitKey) { k.Dir = model.Rx }, model.No},
	} {
		s, k := guestSnap(), key
		c.edit(s, &k)
		if got := g.Can(s, k); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestGuestHTB(t *testing.T) {
	f := newFakeGuests()
	g := NewGuestHTB(f)
	apply := func(l ...model.Limit) ([]model.Limit, error) { return g.Apply(context.Background(), guestSnap(), l) }
	with := func(n int, now, contract model.Rate) model.Limit {
		l := limitOf(n, 0)
		l.Rate, l.Contract, l.Guarantee = now, contract, 7
		return l
	}
	f.fails[id(2)] = errors.New("its qdisc is somebody else's")
	now, err := apply(with(1, model.Rate{Bits: 5e6, Packets: 3000}, model.Rate{Bits: 1e6}), with(2, model.Rate{Bits: 1e6}, model.Rate{}),
		with(9, model.Rate{Bits: 1e6}, model.Rate{}), with(8, model.Rate{}, model.Rate{}))
	if got := f.now[id(1)]; got != mac(1).String()+" 1Mbit 3kpps/1Mbit" {
		t.Errorf("VM 1 has %q", got)
	}
	var one *model.LimitError
	if !errors.As(err, &one) || !strings.Contains(err.Error(), "somebody else's") || !errors.Is(err, model.ErrGone) {
		t.Errorf("error %v, want one about VM 2 and one about VM 9", err)
	}
	if len(now) != 2 { // VM 1, and VM 8, which is gone together with its limit
		t.Errorf("applied %+v", now)
	}
	if _, err := apply(with(1, model.Rate{}, model.Rate{})); err != nil || f.now[id(1)] != mac(1).String()+" /" || f.lifted != 0 {
		t.Errorf("lifted: %v, %q, %d", err, f.now[id(1)], f.lifted)
	}
	if _, err := apply(with(3, model.Rate{}, model.Rate{})); err != nil || f.lifted != 1 {
		t.Errorf("what an earlier run may have left: %v, %d lifts", err, f.lifted)
	}
}

// A guest that hangs delays its batch by five seconds and gets no limit; the runner gives each VM its own batches.
func TestGuestHTBHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGuests()
		f.hung[id(1)] = true
		start := time.Now()
		now, err := NewGuestHTB(f).Apply(t.Context(), guestSnap(), []model.Limit{limitOf(1, 1e6), limitOf(2, 1e6)})
		var one *model.LimitError
		if took := time.Since(start); took != guestLimit || len(now) != 1 || !errors.As(err, &one) || one.Key.VM != id(1) {
			t.Errorf("applied %v in %s: %v", now, took, err)
		}
	})
}

// Contracts that an earlier run left are found, even if some guests do not answer.
func TestGuestHTBInPlace(t *testing.T) {
	f := newFakeGuests()
	f.left = map[model.VMID]model.Rate{id(1): {Bits: 5e6}, id(2): {Bits: 1}, id(3): {}}
	f.fails[id(2)] = errors.New("no answer")
	snap := guestSnap()
	for i := range snap.VMs {
		snap.VMs[i].State, snap.VMs[i].InGuest = model.VMRunning, model.Unknown
	}
	want := limitOf(1, 0)
	want.Contract = model.Rate{Bits: 5e6}
	if got, err := NewGuestHTB(f).InPlace(t.Context(), snap); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
}
