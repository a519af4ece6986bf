package actuate

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// fakeTaps are taps by name.
type fakeTaps struct {
	index  map[string]int
	stands map[string]tap.Policy
	check  error
}

func (f *fakeTaps) CheckTaps() error { return f.check }

func (f *fakeTaps) UpdateTap(_ context.Context, name string, edit func(*tap.Policy)) (tap.Policy, error) {
	if f.index[name] == 0 {
		return tap.Policy{}, fmt.Errorf("limit tap %s: %w", name, model.ErrGone)
	}
	p := f.stands[name]
	p.Tap, p.Index = name, f.index[name]
	edit(&p)
	f.stands[name] = p
	return p, nil
}

func (f *fakeTaps) TapPolicies(context.Context) (list []tap.Policy, err error) {
	for _, t := range f.stands {
		list = append(list, t)
	}
	return list, nil
}

func (f *fakeTaps) RemoveTap(_ context.Context, tap string) error {
	delete(f.stands, tap)
	return nil
}

// policed is a host with the taps of two NICs; the snapshot shows a third one that is gone.
func policed() (*fakeTaps, *model.Snapshot) {
	f := &fakeTaps{index: map[string]int{"tap1": 11, "tap2": 12}, stands: map[string]tap.Policy{}}
	snap := &model.Snapshot{}
	for n := 1; n <= 3; n++ {
		snap.VMs = append(snap.VMs, model.VM{ID: id(n), NICs: []model.NIC{{Alias: "ua-net0", Tap: fmt.Sprint("tap", n), TapIndex: 10 + n}}})
	}
	return f, snap
}

func policeLimit(n int, dir model.Direction, now, contract model.Rate) model.Limit {
	return model.Limit{LimitKey: model.LimitKey{VM: id(n), NIC: "ua-net0", Path: model.PathVirtio, Dir: dir}, Rate: now, Contract: contract}
}

func TestPolice(t *testing.T) {
	f, snap := policed()
	p := NewPolice(f)
	now, contract := model.Rate{Bits: 5e8, Packets: 7001}, model.Rate{Bits: 1e9}
	good := []model.Limit{policeLimit(1, model.Tx, now, contract), policeLimit(1, model.Rx, model.Rate{}, contract)}
	gone := policeLimit(3, model.Tx, now, contract)
	applied, err := p.Apply(context.Background(), snap, append([]model.Limit{gone}, good...))
	var failed *model.LimitError
	if !errors.As(err, &failed) || failed.Key != gone.LimitKey || !errors.Is(err, model.ErrGone) {
		t.Errorf("error %v, want one about the tap that has gone", err)
	}
	if len(applied) != 2 || applied[0] != good[0] || applied[1] != good[1] {
		t.Errorf("applied %+v, want %+v", applied, good)
	}
	if s := f.stands["tap1"]; s.Tx != (tap.PathRates{Now: now, Contract: contract}) || s.Rx != (tap.PathRates{Contract: contract}) {
		t.Errorf("stands %+v", s)
	}
}

// Lifting the limit of a NIC that is gone succeeds.
func TestPoliceLiftsWhatHasGone(t *testing.T) {
	f, snap := policed()
	lift := policeLimit(3, model.Tx, model.Rate{}, model.Rate{})
	lift.Guarantee = 1e6 // a policer ignores it
	of4 := policeLimit(4, model.Tx, model.Rate{}, model.Rate{})
	if now, err := NewPolice(f).Apply(context.Background(), snap, []model.Limit{lift, of4}); err != nil || len(now) != 2 {
		t.Errorf("applied %v, error %v", now, err)
	}
}

// The tap of that name belongs to another VM by now: no policy remains on it.
func TestPoliceLeavesOthersTapsAlone(t *testing.T) {
	f, snap := policed()
	f.index["tap1"] = 99
	now, err := NewPolice(f).Apply(context.Background(), snap, []model.Limit{policeLimit(1, model.Tx, model.Rate{Bits: 1e6}, model.Rate{})})
	if !errors.Is(err, model.ErrGone) || len(now) != 0 || len(f.stands) != 0 {
		t.Errorf("applied %v, error %v, left %v", now, err, f.stands)
	}
}

