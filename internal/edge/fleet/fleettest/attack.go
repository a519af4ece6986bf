package fleettest

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
)

// Attack draws a Request of the first host, about what is in the ledger and what is not, in any combination, more often about its own.
func Attack(s *fleet.State, hosts []fleet.Host) *rapid.Generator[fleet.Request] {
	a := attack{state: s, ids: []string{"22222222-2222-4222-8222-222222222222", ""}, names: []string{"compute2", "sluice:c", "sluice:a:", ""}}
	thief := hosts[0]
	mine := func(id string) bool {
		return slices.Contains([]string{thief.ID, thief.PF(PF0), thief.PF(PF1), thief.PF(PF2)}, id)
	}
	for i := range s.Providers {
		if mine(s.Providers[i].ID) {
			a.own = append(a.own, s.Providers[i])
		}
		a.ids, a.names = append(a.ids, s.Providers[i].ID), append(a.names, s.Providers[i].Name)
	}
	for _, h := range hosts {
		pf := fleet.Provider{ID: h.PF(PF2), Name: "sluice:" + h.Name + ":" + PF2, Parent: h.ID}
		a.fitting = append(a.fitting, pf, fleet.Provider{ID: h.ID, Name: "sluice:" + h.Name})
		a.ids, a.names = append(a.ids, pf.ID), append(a.names, pf.Name)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Claims)) {
		c := s.Claims[id]
		elsewhere := slices.ContainsFunc(slices.Collect(maps.Keys(c.Amounts)), func(id string) bool { return !mine(id) })
		if h, ours := fleet.HolderOf(&c); ours && h.By == fleet.ByHost && !elsewhere {
			a.ownClaims = append(a.ownClaims, c)
		}
		a.claims = append(a.claims, c)
	}
	for n := range byte(6) {
		h := fleet.Holder{By: []string{fleet.ByHost, fleet.ByPlace, "migration"}[n%3], VM: VM(20 + n), MAC: MAC(20 + n)}
		id, _ := fleet.Consumer(h.VM, h.MAC)
		c := fleet.Claim{Consumer: id, Generation: fleet.NewConsumer, Type: fleet.ConsumerType, User: h.User()}
		if a.claims = append(a.claims, c); h.By == fleet.ByHost {
			a.ownClaims = append(a.ownClaims, c)
		}
	}
	for _, c := range slices.Clone(a.claims) {
		// Consumers of migrations are made of those of claims as those are of VMs.
		room, _ := fleet.Consumer(c.Consumer, "migration")
		h := fleet.Holder{By: fleet.ByHost, VM: c.Consumer, MAC: "migration"}
		a.claims = append(a.claims, fleet.Claim{Consumer: room, Generation: fleet.NewConsumer, Type: fleet.ConsumerType, User: h.User()})
	}
	return rapid.Custom(a.request)
}

type attack struct {
	state      *fleet.State
	ids, names []string
	fitting    []fleet.Provider // that hosts might create
	own        []fleet.Provider
	claims     []fleet.Claim
	ownClaims  []fleet.Claim
}

// mostly is true in three of four cases, so that whole requests are often in order but for one thing.
func mostly(t *rapid.T, what string) bool { return rapid.IntRange(0, 3).Draw(t, what) > 0 }

func (a *attack) request(t *rapid.T) fleet.Request {
	r := fleet.Request{Kind: rapid.SampledFrom([]fleet.Kind{
		fleet.CreateProvider, fleet.DeleteProvider, fleet.SetInventories, fleet.SetTraits, fleet.SetClaim, fleet.SetClaim, fleet.SetClaims,
	}).Draw(t, "kind")}
	classes := rapid.SampledFrom([]string{fleet.ClassBits, fleet.ClassBits, fleet.ClassPackets, "VCPU"})
	p := &r.Provider
	switch r.Kind {
	case fleet.SetClaim:
		r.Claim = a.claim(t, classes)
		return r
	case fleet.SetClaims:
		r.Claims = []fleet.Claim{a.claim(t, classes), a.claim(t, classes)}
		return r
	case fleet.CreateProvider:
		*p = rapid.SampledFrom(a.fitting).Draw(t, "new") // the first two are its own
		if !mostly(t, "its own name") {
			p.Name = rapid.SampledFrom(a.names).Draw(t, "name")
		}
		if !mostly(t, "its own parent") {
			p.Parent = rapid.SampledFrom(a.ids).Draw(t, "parent")
		}
		if !mostly(t, "its own UUID") {
			p.ID = rapid.SampledFrom(a.ids).Draw(t, "UUID")
		}
		return r
	}
	*p = a.provider(t)
	p.Inventories, p.Traits = maps.Clone(p.Inventories), slices.Clone(p.Traits)
	if !mostly(t, "its generation") {
		p.Generation += rapid.IntRange(-1, 1).Draw(t, "generation")
	}
	if !mostly(t, "as it is") || p.Inventories == nil {
		p.Inventories, p.Traits = map[string]fleet.Inventory{}, nil
	}
	n := rapid.IntRange(1, 2e7).Draw(t, "total")
	p.Inventories[classes.Draw(t, "class")] = fleet.Inventory{Total: n, Min: 1, Max: n, Step: 1, Ratio: 1}
	trait := rapid.SampledFrom([]string{fleet.TraitDrained, fleet.TraitDown, "COMPUTE_NODE", "MISC_SHARES_VIA_AGGREGATE"}).Draw(t, "trait")
	p.Traits = slices.Compact(slices.Sorted(slices.Values(append(p.Traits, trait))))
	return r
}

