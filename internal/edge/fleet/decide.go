package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/api/v1"
)

// Plan is what is to be written now. If it is done, or somebody else writes meanwhile, the ledger is read and decided on again.
type Plan struct {
	Requests  []Request
	Unclaimed []Unclaimed     // guarantees that have no claim, or a smaller one
	Placed    []api.HostClaim // what its daemon is to keep
	Kept      []Request       // mark rooms that it keeps, once it has been told of all that is placed
	News      bool            // it has not been told of all that yet, or of more
}

// Unclaimed is a guarantee that the host keeps without a claim.
type Unclaimed struct {
	Promise Promise
	Why     string
}

// String says it in a line.
func (u *Unclaimed) String() string {
	return fmt.Sprintf("%s's %s is guaranteed more than it claims: %s", u.Promise.Name, u.Promise.NIC, u.Why)
}

// Decide compares what a host offers with what the ledger says of it. It touches only the host's own providers, on them only Sluice's
// traits and classes, and only claims that the host made itself or whose VM is there. Each provider is written once, because the next
// write needs the generation that this one leaves; claims follow when the providers are right.
func Decide(o *Offer, s *State) (Plan, error) {
	d := decision{offer: o, state: s, have: map[string]*Provider{}, want: map[string]*Provider{}, used: Amounts{}}
	for i := range s.Providers {
		d.have[s.Providers[i].ID] = &s.Providers[i]
		d.used[s.Providers[i].ID] = maps.Clone(s.Providers[i].Used)
	}
	for i := range o.Providers {
		p := &o.Providers[i]
		if have := d.have[p.ID]; have != nil && have.Name != p.Name {
			return Plan{}, fmt.Errorf("the ledger calls this host %q, not %q: if both are hosts, they have the same UUID, "+
				"give each one of its own with --host-uuid; if it was renamed, `openstack resource provider set --name %s %s`",
				hostOf(have.Name), o.Host.Name, p.Name, p.ID)
		}
		d.want[p.ID] = p
	}
	d.claims()
	var plan Plan
	plan.Unclaimed, plan.Placed = d.unclaimed, d.placed()
	plan.Kept = d.kept
	plan.News = !maps.EqualFunc(o.Told, told(plan.Placed), func(bool, bool) bool { return true })
	for i := range o.Providers {
		plan.Requests = append(plan.Requests, d.write(&o.Providers[i])...)
	}
	for i := range s.Providers {
		if p := &s.Providers[i]; d.want[p.ID] == nil && o.Host.owns(p) {
			plan.Requests = append(plan.Requests, d.retire(p)...)
		}
	}
	if len(plan.Requests) == 0 {
		plan.Requests = d.requests
	}
	return plan, nil
}

type decision struct {
	offer      *Offer
	state      *State
	have, want map[string]*Provider // by ID
	used       Amounts              // after the requests
	requests   []Request            // of claims
	kept       []Request            // that mark rooms
	unclaimed  []Unclaimed
	reserve    Amounts // what the unclaimed lack
}

// claims decides who claims what.
func (d *decision) claims() {
	d.reserve = Amounts{}
	promised := map[string]bool{}
	for i := range d.offer.Promises {
		promised[d.offer.Promises[i].Consumer] = true
	}
	for _, id := range slices.Sorted(maps.Keys(d.state.Claims)) {
		c := d.state.Claims[id]
		if h, ours := HolderOf(&c); ours && h.By == ByHost && !promised[id] && d.here(c.Amounts) {
			d.claim(c, nil)
		}
	}
	// What needs no room goes first, for it may make some.
	var later []*Promise
	for i := range d.offer.Promises {
		p := &d.offer.Promises[i]
		if why, done := d.promise(p, false); !done {
			later = append(later, p)
		} else if why != "" {
			d.unclaimed = append(d.unclaimed, Unclaimed{*p, why})
		}
	}
	for _, p := range later {
		if why, _ := d.promise(p, true); why != "" {
			d.unclaimed = append(d.unclaimed, Unclaimed{*p, why})
		}
	}
}

