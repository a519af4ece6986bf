package fleet_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// drawFleet is a ledger with up to five hosts of one or two PFs, and claims that may exceed what there is.
func drawFleet(t *rapid.T) *fleet.State {
	s := &fleet.State{Claims: map[string]fleet.Claim{}}
	inventory := func(class, label string, most int) map[string]fleet.Inventory {
		n := rapid.IntRange(1, most).Draw(t, label)
		return map[string]fleet.Inventory{class: {Total: n, Reserved: rapid.IntRange(0, n/4).Draw(t, "reserved")}}
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "hosts") {
		h := fleettest.Host(fmt.Sprint("h", i))
		root := fleet.Provider{ID: h.ID, Name: "sluice:" + h.Name, Traits: []string{fleet.TraitHost}, Inventories: inventory(fleet.ClassPackets, "kpps", 20)}
		if rapid.IntRange(0, 5).Draw(t, "drained") == 0 {
			root.Traits = append(root.Traits, rapid.SampledFrom([]string{fleet.TraitDrained, fleet.TraitUnenforced}).Draw(t, "trait"))
		}
		s.Providers = append(s.Providers, root)
		for _, address := range []string{fleettest.PF0, fleettest.PF1}[:rapid.IntRange(1, 2).Draw(t, "PFs")] {
			p := fleet.Provider{
				ID: h.PF(address), Name: "sluice:" + h.Name + ":" + address, Parent: h.ID, Inventories: inventory(fleet.ClassBits, "kbit", 20),
				Traits: []string{fleet.TraitPF, fleet.NetworkTrait(rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "network"))},
			}
			if rapid.IntRange(0, 5).Draw(t, "down") == 0 {
				p.Traits = append(p.Traits, fleet.TraitDown)
			}
			s.Providers = append(s.Providers, p)
		}
	}
	for n := range rapid.IntRange(0, 8).Draw(t, "claims") {
		id, _ := fleet.Consumer(fleettest.VM(byte(n)), fleettest.MAC(byte(n)))
		pfs := slices.DeleteFunc(slices.Clone(s.Providers), func(p fleet.Provider) bool { return p.Parent == "" })
		pf := rapid.SampledFrom(pfs).Draw(t, "PF")
		c := fleet.Claim{
			Consumer: id, Type: fleet.ConsumerType, User: fleet.Holder{By: fleet.ByPlace, VM: fleettest.VM(byte(n)), MAC: fleettest.MAC(byte(n))}.User(),
			Amounts: fleet.Amounts{pf.ID: {fleet.ClassBits: rapid.IntRange(1, 12).Draw(t, "claimed kbit")}},
		}
		if kpps := rapid.IntRange(0, 6).Draw(t, "claimed kpps"); kpps > 2 {
			c.Amounts[pf.Parent] = map[string]int{fleet.ClassPackets: kpps}
		}
		if rapid.IntRange(0, 6).Draw(t, "foreign") == 0 {
			c.Type = "INSTANCE"
		}
		s.Claims[id] = c
		for provider, classes := range c.Amounts {
			i := slices.IndexFunc(s.Providers, func(p fleet.Provider) bool { return p.ID == provider })
			if s.Providers[i].Used == nil {
				s.Providers[i].Used = map[string]int{}
			}
			for class, amount := range classes {
				s.Providers[i].Used[class] += amount
			}
		}
	}
	return s
}

