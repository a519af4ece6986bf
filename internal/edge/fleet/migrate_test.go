package fleet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// twoNICs is a ledger with hosts a and b, and a VM with a NIC of 6 and one of 3 Gbit/s at a.
func twoNICs(t *testing.T) (l *fleettest.Ledger, vm string, macs []string) {
	t.Helper()
	l = &fleettest.Ledger{}
	for _, name := range []string{"a", "b"} {
		if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(name), fleettest.Capacity()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host("a"), running()); err != nil {
		t.Fatal(err)
	}
	return l, fleettest.VM(1), []string{fleettest.MAC(1), fleettest.MAC(2)}
}

// running is the capacity of the host that the VM of twoNICs is at.
func running() *api.HostCapacity {
	c := fleettest.Capacity()
	c.Guarantees = []api.Guarantee{fleettest.Guarantee(1, 6e9, 5e4), fleettest.Guarantee(2, 3e9, 0)}
	c.Guarantees[1].ID = c.Guarantees[0].ID
	return c
}

// claimedOf is what is claimed of each PF in Gbit/s, by host.
func claimedOf(t *testing.T, l fleet.Ledger) map[string]int {
	t.Helper()
	s, err := l.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, p := range fleet.Links(&s) {
		out[p.Host] += p.Claimed / 1e6
	}
	return out
}

func wantClaimed(t *testing.T, l fleet.Ledger, a, b int) {
	t.Helper()
	if got, want := claimedOf(t, l), map[string]int{"a": a, "b": b}; !cmp.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
}

// While a VM migrates it is claimed at both hosts, then at the new one, or again at the old one alone.
func TestMigrate(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		l, vm, macs := twoNICs(t)
		wantClaimed(t, l, 9, 0)
		m, err := fleet.BeginMigration(t.Context(), l, vm, macs, "")
		if err != nil || m.From != "a" || m.Host != "b" || len(m.NICs) != 2 || m.NICs[0].Kbits != 6e6 || m.NICs[0].Kpackets != 50 || m.NICs[1].Kbits != 3e6 {
			t.Fatalf("%+v, %v", m, err)
		}
		wantClaimed(t, l, 9, 9)
		s, _ := l.Fleet(t.Context())
		if found := fleet.Check(&s, nil); len(found) != 2 || found[0].VM != vm || found[0].Host != "b" {
			t.Errorf("found %+v", found)
		}
		// The new host's daemon keeps room for it by then, the old one is not told.
		for name, want := range map[string]int{"a": 0, "b": 2} {
			d := &told{capacity: *fleettest.Capacity()}
			if name == "a" {
				d.capacity = *running()
			}
			if r := fleet.Once(t.Context(), l, fleettest.Host(name), d); r.Err != nil || len(d.claims) != want {
				t.Errorf("%s is told %v, %v", name, d.claims, r.Err)
			}
		}
		// Neither host's round changes that.
		for name, c := range map[string]*api.HostCapacity{"a": running(), "b": fleettest.Capacity()} {
			if _, writes, err := fleet.Publish(t.Context(), l, fleettest.Host(name), c); err != nil || writes != 0 {
				t.Errorf("%s: %d writes, %v", name, writes, err)
			}
		}
		if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, ""); !errors.Is(err, fleet.ErrMigrating) {
			t.Errorf("a second migration: %v", err)
		}
		at, done := "a", fleet.CancelMigration
		if arrives {
			at, done = "b", fleet.EndMigration
		}
		for range 2 { // it may be repeated
			if err := done(t.Context(), l, vm, macs); err != nil {
				t.Fatal(err)
			}
			wantClaimed(t, l, map[bool]int{false: 9}[arrives], map[bool]int{true: 9}[arrives])
		}
		if _, writes, err := fleet.Publish(t.Context(), l, fleettest.Host(at), running()); err != nil || writes != 0 {
			t.Errorf("%s: %d writes, %v", at, writes, err)
		}
		s, _ = l.Fleet(t.Context())
		if found := fleet.Check(&s, nil); len(found) != 0 {
			t.Errorf("found %+v", found)
		}
	}
}

// The old host may end its claim as soon as the VM has left, and the new one may make its own, before the migration ends.
func TestMigrateBesideRounds(t *testing.T) {
	l, vm, macs := twoNICs(t)
	if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, fleettest.Host("b").ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host("a"), fleettest.Capacity()); err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, l, 0, 9)
	if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host("b"), running()); err != nil {
		t.Fatal(err)
	}
	if err := fleet.EndMigration(t.Context(), l, vm, macs); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host("b"), running()); err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, l, 0, 9)
}

// Killed before any write, or refused by it, nothing is half done.
func TestMigrateFails(t *testing.T) {
	killed := errors.New("killed")
	l, vm, macs := twoNICs(t)
	l.Before = func(fleet.Request) error { return killed }
	if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, ""); !errors.Is(err, killed) {
		t.Error(err)
	}
	wantClaimed(t, l, 9, 0)
	l.Before = nil
	if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, ""); err != nil {
		t.Fatal(err)
	}
	l.Before = func(fleet.Request) error { return killed }
	for _, done := range []func() error{
		func() error { return fleet.EndMigration(t.Context(), l, vm, macs) },
		func() error { return fleet.CancelMigration(t.Context(), l, vm, macs) },
	} {
		if err := done(); !errors.Is(err, killed) {
			t.Error(err)
		}
		wantClaimed(t, l, 9, 9)
	}
	l.Before = nil
	if err := fleet.EndMigration(t.Context(), l, vm, macs); err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, l, 0, 9)

	for _, test := range []struct {
		macs []string
		to   string
		want string
	}{
		{macs[:1], fleettest.Host("b").ID, "it is claimed at b already"},
		{[]string{fleettest.MAC(3)}, "", "VM " + vm + " has no claim for " + fleettest.MAC(3) + ": it can be migrated without this"},
	} {
		if _, err := fleet.BeginMigration(t.Context(), l, vm, test.macs, test.to); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}

	// The first NIC fits at the new host, the second does not: neither is claimed.
	full := fleet.Ask{Kbits: 2e6, Traits: []string{fleet.NetworkTrait("red")}, Host: fleettest.Host("a").ID}
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(9), fleettest.MAC(9), full); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, ""); !errors.Is(err, fleet.ErrNowhere) {
		t.Error(err)
	}
	wantClaimed(t, l, 2, 9)
}