// placed lists what place has claimed at this host, and what is claimed for migrations to it. What the host has claimed itself is not
// among it: it would keep itself alive. Room that the daemon keeps is to be marked, so that the migration may begin.
func (d *decision) placed() (out []api.HostClaim) {
	for _, id := range slices.Sorted(maps.Keys(d.state.Claims)) {
		c := d.state.Claims[id]
		h, ours := HolderOf(&c)
		room, comes := migrationOf(&c)
		if ours && h.By != ByPlace || !ours && !comes || !d.here(c.Amounts) {
			continue
		}
		if comes {
			h = room
			// A migration that has just ended may be seen twice.
			if consumer, _ := Consumer(h.VM, h.MAC); d.has(consumer) {
				continue
			}
		}
		claim := api.HostClaim{ID: strings.ToLower(h.VM), MAC: strings.ToLower(h.MAC)} // as the daemon repeats it
		for provider, classes := range c.Amounts {
			claim.Rate.Bits += float64(classes[ClassBits]) * 1e3
			claim.Rate.Packets += float64(classes[ClassPackets]) * 1e3
			if classes[ClassBits] > 0 {
				claim.PF = strings.ToLower(addressOf(d.have[provider].Name))
			}
		}
		if claim.PF == "" {
			continue
		}
		out = append(out, claim)
		if h.By == byMigration && d.offer.Told[claim] {
			h.By = byKept
			c.User = h.User()
			d.kept = append(d.kept, Request{Kind: SetClaim, Claim: c})
		}
	}
	return out
}

// has reports whether a consumer has a claim at this host.
func (d *decision) has(consumer string) bool {
	c, ok := d.state.Claims[consumer]
	return ok && d.here(c.Amounts)
}

func told(list []api.HostClaim) map[api.HostClaim]bool {
	out := map[api.HostClaim]bool{}
	for _, c := range list {
		out[c] = true
	}
	return out
}

// promise claims what is promised to a NIC, or says why not. Without grow it is not done if it needs room.
func (d *decision) promise(p *Promise, grow bool) (why string, done bool) {
	want := d.offered(p.Amounts)
	if len(want) == 0 {
		return "", true // nothing that could be claimed
	}
	if p.Consumer == "" {
		d.lacks(want)
		return "the NIC has no MAC address of its own, or its VM no UUID", true
	}
	c, claimed := d.state.Claims[p.Consumer]
	if !claimed {
		c = Claim{Consumer: p.Consumer, Generation: NewConsumer, Type: ConsumerType, User: p.Holder.User()}
	}
	h, ours := HolderOf(&c)
	switch {
	case !ours:
		d.lacks(want)
		return fmt.Sprintf("somebody else uses the consumer %s", p.Consumer), true
	case !d.here(c.Amounts):
		d.lacks(want)
		return "its claim is at another host", true
	case h.By == ByPlace:
		want = d.atLeast(want, c.Amounts)
	}
	missing := beyond(want, c.Amounts)
	if len(missing) > 0 && !grow {
		return "", false
	}
	if !d.fits(missing) {
		d.lacks(missing)
		return "the ledger has no room for it", true
	}
	if !equal(want, c.Amounts) {
		d.claim(c, want)
	}
	return "", true
}

// fits reports whether there is room for more.
func (d *decision) fits(more Amounts) bool {
	for provider, classes := range more {
		p := d.want[provider]
		for class, n := range classes {
			if p == nil || d.used[provider][class]+n > p.Inventories[class].Total {
				return false
			}
		}
	}
	return true
}

// claim changes a claim. What it leaves is not counted as room if it needs room elsewhere, for that may be refused: the next look has it.
func (d *decision) claim(c Claim, want Amounts) {
	grows := len(beyond(want, c.Amounts)) > 0
	for provider, classes := range beyond(want, c.Amounts) {
		for class, n := range classes {
			d.used.add(provider, class, n)
		}
	}
	for provider, classes := range beyond(c.Amounts, want) {
		for class, n := range classes {
			if !grows {
				d.used.add(provider, class, -n)
			}
		}
	}
	c.Amounts = want
	d.requests = append(d.requests, Request{Kind: SetClaim, Claim: c})
}

// beyond is by how much a exceeds b.
func beyond(a, b Amounts) Amounts {
	out := Amounts{}
	for provider, classes := range a {
		for class, n := range classes {
			out.add(provider, class, max(0, n-b[provider][class]))
		}
	}
	return out
}