func (a *attack) provider(t *rapid.T) fleet.Provider {
	if mostly(t, "its own") && len(a.own) > 0 {
		return rapid.SampledFrom(a.own).Draw(t, "own provider")
	}
	return rapid.SampledFrom(a.state.Providers).Draw(t, "provider")
}

func (a *attack) claim(t *rapid.T, classes *rapid.Generator[string]) fleet.Claim {
	c := rapid.SampledFrom(a.claims).Draw(t, "claim")
	if mostly(t, "its own claim") {
		c = rapid.SampledFrom(a.ownClaims).Draw(t, "own claim")
	}
	c.Amounts = maps.Clone(c.Amounts)
	if !mostly(t, "its generation") {
		c.Generation = max(fleet.NewConsumer, c.Generation+rapid.IntRange(-1, 1).Draw(t, "generation"))
	}
	if !mostly(t, "its user") {
		c.User = rapid.SampledFrom(a.claims).Draw(t, "user").User
	}
	if !mostly(t, "its type") {
		c.Type = "INSTANCE"
	}
	if !mostly(t, "as it is") || c.Amounts == nil {
		c.Amounts = fleet.Amounts{}
	}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		provider := a.provider(t).ID
		c.Amounts[provider] = map[string]int{classes.Draw(t, "class"): rapid.IntRange(1, 2e6).Draw(t, "amount")}
	}
	return c
}

// Others is what is not a host's, of a State: providers but for its own, and claims that are not on those alone.
func Others(s *fleet.State, h fleet.Host) fleet.State {
	own := map[string]bool{h.ID: true, h.PF(PF0): true, h.PF(PF1): true, h.PF(PF2): true}
	out := fleet.State{Claims: map[string]fleet.Claim{}}
	for i := range s.Providers {
		if !own[s.Providers[i].ID] {
			out.Providers = append(out.Providers, s.Providers[i])
		}
	}
	for id, c := range s.Claims {
		for provider := range c.Amounts {
			if !own[provider] {
				out.Claims[id] = c
			}
		}
	}
	return out
}

// Victims fills a ledger with hosts a and b. Each has two PFs, a claim of its own and one that was placed; a VM migrates from a to b, and
// there is a provider that is nobody's.
func Victims(t *testing.T, l fleet.Ledger) []fleet.Host {
	t.Helper()
	hosts := []fleet.Host{Host("a"), Host("b")}
	for i, h := range hosts {
		c := Capacity()
		c.Guarantees = []api.Guarantee{Guarantee(byte(i), 1e9, 1e4)}
		if _, _, err := fleet.Publish(t.Context(), l, h, c); err != nil {
			t.Fatal(err)
		}
		if _, err := fleet.Place(t.Context(), l, VM(byte(8+i)), MAC(byte(8+i)), fleet.Ask{Kbits: 1e6, Host: h.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fleet.BeginMigration(t.Context(), l, VM(8), []string{MAC(8)}, hosts[1].ID); err != nil {
		t.Fatal(err)
	}
	for _, r := range []fleet.Request{
		{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: Nobodys, Name: "compute"}},
		{Kind: fleet.SetInventories, Provider: fleet.Provider{ID: Nobodys, Inventories: map[string]fleet.Inventory{
			"VCPU": {Total: 8, Min: 1, Max: 8, Step: 1, Ratio: 1}, fleet.ClassBits: {Total: 1e6, Min: 1, Max: 1e6, Step: 1, Ratio: 1},
		}}},
	} {
		if err := l.Do(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return hosts
}

// Nobodys is the UUID of a provider that is no host's.
const Nobodys = "11111111-1111-4111-8111-111111111111"