// comesToB is a fleet with a VM that place has put at host a, on its way to b, where room is held for it.
func comesToB(t *testing.T) (l *fleettest.Ledger, vm string, macs []string, room api.HostClaim) {
	l, _, _ = twoNICs(t)
	vm, macs = fleettest.VM(3), []string{fleettest.MAC(3)}
	ask := fleet.Ask{Kbits: 1_000_000, Host: fleettest.Host("a").ID, Traits: []string{fleet.NetworkTrait("red")}}
	if _, err := fleet.Place(t.Context(), l, vm, macs[0], ask); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, fleettest.Host("b").ID); err != nil {
		t.Fatal(err)
	}
	return l, vm, macs, api.HostClaim{ID: vm, MAC: macs[0], PF: fleettest.PF0, Rate: api.Rate{Bits: 1e9}}
}

// What place has claimed for a VM is kept at the new host before the VM is there: its daemon is told of the room, which is marked when the
// daemon keeps it. Of room that it refuses, the migration hears nothing.
func TestNewHostKeepsTheRoom(t *testing.T) {
	l, vm, macs, room := comesToB(t)
	b := fleettest.Host("b")
	d := &told{capacity: *fleettest.Capacity()}
	round := func(what string, news, kept bool, states ...api.HostClaimState) {
		t.Helper()
		d.capacity.Claims = states
		r := fleet.Once(t.Context(), l, b, d)
		if r.Err != nil || r.Untold != nil || r.Told != news || !cmp.Equal(d.claims, []api.HostClaim{room}) {
			t.Errorf("%s: %+v, told %+v", what, r, d.claims)
		}
		if got, err := fleet.Kept(t.Context(), l, vm, macs); err != nil || got != kept {
			t.Errorf("%s: kept %t, %v", what, got, err)
		}
	}
	round("told", true, false)
	round("not seen yet", true, false)
	round("refused", false, false, api.HostClaimState{HostClaim: room, Refused: "no room"})
	less := room
	less.Rate.Bits /= 2
	round("of another claim", true, false, api.HostClaimState{HostClaim: less})
	round("kept", false, true, api.HostClaimState{HostClaim: room})
	wantClaimed(t, l, 10, 1)
	s, _ := l.Fleet(t.Context())
	if found := fleet.Check(&s, nil); len(found) != 1 || found[0].VM != vm || found[0].Host != "b" {
		t.Errorf("found %+v", found)
	}

	// The claim and the room at one host, as a look at the ledger may see them while the migration ends, are told once.
	id, _ := fleet.Consumer(vm, macs[0])
	c, _, _ := l.Claim(t.Context(), id)
	c.Amounts = fleet.Amounts{b.PF(fleettest.PF0): {fleet.ClassBits: 1_000_000}}
	if err := l.Do(t.Context(), fleet.Request{Kind: fleet.SetClaim, Claim: c}); err != nil {
		t.Fatal(err)
	}
	round("twice", false, true, api.HostClaimState{HostClaim: room})
	if err := fleet.EndMigration(t.Context(), l, vm, macs); err != nil {
		t.Fatal(err)
	}
	d.capacity.Claims = []api.HostClaimState{{HostClaim: room}}
	if r := fleet.Once(t.Context(), l, b, d); r.Told || !cmp.Equal(d.claims, []api.HostClaim{room}) {
		t.Errorf("ended: %+v, told %+v", r, d.claims)
	}
	wantClaimed(t, l, 9, 1)
}

// marks is a Ledger that notes what a daemon had been told at each write.
type marks struct {
	fleet.Ledger
	daemon *told
	told   [][]api.HostClaim
}

func (m *marks) Do(ctx context.Context, r fleet.Request) error {
	m.told = append(m.told, m.daemon.claims)
	return m.Ledger.Do(ctx, r)
}

// A VM that has just left a host comes back: what its daemon said shortly before it was told that the claim had ended is not taken for its
// keeping the room. (The VM arrives as soon as that is said.)
func TestRoomIsNotKeptByAnOldAnswer(t *testing.T) {
	l, _, _, room := comesToB(t)
	b := fleettest.Host("b")
	d := &told{capacity: *fleettest.Capacity()} // told of nothing any more
	d.capacity.Claims = []api.HostClaimState{{HostClaim: room}}
	m := &marks{Ledger: l, daemon: d}
	if r := fleet.Once(t.Context(), m, b, d); r.Err != nil {
		t.Fatal(r.Err)
	}
	if want := [][]api.HostClaim{{room}}; !cmp.Equal(m.told, want) {
		t.Errorf("at its writes the daemon had been told %+v, want %+v", m.told, want)
	}
}

// A guarantee that no place has claimed comes with the VM: nobody waits for it.
func TestHostClaimsAreNotAwaited(t *testing.T) {
	l, vm, macs := twoNICs(t)
	if _, err := fleet.BeginMigration(t.Context(), l, vm, macs, ""); err != nil {
		t.Fatal(err)
	}
	if kept, err := fleet.Kept(t.Context(), l, vm, macs); err != nil || !kept {
		t.Errorf("%t, %v", kept, err)
	}
}