func TestCanPolice(t *testing.T) {
	f, snap := policed()
	snap.VMs[1].NICs[0].Tap = ""
	tx := policeLimit(1, model.Tx, model.Rate{}, model.Rate{}).LimitKey
	rx, vf, tree, untapped, away := tx, tx, tx, tx, tx
	rx.Dir, vf.Path, tree.VM, untapped.VM, away.VM = model.Rx, model.PathVF, "", id(2), id(9)
	for key, want := range map[model.LimitKey]model.Tri{
		tx: model.Yes, rx: model.Yes, vf: model.No, tree: model.No, untapped: model.Unknown,
		away: model.Unknown,
	} {
		if got := NewPolice(f).Can(snap, key); got != want {
			t.Errorf("%+v: %v, want %v", key, got, want)
		}
	}
	f.check = errors.New("no BPF file system is mounted")
	if got := NewPolice(f).Can(snap, tx); got != model.Yes {
		t.Errorf("without pins: %v, want yes", got)
	}
	f.check = fmt.Errorf("%w: the kernel is older than Linux 6.6", model.ErrPermanent)
	p := NewPolice(f)
	if got := p.Can(snap, tx); got != model.No || p.Unable() == nil {
		t.Errorf("without TCX: %v, %v; want no and why", got, p.Unable())
	}
	if _, err := p.Apply(context.Background(), snap, []model.Limit{policeLimit(1, model.Tx, model.Rate{Bits: 1},
		model.Rate{})}); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("apply without TCX: %v", err)
	}
}

// A new daemon sees the policies that its predecessor left on taps. It removes those that belong to no VM only when told to sweep: in
// observe mode nothing changes.
func TestPoliceReadsWhatIsInForce(t *testing.T) {
	f, snap := policed()
	contract := model.Rate{Bits: 1e9}
	f.stands["tap1"] = tap.Policy{Tap: "tap1", Tx: tap.PathRates{Contract: contract}}
	f.stands["tap9"] = tap.Policy{Tap: "tap9", Rx: tap.PathRates{Contract: contract}}
	p := NewPolice(f)
	stand, err := p.InPlace(t.Context(), snap)
	if err != nil || len(stand) != 1 || stand[0] != policeLimit(1, model.Tx, model.Rate{}, contract) {
		t.Errorf("%+v, %v", stand, err)
	}
	if len(f.stands) != 2 {
		t.Errorf("looking left %+v", f.stands)
	}
	if err := p.Sweep(t.Context(), snap); err != nil || len(f.stands) != 1 || f.stands["tap1"].Tap == "" {
		t.Errorf("sweeping left %+v, %v", f.stands, err)
	}
}

// A tap that an earlier run directed to a tree is listed although it is not policed, and is directed past the tree when the limit is
// lifted: if its network has no PF any more, nothing else would do that.
func TestPoliceLeadsPastTrees(t *testing.T) {
	f, snap := policed()
	f.stands["tap1"] = tap.Policy{Tap: "tap1", Shaper: 7, Class: 1<<16 | 3}
	p := NewPolice(f)
	stand, err := p.InPlace(t.Context(), snap)
	if err != nil || len(stand) != 1 || stand[0].VM != id(1) || stand[0].Dir != model.Tx || stand[0].Lifts() {
		t.Fatalf("%+v, %v", stand, err)
	}
	lift := policeLimit(1, model.Tx, model.Rate{}, model.Rate{})
	if _, err := p.Apply(t.Context(), snap, []model.Limit{lift}); err != nil || f.stands["tap1"].Shaper != 0 || f.stands["tap1"].Class != 0 {
		t.Errorf("%+v, %v", f.stands["tap1"], err)
	}
}

// A Step of a repair removes what is left of limits and of a switch port.
func TestClearTap(t *testing.T) {
	for kind, want := range map[model.StepKind]string{model.StepClearTap: "vnet7", model.StepClearPort: "port vnet7"} {
		f := newFakeHost(1)
		if err := New(f, f.uplinks(), f, nil).Do(context.Background(), model.Step{Kind: kind, Path: model.PathStep{Tap: "vnet7"}}); err != nil ||
			len(f.cleared) != 1 || f.cleared[0] != want {
			t.Errorf("cleared %q, %v", f.cleared, err)
		}
	}
}

// A function of a virtual PF without a tap is on a vDPA device: its frames cannot be dropped, and Police does not try.
func TestPoliceLeavesVDPAAlone(t *testing.T) {
	f, snap := treeHost()
	nic, key := &snap.VMs[0].NICs[0], guaranteed(1, 0).LimitKey
	p := NewPolice(f)
	for _, c := range []struct {
		tap, virtual string
		want         model.Tri
	}{{"vnet0", "vpf0", model.Yes}, {"", "vpf0", model.No}, {"", "", model.Unknown}} {
		nic.Tap, nic.VirtualPF = c.tap, c.virtual
		if got := p.Can(snap, key); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