// follow carries advice out, one by one, with the simplest code, and checks each: what moves has room there, on the same network, at a host
// that takes it; what does not move has room nowhere.
func follow(t *rapid.T, s *fleet.State, list []fleet.Advice) {
	free := func(p *fleet.Provider, class string) int {
		return p.Inventories[class].Total - p.Inventories[class].Reserved - p.Used[class]
	}
	by := func(id string) *fleet.Provider {
		return &s.Providers[slices.IndexFunc(s.Providers, func(p fleet.Provider) bool { return p.ID == id })]
	}
	for _, a := range list {
		id, _ := fleet.Consumer(a.VM, a.MAC)
		c := s.Claims[id]
		if c.Type != fleet.ConsumerType {
			t.Fatalf("%+v is somebody else's", a)
		}
		var from *fleet.Provider
		for provider := range c.Amounts {
			if p := by(provider); p.Parent != "" {
				from = p
			}
		}
		fits := func(p *fleet.Provider) bool {
			if p.Parent == "" || p.Parent == from.Parent || slices.Contains(p.Traits, fleet.TraitDown) || p.Traits[1] != from.Traits[1] {
				return false
			}
			root := by(p.Parent)
			return len(root.Traits) == 1 && free(p, fleet.ClassBits) >= a.Kbits && (a.Kpackets == 0 || free(root, fleet.ClassPackets) >= a.Kpackets)
		}
		if a.Host == "" {
			if i := slices.IndexFunc(s.Providers, func(p fleet.Provider) bool { return fits(&p) }); i >= 0 {
				t.Fatalf("%+v: there is room at %s", a, s.Providers[i].Name)
			}
			continue
		}
		to := by(fleettest.Host(a.Host).PF(a.PF))
		if !fits(to) {
			t.Fatalf("%+v does not fit", a)
		}
		for provider, classes := range c.Amounts {
			for class, n := range classes {
				by(provider).Used[class] -= n
			}
		}
		for p, n := range map[*fleet.Provider]int{to: a.Kbits, by(to.Parent): a.Kpackets} {
			if p.Used == nil {
				p.Used = map[string]int{}
			}
			p.Used[map[bool]string{true: fleet.ClassBits, false: fleet.ClassPackets}[p == to]] += n
		}
		c.Amounts = fleet.Amounts{to.ID: {fleet.ClassBits: a.Kbits}}
		if a.Kpackets > 0 {
			c.Amounts[to.Parent] = map[string]int{fleet.ClassPackets: a.Kpackets}
		}
		s.Claims[id] = c
	}
}

// A host is emptied as far as there is room, and nobody gets too much by that.
func TestEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFleet(t)
		host := fleettest.Host("h0")
		want := 0
		for _, c := range s.Claims {
			for provider := range c.Amounts {
				if c.Type == fleet.ConsumerType && (provider == host.PF(fleettest.PF0) || provider == host.PF(fleettest.PF1)) {
					want++
				}
			}
		}
		list := fleet.Empty(s, host, fleet.Seen{})
		if len(list) != want || !slices.IsSortedFunc(list, func(a, b fleet.Advice) int { return b.Kbits - a.Kbits }) {
			t.Fatalf("%+v, want %d, the largest first", list, want)
		}
		follow(t, s, list)
	})
}

// Of two hosts with as much claimed, the one that sends less takes the VM.
func TestEmptyByLoad(t *testing.T) {
	l := &fleettest.Ledger{}
	for _, name := range []string{"a", "b", "c"} {
		if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(name), fleettest.Capacity()); err != nil {
			t.Fatal(err)
		}
	}
	ask := fleet.Ask{Kbits: 2_000_000, Host: fleettest.Host("a").ID, Traits: []string{fleet.NetworkTrait("red")}}
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(1), fleettest.MAC(1), ask); err != nil {
		t.Fatal(err)
	}
	s, _ := l.Fleet(t.Context())
	for busy, want := range map[string]string{"b": "c", "c": "b"} {
		load := map[string]int{fleettest.Host(busy).PF(fleettest.PF0): 5_000_000}
		if list := fleet.Empty(&s, fleettest.Host("a"), fleet.Seen{Kbits: load}); len(list) != 1 || list[0].Host != want {
			t.Errorf("%s sends 5 Gbit/s: %+v", busy, list)
		}
	}
}

