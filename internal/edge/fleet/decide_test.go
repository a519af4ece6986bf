package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// capacities draws what a host offers and guarantees.
func capacities(t *rapid.T) *api.HostCapacity {
	c := fleettest.Capacity()
	c.Packets.Enforced = rapid.IntRange(0, 3).Draw(t, "packets are enforced") > 0
	c.Drained = rapid.Bool().Draw(t, "drained")
	c.Packets.Total = rapid.SampledFrom([]float64{0, 3e5, 1.5e6}).Draw(t, "packets")
	if rapid.IntRange(0, 3).Draw(t, "PF is gone") == 0 {
		c.PFs = c.PFs[1:]
	}
	for i := range c.PFs {
		c.PFs[i].Bits.Total = rapid.SampledFrom([]float64{0, 1e9, 1e10}).Draw(t, "speed")
		c.PFs[i].LinkUp = rapid.Bool().Draw(t, "link")
	}
	for n := range byte(5) {
		if rapid.Bool().Draw(t, "VM is here") {
			g := fleettest.Guarantee(n, rapid.SampledFrom([]float64{0, 5e8, 3e9, 8e9}).Draw(t, "bits"), rapid.SampledFrom([]float64{0, 1e5}).Draw(t, "kpps"))
			g.PF = rapid.SampledFrom([]string{"", fleettest.PF0, fleettest.PF1}).Draw(t, "PF")
			g.MAC = rapid.SampledFrom([]string{g.MAC, g.MAC, g.MAC, ""}).Draw(t, "MAC")
			c.Guarantees = append(c.Guarantees, g)
		}
	}
	return c
}

// foreign is what others have written: providers with their inventories and traits but for ours, and consumers.
func foreign(s fleet.State) map[string]any {
	out := map[string]any{}
	for _, p := range s.Providers {
		inventories := map[string]fleet.Inventory{}
		maps.Copy(inventories, p.Inventories)
		if p.ID != "theirs" {
			delete(inventories, fleet.ClassBits)
			delete(inventories, fleet.ClassPackets)
		}
		if traits := slices.DeleteFunc(slices.Clone(p.Traits), func(t string) bool { return t != "HW_FOREIGN" }); len(traits)+len(inventories) > 0 {
			out[p.ID] = []any{inventories, traits}
		}
	}
	for id, c := range s.Claims {
		if h, ours := fleet.HolderOf(&c); !ours || h.By == fleet.ByPlace {
			out[id] = c.User
			if !ours {
				out[id] = c
			}
		}
	}
	return out
}

// faulty fails after some writes, of which the last may have been carried out.
type faulty struct {
	*fleettest.Ledger
	left int
	lost bool
}

func (f *faulty) Do(ctx context.Context, r fleet.Request) error {
	f.left--
	if f.left >= 0 {
		return f.Ledger.Do(ctx, r)
	}
	if f.lost && f.left == -1 {
		_ = f.Ledger.Do(ctx, r)
	}
	return errors.New("killed")
}

// reserved is what Place has claimed, in kbit/s.
func reserved(s fleet.State) map[string]int {
	out := map[string]int{}
	for id, c := range s.Claims {
		if h, _ := fleet.HolderOf(&c); h.By == fleet.ByPlace {
			for _, classes := range c.Amounts {
				out[id] += classes[fleet.ClassBits]
			}
		}
	}
	return out
}

// Whatever the ledger and the host are, and whoever else writes: Publish ends, what it leaves is what it should be, a second time writes
// nothing, no link has more claims than it carries because of it, and what others own stays.
func TestPublish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &fleettest.Ledger{}
		h, other := fleettest.Host("a"), fleettest.Host("b")
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		publish := func(h fleet.Host, c *api.HostCapacity) fleet.Plan {
			plan, _, err := fleet.Publish(t.Context(), l, h, c)
			must(err)
			return plan
		}
		read := func() fleet.State {
			s, err := l.Tree(t.Context(), h.ID, true)
			must(err)
			return s
		}
		// somebody writes something else.
		meddle := func() {
			s := read()
			switch rapid.IntRange(0, 4).Draw(t, "meddling") {
			case 0: // a claim of somebody else's, or of Place
				n := byte(rapid.IntRange(0, 6).Draw(t, "VM"))
				id, _ := fleet.Consumer(fleettest.VM(n), fleettest.MAC(n))
				c := fleet.Claim{Consumer: id, Generation: fleet.NewConsumer, Type: fleet.ConsumerType}
				c.User = fleet.Holder{By: fleet.ByPlace, VM: fleettest.VM(n), MAC: fleettest.MAC(n)}.User()
				if rapid.Bool().Draw(t, "foreign") {
					c.Type = "INSTANCE"
				}
				at := rapid.SampledFrom([]fleet.Host{h, other}).Draw(t, "at")
				c.Amounts = fleet.Amounts{at.PF(fleettest.PF0): {fleet.ClassBits: rapid.SampledFrom([]int{100_000, 6_000_000}).Draw(t, "kbits")}}
				_ = l.Do(t.Context(), fleet.Request{Kind: fleet.SetClaim, Claim: c}) // if there is room for it
			case 1: // a child below the host
				_ = l.Do(t.Context(), fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: "theirs", Name: "theirs", Parent: h.ID}})
			case 2: // a trait and a class on a provider of ours
				if len(s.Providers) > 0 {
					p := s.Providers[rapid.IntRange(0, len(s.Providers)-1).Draw(t, "provider")]
					p.Traits = append(slices.Clone(p.Traits), "HW_FOREIGN")
					must(l.Do(t.Context(), fleet.Request{Kind: fleet.SetTraits, Provider: p}))
				}
			case 3: // an inventory of theirs, and ours made wrong
				if len(s.Providers) > 0 {
					p := s.Providers[rapid.IntRange(0, len(s.Providers)-1).Draw(t, "provider")]
					p.Inventories = maps.Clone(p.Inventories)
					if p.Inventories == nil {
						p.Inventories = map[string]fleet.Inventory{}
					}
					p.Inventories["CUSTOM_THEIRS"] = fleet.Inventory{Total: 7, Min: 1, Max: 7, Step: 1, Ratio: 16}
					for class, inv := range p.Inventories {
						if class != "CUSTOM_THEIRS" {
							inv.Ratio = 2
							p.Inventories[class] = inv
						}
					}
					must(l.Do(t.Context(), fleet.Request{Kind: fleet.SetInventories, Provider: p}))
				}
			}
		}
		publish(other, fleettest.Capacity())
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3).Draw(t, "meddlers") {
				meddle()
			}
			c := capacities(t)
			left := rapid.IntRange(0, 3).Draw(t, "writes before a kill")
			if rapid.Bool().Draw(t, "killed") { // before or after any write; the next round begins anew
				fault := &faulty{Ledger: l, left: left, lost: rapid.Bool().Draw(t, "only the answer is lost")}
				_, _, _ = fleet.Publish(t.Context(), fault, h, c)
				c = capacities(t)
			}
			start := read()
			before := foreign(start)
			plan := publish(h, c)
			after := read()
			if diff := cmp.Diff(before, foreign(after)); diff != "" {
				t.Fatalf("what others own has changed: %s", diff)
			}
			for id, n := range reserved(start) {
				if now := reserved(after)[id]; now < n {
					t.Fatalf("Place has reserved %d for %s, of which %d are left", n, id, now)
				}
			}
			wrote := l.Writes()
			if again := publish(h, c); l.Writes() != wrote || len(again.Unclaimed) != len(plan.Unclaimed) {
				t.Fatalf("the second time %d writes, unclaimed %v, then %v", l.Writes()-wrote, plan.Unclaimed, again.Unclaimed)
			}
			check(t, h, c, after, plan)
		}
	})
}

