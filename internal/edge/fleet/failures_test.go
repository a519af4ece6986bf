package fleet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// away is a ledger that answers nothing until a time.
type away struct {
	*fleettest.Ledger
	until time.Time
}

var errAway = errors.New("no answer from Placement")

func (a *away) gone() bool { return time.Now().Before(a.until) }

func (a *away) Tree(ctx context.Context, root string, fresh bool, consumers ...string) (fleet.State, error) {
	if a.gone() {
		return fleet.State{}, errAway
	}
	return a.Ledger.Tree(ctx, root, fresh, consumers...)
}

func (a *away) Claim(ctx context.Context, consumer string) (fleet.Claim, bool, error) {
	if a.gone() {
		return fleet.Claim{}, false, errAway
	}
	return a.Ledger.Claim(ctx, consumer)
}

func (a *away) Candidates(ctx context.Context, ask fleet.Ask) ([]fleet.Candidate, error) {
	if a.gone() {
		return nil, errAway
	}
	return a.Ledger.Candidates(ctx, ask)
}

// After an hour without Placement, in which a VM came to the host, the next round claims for it and the one after writes nothing. Meanwhile
// nothing can be placed or migrated.
func TestAnHourWithoutPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, vm, macs := twoNICs(t)
		start := time.Now()
		a := &away{Ledger: l, until: start.Add(time.Hour)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		before, failed, after := l.Writes(), 0, []int{}
		get := func(context.Context) (api.HostCapacity, error) {
			c := *running()
			c.Guarantees = append(c.Guarantees, fleettest.Guarantee(3, 1e9, 0))
			return c, nil
		}
		look := func(ctx context.Context) fleet.Round { return fleet.Once(ctx, a, fleettest.Host("a"), daemon(get)) }
		fleet.Run(ctx, time.Minute, look, func(r *fleet.Round) {
			if r.Err == nil {
				if after = append(after, r.Writes); len(after) == 2 {
					stop()
				}
				return
			}
			if failed++; !errors.Is(r.Err, errAway) || l.Writes() != before {
				t.Errorf("%v after %s: %d writes", r.Err, time.Since(start), l.Writes()-before)
			}
			if _, err := fleet.Place(ctx, a, fleettest.VM(9), fleettest.MAC(9), fleet.Ask{Kbits: 1}); !errors.Is(err, errAway) {
				t.Errorf("placed: %v", err)
			}
			if _, err := fleet.BeginMigration(ctx, a, vm, macs, ""); !errors.Is(err, errAway) {
				t.Errorf("migrated: %v", err)
			}
		})
		if failed != 60 || !cmp.Equal(after, []int{1, 0}) {
			t.Errorf("%d rounds failed, then they wrote %v", failed, after)
		}
		wantClaimed(t, l, 10, 0)
	})
}

// A link that becomes slower than what is claimed of it keeps its claims, takes no more, and is found.
func TestSlowerLink(t *testing.T) {
	l, _, _ := twoNICs(t)
	h, slow := fleettest.Host("a"), running()
	slow.PFs[0].Bits.Total = 1e9
	for _, writes := range []int{1, 0} {
		if _, n, err := fleet.Publish(t.Context(), l, h, slow); err != nil || n != writes {
			t.Errorf("%d writes, %v, want %d", n, err, writes)
		}
	}
	wantClaimed(t, l, 9, 0)
	ask := fleet.Ask{Kbits: 1, Traits: []string{fleet.NetworkTrait("red")}, Host: h.ID}
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(9), fleettest.MAC(9), ask); !errors.Is(err, fleet.ErrNowhere) {
		t.Errorf("placed on a link with too many claims: %v", err)
	}
	s, _ := l.Fleet(t.Context())
	if first := fleet.Links(&s)[0]; first.Total != 1_000_000 || first.Claimed != 9_000_000 {
		t.Errorf("the ledger says %+v", first)
	}
	if found := fleet.Check(&s, nil); len(found) != 1 || found[0].Host != "a" {
		t.Errorf("found %+v", found)
	}
}

// If only the answer to a migration's write is lost, a repetition does not claim or end anything twice.
func TestMigrateLosesAnswers(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		l, vm, macs := twoNICs(t)
		lost := &faulty{Ledger: l, lost: true}
		if _, err := fleet.BeginMigration(t.Context(), lost, vm, macs, ""); err == nil {
			t.Error("an answer that was lost is taken for one that came")
		}
		wantClaimed(t, l, 9, 9)
		if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, ""); !errors.Is(err, fleet.ErrMigrating) {
			t.Errorf("begun again: %v", err)
		}
		wantClaimed(t, l, 9, 9)
		done, a, b := fleet.CancelMigration, 9, 0
		if arrives {
			done, a, b = fleet.EndMigration, 0, 9
		}
		lost.left = 0
		if err := done(t.Context(), lost, vm, macs); err == nil {
			t.Error("an answer that was lost is taken for one that came")
		}
		wantClaimed(t, l, a, b)
		if err := done(t.Context(), l, vm, macs); err != nil {
			t.Error(err)
		}
		wantClaimed(t, l, a, b)
	}
}