// A VF that a VM may take where it goes is not counted again for the next one.
func TestFreeVFsWhereVMsGo(t *testing.T) {
	l := &fleettest.Ledger{}
	for _, name := range []string{"a", "b"} {
		if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(name), fleettest.Capacity()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range byte(3) {
		ask := fleet.Ask{Kbits: 1_000_000, Host: fleettest.Host("a").ID, Traits: []string{fleet.NetworkTrait("red")}}
		if _, err := fleet.Place(t.Context(), l, fleettest.VM(n), fleettest.MAC(n), ask); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := l.Fleet(t.Context())
	seen := fleet.Seen{VFs: map[string]int{fleettest.Host("b").PF(fleettest.PF0): 2}}
	var got []int
	for _, a := range fleet.Empty(&s, fleettest.Host("a"), seen) {
		if a.VFs == nil {
			t.Fatalf("%+v does not say how many VFs are free", a)
		}
		got = append(got, *a.VFs)
	}
	if !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("%v VFs are free, want 2, 1 and 0", got)
	}
	for _, a := range fleet.Empty(&s, fleettest.Host("a"), fleet.Seen{}) {
		if a.VFs != nil {
			t.Errorf("%+v says how many VFs are free, although Prometheus was not asked", a)
		}
	}
}

// What has promised too much is relieved as far as there is room for that, and nothing else moves.
func TestRelieve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFleet(t)
		over := func() map[string]bool {
			out := map[string]bool{}
			for i := range s.Providers {
				p := &s.Providers[i]
				for class, inv := range p.Inventories {
					out[p.Name] = out[p.Name] || p.Used[class] > inv.Total-inv.Reserved
				}
			}
			return out
		}
		before := over()
		list := fleet.Relieve(s, fleet.Seen{})
		stuck := map[string]bool{} // has a claim that fits nowhere
		for _, a := range list {
			if !before["sluice:"+a.From] && !before["sluice:"+a.From+":"+a.FromPF] {
				t.Fatalf("%+v: %v is enough", a, before)
			}
			stuck["sluice:"+a.From] = stuck["sluice:"+a.From] || a.Host == ""
		}
		follow(t, s, list)
		for name, still := range over() {
			foreign := slices.ContainsFunc(s.Providers, func(p fleet.Provider) bool {
				for _, c := range s.Claims {
					if p.Name == name && c.Amounts[p.ID] != nil && c.Type != fleet.ConsumerType {
						return true
					}
				}
				return false
			})
			host := name[:len("sluice:h0")]
			if still && (!before[name] || !foreign && !stuck[host]) {
				t.Fatalf("%s still has too little (before: %v): %+v", name, before[name], list)
			}
		}
	})
}

// The smallest claim that is enough goes, not one that is too small and not the largest.
func TestRelieveBySmallest(t *testing.T) {
	l := &fleettest.Ledger{}
	a, b := fleettest.Host("a"), fleettest.Host("b")
	capacity := fleettest.Capacity()
	capacity.PFs[0].Bits.Total = 13e9
	for _, h := range []fleet.Host{a, b} {
		if _, _, err := fleet.Publish(t.Context(), l, h, capacity); err != nil {
			t.Fatal(err)
		}
	}
	for n, gbit := range map[byte]int{1: 2, 2: 3, 3: 8} {
		ask := fleet.Ask{Kbits: gbit * 1e6, Host: a.ID, Traits: []string{fleet.NetworkTrait("red")}}
		if _, err := fleet.Place(t.Context(), l, fleettest.VM(n), fleettest.MAC(n), ask); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := fleet.Publish(t.Context(), l, a, fleettest.Capacity()); err != nil { // 10 Gbit/s
		t.Fatal(err)
	}
	s, err := l.Fleet(t.Context())
	if list := fleet.Relieve(&s, fleet.Seen{}); err != nil || len(list) != 1 || list[0].Kbits != 3e6 || list[0].From != "a" || list[0].Host != "b" {
		t.Errorf("%+v, %v", list, err)
	}
}
