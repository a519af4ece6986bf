package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// judged is a ledger that a host writes through Judge.
type judged struct {
	*fleettest.Ledger
	host fleet.Host
}

func (j judged) Do(ctx context.Context, r fleet.Request) error {
	s := fleet.State{Claims: map[string]fleet.Claim{}}
	providers, consumers := fleet.Subjects(&r)
	for _, id := range consumers {
		if c, ok, _ := j.Claim(ctx, id); ok {
			s.Claims[id] = c
			providers = slices.AppendSeq(providers, maps.Keys(c.Amounts))
		}
	}
	all := j.All()
	for i := range all.Providers {
		created := r.Kind == fleet.CreateProvider && all.Providers[i].Parent == j.host.ID
		if created || slices.Contains(providers, all.Providers[i].ID) {
			s.Providers = append(s.Providers, all.Providers[i])
		}
	}
	if err := fleet.Judge(j.host, &r, &s); err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	return j.Ledger.Do(ctx, r)
}

// Hosts need no more than Judge allows them.
func TestJudgeLetsHostsPublish(t *testing.T) {
	l := &fleettest.Ledger{}
	fleettest.ContractAs(t, l, func(h fleet.Host) fleet.Ledger { return judged{l, h} })
}

// A stolen certificate of a host alters no other host's provider or claim, in any order of any requests.
func TestJudgeKeepsOthers(t *testing.T) {
	done := map[fleet.Kind]int{}
	rapid.Check(t, func(rt *rapid.T) {
		l := &fleettest.Ledger{}
		hosts := fleettest.Victims(t, l)
		before := l.All()
		want := fleettest.Others(&before, hosts[0])
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			now := l.All()
			r := fleettest.Attack(&now, hosts).Draw(rt, "request")
			if (judged{l, hosts[0]}).Do(context.Background(), r) == nil {
				done[r.Kind]++
			}
			after := l.All()
			if got := fleettest.Others(&after, hosts[0]); !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s changed what is others':\n%+v, before\n%+v", r, got, want)
			}
		}
	})
	t.Log("let through:", done)
}

