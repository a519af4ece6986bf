package observe

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// askedAbility is an Abilities that answers by VM and counts the questions.
type askedAbility struct {
	n  map[model.VMID]*atomic.Int32
	of func(ctx context.Context, vm model.VMID) guest.Ability
}

func (a *askedAbility) Ability(ctx context.Context, vm model.VMID) guest.Ability {
	a.n[vm].Add(1)
	return a.of(ctx, vm)
}

func TestLimitsInGuests(t *testing.T) {
	f := newFakeWorld()
	a := &askedAbility{n: map[model.VMID]*atomic.Int32{}}
	for n := 1; n <= 5; n++ {
		a.n[f.addVM(n, "br0").ID] = &atomic.Int32{}
	}
	f.dom(3).Ready = model.No
	f.dom(4).NICs[0].Failover = model.FailoverNone
	hung := f.dom(5).ID
	a.of = func(ctx context.Context, vm model.VMID) guest.Ability {
		switch vm {
		case f.dom(1).ID:
			return guest.Ability{Limits: model.Yes}
		case hung:
			<-ctx.Done()
			return guest.Ability{Why: "it does not answer"}
		}
		return guest.Ability{Limits: model.No, Why: "guest-exec is blocked", Remedy: "allow it"}
	}
	run(t, f, Options{InGuest: a}, func(t *testing.T, s *Source) {
		look := func(want ...model.Tri) []model.Problem {
			t.Helper()
			snap := snapshot(t, s)
			for i, w := range want {
				if got := snap.VMs[i].InGuest; got != w {
					t.Errorf("vm%d: %s, want %s", i+1, got, w)
				}
			}
			return snap.Problems
		}
		unknown := model.Unknown
		look(unknown, unknown, unknown, unknown, unknown)
		synctest.Wait()
		problems := look(model.Yes, model.No, unknown, unknown, unknown)
		want := model.Problem{Subject: "vm2", Text: "no limit can be set inside it: guest-exec is blocked", Remedy: "allow it", Info: true}
		if !slices.Contains(problems, want) {
			t.Errorf("problems %+v, want one of them %+v", problems, want)
		}
		for range 300 {
			time.Sleep(time.Second)
			look(model.Yes, model.No)
		}
		if one, silent := a.n["id-001"].Load(), a.n[hung].Load(); one != 1 || silent < 4 || silent > 6 {
			t.Errorf("in five minutes asked the one that answers %d times, the one that does not %d times; want 1, about 5", one, silent)
		}
		// The VM restarts: the cached answer no longer applies.
		f.set(func() { f.dom(1).Started = epoch.Add(time.Hour) })
		look(unknown)
		synctest.Wait()
		look(model.Yes)
		// The agent disconnects and comes back, perhaps with other settings.
		f.set(func() { f.dom(2).Ready = model.No })
		look(model.Yes, unknown)
		f.set(func() { f.dom(2).Ready = model.Yes })
		look(model.Yes, unknown)
		synctest.Wait()
		look(model.Yes, model.No)
		if n := a.n["id-002"].Load(); n != 2 {
			t.Errorf("vm2 was asked %d times, want 2", n)
		}
		if a.n["id-003"].Load()+a.n["id-004"].Load() > 0 {
			t.Error("asked VMs without an agent, or without failover")
		}
	})
}
