package fleet_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// threeHosts is a ledger with hosts a, b and c, and claims at a of 6, 5 and 4 Gbit/s, and one of somebody else.
func threeHosts(t *testing.T) *fleettest.Ledger {
	t.Helper()
	l := &fleettest.Ledger{}
	a := fleettest.Host("a")
	for _, name := range []string{"a", "b", "c"} {
		capacity := fleettest.Capacity()
		if name == "a" {
			capacity.PFs[0].Bits.Total = 20e9
		}
		if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(name), capacity); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(c fleet.Claim) {
		c.Generation = fleet.NewConsumer
		if err := l.Do(t.Context(), fleet.Request{Kind: fleet.SetClaim, Claim: c}); err != nil {
			t.Fatal(err)
		}
	}
	for n, gbit := range map[byte]int{1: 4, 2: 6, 3: 5} {
		id, _ := fleet.Consumer(fleettest.VM(n), fleettest.MAC(n))
		by := []string{fleet.ByPlace, fleet.ByHost}[n%2]
		amounts := fleet.Amounts{a.PF(fleettest.PF0): {fleet.ClassBits: gbit * 1e6}}
		if n == 2 {
			amounts[a.ID] = map[string]int{fleet.ClassPackets: 50}
		}
		claim(fleet.Claim{
			Consumer: id, Type: fleet.ConsumerType, Amounts: amounts,
			User: fleet.Holder{By: by, VM: fleettest.VM(n), MAC: fleettest.MAC(n)}.User(),
		})
	}
	claim(fleet.Claim{Consumer: "other", Type: "INSTANCE", User: "nova", Amounts: fleet.Amounts{a.PF(fleettest.PF0): {fleet.ClassBits: 1}}})
	return l
}

// ended checks what the ledger says after an evacuation of a.
func ended(t *testing.T, l *fleettest.Ledger) {
	t.Helper()
	s, err := l.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, c := range s.Claims {
		for id, classes := range c.Amounts {
			left[id] += classes[fleet.ClassBits]
		}
	}
	a, b, c := fleettest.Host("a"), fleettest.Host("b"), fleettest.Host("c")
	want := map[string]int{a.PF(fleettest.PF0): 1, b.PF(fleettest.PF0): 9e6, c.PF(fleettest.PF0): 6e6}
	alike := map[string]int{a.PF(fleettest.PF0): 1, c.PF(fleettest.PF0): 9e6, b.PF(fleettest.PF0): 6e6}
	delete(left, b.ID)
	delete(left, c.ID)
	if !cmp.Equal(left, want) && !cmp.Equal(left, alike) {
		t.Errorf("claims %v", left)
	}
	i := slices.IndexFunc(s.Providers, func(p fleet.Provider) bool { return p.ID == a.ID })
	if !slices.Contains(s.Providers[i].Traits, fleet.TraitDrained) {
		t.Errorf("a is not drained: %v", s.Providers[i].Traits)
	}
}

// The claims of a dead host go where there is room, the largest first, and those of others stay.
func TestEvacuate(t *testing.T) {
	l := threeHosts(t)
	list, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil)
	if err != nil || len(list) != 3 || list[0].Kbits != 6e6 || list[0].Kpackets != 50 || list[2].Kbits != 4e6 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, e := range list {
		if e.Host == "" || e.Host == "a" || e.PF != fleettest.PF0 || e.From != fleettest.PF0 {
			t.Errorf("%+v", e)
		}
	}
	ended(t, l)
	writes := l.Writes()
	if list, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil); err != nil || len(list) != 0 || l.Writes() != writes {
		t.Errorf("again: %+v, %v, %d writes", list, err, l.Writes()-writes)
	}
	// The hosts keep what has come: its VMs have not.
	for _, name := range []string{"b", "c"} {
		if _, writes, err := fleet.Publish(t.Context(), l, fleettest.Host(name), fleettest.Capacity()); err != nil || writes != 0 {
			t.Errorf("%s: %d writes, %v", name, writes, err)
		}
	}
	ended(t, l)
}

// What fits nowhere stays and is said.
func TestEvacuateNowhere(t *testing.T) {
	l := threeHosts(t)
	if _, err := fleet.Evacuate(t.Context(), l, fleettest.Host("c"), nil); err != nil {
		t.Fatal(err)
	}
	list, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil)
	if err != nil || len(list) != 3 || list[0].Host != "b" || list[1].Host != "" || list[1].Why != "no host has room with CUSTOM_SLUICE_NETWORK_RED" ||
		list[2].Host != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := fleet.Evacuate(t.Context(), l, fleettest.Host("z"), nil); err == nil {
		t.Error("a host that is not there")
	}
}

// It may be killed before any of its writes: the next one ends it.
func TestEvacuateKilled(t *testing.T) {
	killed := errors.New("killed")
	for before := 0; ; before++ {
		l := threeHosts(t)
		n := 0
		l.Before = func(fleet.Request) error {
			if n++; n > before {
				return killed
			}
			return nil
		}
		_, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil)
		l.Before = nil
		if err == nil {
			if before != 4 {
				t.Errorf("%d writes", before)
			}
			return
		}
		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
		if _, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil); err != nil {
			t.Fatal(err)
		}
		ended(t, l)
	}
}

// Others write at the same time: what they change is not overwritten.
func TestEvacuateBesideOthers(t *testing.T) {
	l := threeHosts(t)
	first := true
	l.Before = func(r fleet.Request) error {
		if r.Kind == fleet.SetClaim && first {
			first = false
			return fleet.ErrStale // and again
		}
		return nil
	}
	if _, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil); err != nil {
		t.Fatal(err)
	}
	ended(t, l)

	l = threeHosts(t)
	l.Before = func(r fleet.Request) error {
		if holder, _ := fleet.HolderOf(&r.Claim); r.Kind == fleet.SetClaim && holder.VM == fleettest.VM(3) && len(r.Claim.Amounts) > 0 {
			if err := fleet.Release(t.Context(), l, fleettest.VM(3), fleettest.MAC(3)); err != nil {
				return err
			}
			return fleet.ErrStale
		}
		return nil
	}
	list, err := fleet.Evacuate(t.Context(), l, fleettest.Host("a"), nil)
	if err != nil || list[1].Host != "" || list[1].Why != "somebody else has changed it meanwhile: look again" {
		t.Errorf("%+v, %v", list, err)
	}
}