// What a host must not do to its own claims and providers.
func TestJudgeRefuses(t *testing.T) {
	l := &fleettest.Ledger{}
	hosts := fleettest.Victims(t, l)
	a, b := hosts[0], hosts[1]
	claimOf := func(n byte) fleet.Claim {
		id, _ := fleet.Consumer(fleettest.VM(n), fleettest.MAC(n))
		c, ok, _ := l.Claim(t.Context(), id)
		if !ok {
			t.Fatalf("no claim %d", n)
		}
		return c
	}
	at := func(provider string) *fleet.Provider {
		all := l.All()
		i := slices.IndexFunc(all.Providers, func(p fleet.Provider) bool { return p.ID == provider })
		return &all.Providers[i]
	}
	with := func(c fleet.Claim, amounts fleet.Amounts) fleet.Request {
		c.Amounts = amounts
		return fleet.Request{Kind: fleet.SetClaim, Claim: c}
	}
	onA := fleet.Amounts{a.PF(fleettest.PF0): {fleet.ClassBits: 5e5}}
	fresh := fleet.Holder{By: fleet.ByHost, VM: fleettest.VM(30), MAC: fleettest.MAC(30)}
	id, _ := fleet.Consumer(fresh.VM, fresh.MAC)
	made := fleet.Claim{Consumer: id, Generation: fleet.NewConsumer, Type: fleet.ConsumerType, User: fresh.User()}
	placed, dashes := made, made
	placed.User = fleet.Holder{By: fleet.ByPlace, VM: fresh.VM, MAC: fresh.MAC}.User()
	dashes.Consumer, _ = fleet.Consumer(fresh.VM, "52-54-00-00-00-1e")
	dashes.User = "host " + fresh.VM + " 52-54-00-00-00-1e"
	renamed := claimOf(0)
	renamed.User = fleet.Holder{By: fleet.ByPlace, VM: fleettest.VM(0), MAC: fleettest.MAC(0)}.User()
	aged := claimOf(0)
	aged.Generation--
	stale := *at(a.ID)
	stale.Generation--
	traits := *at(a.ID)
	traits.Traits = append(traits.Traits, "MISC_SHARES_VIA_AGGREGATE")
	vcpus := *at(a.ID)
	vcpus.Inventories = map[string]fleet.Inventory{"VCPU": {Total: 1}}
	for name, c := range map[string]struct {
		r     fleet.Request
		stale bool
	}{
		"what was placed on it made smaller":   {with(claimOf(8), onA), false},
		"what was placed on it ended":          {with(claimOf(8), nil), false},
		"its claim moved to another's PF":      {with(claimOf(0), fleet.Amounts{b.PF(fleettest.PF0): {fleet.ClassBits: 1}}), false},
		"its claim extended to another's PF":   {with(claimOf(0), fleet.Amounts{a.PF(fleettest.PF0): {fleet.ClassBits: 1}, b.ID: {fleet.ClassPackets: 1}}), false},
		"another's claim moved to it":          {with(claimOf(1), onA), false},
		"another's claim ended":                {with(claimOf(1), nil), false},
		"its claim made one that was placed":   {with(renamed, renamed.Amounts), false},
		"its claim in another generation":      {with(aged, onA), true},
		"a claim that has ended":               {with(made, nil), true},
		"a claim as place makes them":          {with(placed, onA), false},
		"a MAC address in another form":        {with(dashes, onA), false},
		"a claim of another class":             {with(made, fleet.Amounts{a.ID: {"VCPU": 1}}), false},
		"several claims":                       {fleet.Request{Kind: fleet.SetClaims, Claims: []fleet.Claim{claimOf(0)}}, false},
		"its own root deleted":                 {fleet.Request{Kind: fleet.DeleteProvider, Provider: *at(a.ID)}, false},
		"another's PF deleted":                 {fleet.Request{Kind: fleet.DeleteProvider, Provider: *at(b.PF(fleettest.PF0))}, false},
		"its own in another generation":        {fleet.Request{Kind: fleet.SetTraits, Provider: stale}, true},
		"a trait of others":                    {fleet.Request{Kind: fleet.SetTraits, Provider: traits}, false},
		"an inventory of others":               {fleet.Request{Kind: fleet.SetInventories, Provider: vcpus}, false},
		"another's inventory":                  {fleet.Request{Kind: fleet.SetInventories, Provider: *at(b.ID)}, false},
		"a root by the UUID of another":        {fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: fleettest.Host("c").ID, Name: "sluice:a"}}, false},
		"a root by the name of another":        {fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: a.ID, Name: "sluice:c"}}, false},
		"its root below another's":             {fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: a.ID, Name: "sluice:a", Parent: b.ID}}, false},
		"its PF below another's":               {fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: a.PF(fleettest.PF2), Name: "sluice:a:" + fleettest.PF2, Parent: b.ID}}, false},
		"a PF by another's name":               {fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: a.PF(fleettest.PF2), Name: "sluice:b:" + fleettest.PF2, Parent: a.ID}}, false},
		"a PF whose address is not of PCI":     {fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: a.PF("x"), Name: "sluice:a:x", Parent: a.ID}}, false},
		"a claim beside another's of its type": {with(fleet.Claim{Consumer: id, Type: "INSTANCE", User: fresh.User(), Generation: fleet.NewConsumer}, onA), false},
	} {
		t.Run(name, func(t *testing.T) {
			before := l.All()
			err := judged{l, a}.Do(t.Context(), c.r)
			if err == nil || !strings.HasPrefix(err.Error(), "refused") || errors.Is(err, fleet.ErrStale) != c.stale {
				t.Errorf("%v", err)
			}
			if after := l.All(); !reflect.DeepEqual(after, before) {
				t.Error("it was done")
			}
		})
	}
	// Room that is held for a migration to b is kept by b alone, as it is.
	kept, ok, _ := l.Claim(t.Context(), roomOf(t, 8))
	if !ok {
		t.Fatal("no room")
	}
	kept.User = strings.Replace(kept.User, "migration", "kept", 1)
	less := kept
	less.Amounts = nil
	for _, r := range []struct {
		host fleet.Host
		c    fleet.Claim
		ok   bool
	}{{a, kept, false}, {b, less, false}, {b, kept, true}} {
		if err := (judged{l, r.host}).Do(t.Context(), fleet.Request{Kind: fleet.SetClaim, Claim: r.c}); (err == nil) != r.ok {
			t.Errorf("%s keeps %+v: %v", r.host.Name, r.c, err)
		}
	}
	// It may claim for a VM that has no claim, and let what was placed grow.
	for _, r := range []fleet.Request{
		with(made, onA), with(claimOf(8), fleet.Amounts{a.PF(fleettest.PF1): {fleet.ClassBits: 2e6}}), with(claimOf(0), nil),
	} {
		if err := (judged{l, a}).Do(t.Context(), r); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// roomOf is the consumer of the room for a migration of the NIC of Guarantee.
func roomOf(t *testing.T, n byte) string {
	t.Helper()
	id, err := fleet.Consumer(fleettest.VM(n), fleettest.MAC(n))
	if err != nil {
		t.Fatal(err)
	}
	room, err := fleet.Consumer(id, "migration")
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// A host publishes as many PFs as one can have, and no more.
func TestJudgeBoundsPFs(t *testing.T) {
	l := &fleettest.Ledger{}
	h := fleettest.Host("a")
	mine := judged{l, h}
	if err := mine.Do(t.Context(), fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: h.ID, Name: "sluice:a"}}); err != nil {
		t.Fatal(err)
	}
	for n := range 65 {
		address := fmt.Sprintf("0000:%02x:00.0", n)
		p := fleet.Provider{ID: h.PF(address), Name: "sluice:a:" + address, Parent: h.ID}
		err := mine.Do(t.Context(), fleet.Request{Kind: fleet.CreateProvider, Provider: p})
		if (err == nil) != (n < 64) || err != nil && !strings.Contains(err.Error(), "64 PFs") {
			t.Errorf("PF %d: %v", n+1, err)
		}
	}
}