// lacks reserves what has no claim.
func (d *decision) lacks(what Amounts) {
	for provider, classes := range what {
		for class, n := range classes {
			d.reserve.add(provider, class, n)
		}
	}
}

// here reports whether all of a claim is at this host.
func (d *decision) here(a Amounts) bool {
	for provider := range a {
		if p := d.have[provider]; p == nil || p.ID != d.offer.Host.ID && !d.offer.Host.owns(p) {
			return false
		}
	}
	return true
}

// offered leaves out what no provider has of: packets where nobody says how many the host carries, links of unknown speed.
func (d *decision) offered(a Amounts) Amounts {
	out := Amounts{}
	for provider, classes := range a {
		for class, n := range classes {
			if p := d.want[provider]; p != nil && p.Inventories[class].Total > 0 {
				out.add(provider, class, n)
			}
		}
	}
	return out
}

// atLeast is what is wanted, but no less of a class than was claimed before the VM came, and at the PF that the VM has now.
func (d *decision) atLeast(want, claimed Amounts) Amounts {
	out, at := Amounts{}, map[string]string{}
	for provider, classes := range want {
		for class, n := range classes {
			out.add(provider, class, n)
			at[class] = provider
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(claimed)) {
		for class, n := range claimed[provider] {
			if at[class] == "" {
				at[class] = provider
			}
			out.add(at[class], class, max(0, n-out[at[class]][class]))
		}
	}
	return out
}

func equal(a, b Amounts) bool {
	return maps.EqualFunc(a, b, maps.Equal)
}

// write brings a provider closer to what it should be.
func (d *decision) write(want *Provider) []Request {
	have := d.have[want.ID]
	if have == nil {
		return []Request{{Kind: CreateProvider, Provider: *want}}
	}
	next := *have
	next.Inventories = maps.Clone(have.Inventories)
	if next.Inventories == nil {
		next.Inventories = map[string]Inventory{}
	}
	for _, class := range []string{ClassBits, ClassPackets} {
		inv, offered := want.Inventories[class]
		used := d.used[want.ID][class]
		old, there := have.Inventories[class]
		switch {
		case offered:
			next.Inventories[class] = plain(inv.Total, min(d.reserve[want.ID][class], inv.Total-used))
		case there:
			d.withdraw(next.Inventories, class, old, max(used, have.Used[class]))
		}
	}
	return changes(have, &next, want.Traits)
}

// retire takes a PF that is gone out of the ledger, as far as nobody has a claim on it.
func (d *decision) retire(have *Provider) []Request {
	next := *have
	next.Inventories = maps.Clone(have.Inventories)
	if inv, there := next.Inventories[ClassBits]; there {
		d.withdraw(next.Inventories, ClassBits, inv, max(have.Used[ClassBits], d.used[have.ID][ClassBits]))
	}
	foreign := slices.ContainsFunc(have.Traits, func(t string) bool { return !isOurs(t) })
	if len(next.Inventories) == 0 && !foreign && !d.hasChildren(have) {
		return []Request{{Kind: DeleteProvider, Provider: *have}}
	}
	return changes(have, &next, []string{TraitPF, TraitDown})
}

// withdraw offers nothing more of a class. What is claimed of it stays.
func (d *decision) withdraw(inventories map[string]Inventory, class string, old Inventory, used int) {
	if used == 0 {
		delete(inventories, class)
	} else {
		inventories[class] = plain(old.Total, old.Total-used)
	}
}

func (d *decision) hasChildren(p *Provider) bool {
	return slices.ContainsFunc(d.state.Providers, func(o Provider) bool { return o.Parent == p.ID })
}

// changes is the next write that makes have into next, with these traits besides those that are not ours.
func changes(have, next *Provider, traits []string) []Request {
	for _, t := range have.Traits {
		if !isOurs(t) {
			traits = append(slices.Clip(traits), t)
		}
	}
	next.Traits = slices.Compact(slices.Sorted(slices.Values(traits)))
	if !maps.Equal(have.Inventories, next.Inventories) {
		return []Request{{Kind: SetInventories, Provider: *next}}
	}
	if strings.Join(slices.Sorted(slices.Values(have.Traits)), " ") != strings.Join(next.Traits, " ") {
		return []Request{{Kind: SetTraits, Provider: *next}}
	}
	return nil
}