// check compares the ledger with what is offered and promised, in a simpler way than Decide.
func check(t *rapid.T, h fleet.Host, c *api.HostCapacity, s fleet.State, plan fleet.Plan) {
	have := map[string]fleet.Provider{}
	for _, p := range s.Providers {
		have[p.ID] = p
	}
	if drained := slices.Contains(have[h.ID].Traits, fleet.TraitDrained); drained != c.Drained {
		t.Fatalf("drained %v, the ledger says %v", c.Drained, drained)
	}
	for _, pf := range c.PFs {
		p := have[h.PF(pf.Address)]
		if !slices.Contains(p.Traits, fleet.NetworkTrait(pf.Network)) || slices.Contains(p.Traits, fleet.TraitDown) == pf.LinkUp {
			t.Fatalf("%s has the traits %v", pf.PF, p.Traits)
		}
		inv := p.Inventories[fleet.ClassBits]
		if pf.Bits.Total > 0 && (inv.Total != int(pf.Bits.Total/1e3) || inv.Ratio != 1 || inv.Max != inv.Total) {
			t.Fatalf("%s: %+v", pf.PF, inv)
		}
		promised := 0 // to NICs here; what has no claim must not be offered to others
		for _, g := range c.Guarantees {
			if g.PF == pf.Address {
				promised += int(g.Rate.Bits / 1e3)
			}
		}
		if room := inv.Total - inv.Reserved - p.Used[fleet.ClassBits]; pf.Bits.Total > 0 && room > max(0, inv.Total-promised) {
			t.Fatalf("%s offers %d although %d of %d are promised", pf.PF, room, promised, inv.Total)
		}
	}
	unclaimed := map[string]bool{}
	for _, u := range plan.Unclaimed {
		unclaimed[u.Promise.Consumer] = true
	}
	known := map[string]bool{}
	for _, g := range c.Guarantees {
		id, _ := fleet.Consumer(g.ID, g.MAC)
		known[id] = true
		pf := have[h.PF(g.PF)]
		offered := slices.ContainsFunc(c.PFs, func(p api.PFCapacity) bool { return p.Address == g.PF && p.Bits.Total > 0 })
		if got := s.Claims[id].Amounts[pf.ID][fleet.ClassBits]; g.MAC != "" && offered && !unclaimed[id] && got < int(g.Rate.Bits/1e3) {
			t.Fatalf("VM %s claims %d of %v at %s", g.ID, got, g.Rate.Bits, g.PF)
		}
	}
	for id, claim := range s.Claims {
		if holder, ours := fleet.HolderOf(&claim); ours && holder.By == fleet.ByHost && !known[id] {
			t.Fatalf("a claim of the host's for a VM that is not there: %+v", claim)
		}
	}
}

// A host's provider under another name is not taken over.
func TestTwoHostsWithTheSameUUID(t *testing.T) {
	l := &fleettest.Ledger{}
	a := fleettest.Host("a")
	if _, _, err := fleet.Publish(t.Context(), l, a, fleettest.Capacity()); err != nil {
		t.Fatal(err)
	}
	wrote := l.Writes()
	a.Name = "twin"
	_, _, err := fleet.Publish(t.Context(), l, a, fleettest.Capacity())
	if want := `the ledger calls this host "a", not "twin"`; err == nil || fmt.Sprint(err)[:len(want)] != want || l.Writes() != wrote {
		t.Errorf("%v, %d writes", err, l.Writes()-wrote)
	}
	if _, _, err := fleet.Publish(t.Context(), l, a, &api.HostCapacity{}); err == nil {
		t.Error("a host that nobody has observed yet is published")
	}
}
