// Package fleettest stands for OpenStack Placement in tests: a ledger in memory with its rules.
package fleettest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sluice/internal/edge/fleet"
)

// Ledger is a fleet.Ledger. The zero value is empty.
type Ledger struct {
	// Before, unless nil, is called before each write; the write fails with what it returns.
	Before func(fleet.Request) error

	mu        sync.Mutex
	providers map[string]*fleet.Provider
	claims    map[string]fleet.Claim
	writes    int
}

// Writes is the number of Requests carried out.
func (l *Ledger) Writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// Tree implements fleet.Ledger.
func (l *Ledger) Tree(_ context.Context, root string, _ bool, consumers ...string) (fleet.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.providers[root]; p != nil {
		root = l.rootOf(p)
	}
	return l.state(func(p *fleet.Provider) bool { return l.rootOf(p) == root }, consumers), nil
}

// Node implements fleet.Reader.
func (l *Ledger) Node(_ context.Context, name string) (fleet.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state(func(p *fleet.Provider) bool { return l.providers[l.rootOf(p)].Name == name }, nil), nil
}

// Fleet implements fleet.Ledger.
func (l *Ledger) Fleet(context.Context) (fleet.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state(func(p *fleet.Provider) bool {
		return slices.Contains(p.Traits, fleet.TraitHost) || slices.Contains(p.Traits, fleet.TraitPF)
	}, nil), nil
}

// All is all that is in the ledger, also providers that are neither hosts nor PFs.
func (l *Ledger) All() fleet.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state(func(*fleet.Provider) bool { return true }, slices.Collect(maps.Keys(l.claims)))
}

// Overview implements fleet.Ledger.
func (l *Ledger) Overview(ctx context.Context) (fleet.State, error) {
	s, err := l.Fleet(ctx)
	for i := range s.Providers {
		p := &s.Providers[i]
		p.Generation, p.Inventories = 0, maps.Clone(p.Inventories)
		for class, inv := range p.Inventories {
			p.Inventories[class] = fleet.Inventory{Total: inv.Total - inv.Reserved}
		}
	}
	return fleet.State{Providers: s.Providers}, err
}

// Hosts implements fleet.Ledger.
func (l *Ledger) Hosts(context.Context) (out []fleet.Host, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.providers {
		if slices.Contains(p.Traits, fleet.TraitHost) {
			out = append(out, fleet.HostBy(id, p.Name))
		}
	}
	slices.SortFunc(out, func(a, b fleet.Host) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Claim implements fleet.Ledger.
func (l *Ledger) Claim(_ context.Context, consumer string) (fleet.Claim, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.claims[consumer]
	return c, ok, nil
}

func (l *Ledger) rootOf(p *fleet.Provider) string {
	for p.Parent != "" {
		p = l.providers[p.Parent]
	}
	return p.ID
}

func (l *Ledger) state(chosen func(*fleet.Provider) bool, consumers []string) fleet.State {
	out := fleet.State{Claims: map[string]fleet.Claim{}}
	for _, id := range slices.Sorted(maps.Keys(l.providers)) {
		p := *l.providers[id]
		if !chosen(&p) {
			continue
		}
		p.Used = l.used(id, "")
		out.Providers = append(out.Providers, p)
	}
	for id, c := range l.claims {
		on := slices.ContainsFunc(out.Providers, func(p fleet.Provider) bool { return c.Amounts[p.ID] != nil })
		if on || slices.Contains(consumers, id) {
			out.Claims[id] = c
		}
	}
	return out
}

// used adds up what consumers but one have of a provider, by class.
func (l *Ledger) used(provider, but string) map[string]int {
	out := map[string]int{}
	for id, c := range l.claims {
		for class, n := range c.Amounts[provider] {
			if id != but {
				out[class] += n
			}
		}
	}
	return out
}

// Candidates implements fleet.Ledger.
func (l *Ledger) Candidates(_ context.Context, a fleet.Ask) (out []fleet.Candidate, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(l.providers)) {
		p := l.providers[id]
		root := l.providers[l.rootOf(p)]
		lacks := slices.ContainsFunc(append([]string{fleet.TraitPF}, a.Traits...), func(t string) bool { return !slices.Contains(p.Traits, t) })
		away := slices.Contains(p.Traits, fleet.TraitDown) || slices.Contains(root.Traits, fleet.TraitDrained) ||
			slices.Contains(root.Traits, fleet.TraitUnenforced)
		if lacks || away || a.Host != "" && a.Host != root.ID {
			continue
		}
		c := fleet.Candidate{Host: root.ID, PF: id, Amounts: fleet.Amounts{id: {fleet.ClassBits: a.Kbits}}}
		if a.Kpackets > 0 {
			c.Amounts[root.ID] = map[string]int{fleet.ClassPackets: a.Kpackets}
		}
		inv := p.Inventories[fleet.ClassBits]
		c.Total, c.Used = inv.Total-inv.Reserved, l.used(id, "")[fleet.ClassBits]
		if l.room(fleet.Claim{Amounts: c.Amounts}) == nil && (a.Limit == 0 || len(out) < a.Limit) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Do implements fleet.Ledger.
func (l *Ledger) Do(_ context.Context, r fleet.Request) error {
	if l.Before != nil {
		if err := l.Before(r); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.providers == nil {
		l.providers, l.claims = map[string]*fleet.Provider{}, map[string]fleet.Claim{}
	}
	l.writes++
	p := l.providers[r.Provider.ID]
	switch r.Kind {
	case fleet.SetClaim:
		return l.claim(r.Claim)
	case fleet.SetClaims:
		return l.all(r.Claims)
	case fleet.CreateProvider:
		return l.create(r.Provider)
	}
	if p == nil {
		return fmt.Errorf("no provider %s", r.Provider.ID)
	}
	used := l.used(p.ID, "")
	if r.Kind == fleet.DeleteProvider {
		if len(used) > 0 {
			return fleet.ErrInUse
		}
		delete(l.providers, p.ID)
		return nil
	}
	if p.Generation != r.Provider.Generation {
		return fleet.ErrStale
	}
	if r.Kind == fleet.SetTraits {
		p.Traits = slices.Compact(slices.Sorted(slices.Values(r.Provider.Traits)))
		p.Generation++
		return nil
	}
	for class := range used {
		if _, ok := r.Provider.Inventories[class]; !ok {
			return fleet.ErrInUse
		}
	}
	for class, inv := range r.Provider.Inventories {
		if inv.Total < 1 || inv.Reserved < 0 || inv.Reserved > inv.Total {
			return fmt.Errorf("a wrong inventory of %s: %+v", class, inv)
		}
	}
	p.Inventories = maps.Clone(r.Provider.Inventories)
	p.Generation++
	return nil
}

func (l *Ledger) create(p fleet.Provider) error {
	for _, other := range l.providers {
		if other.ID == p.ID || other.Name == p.Name {
			return fleet.ErrTaken
		}
	}
	if p.Parent != "" && l.providers[p.Parent] == nil {
		return fmt.Errorf("no provider %s", p.Parent)
	}
	l.providers[p.ID] = &fleet.Provider{ID: p.ID, Name: p.Name, Parent: p.Parent}
	return nil
}

// all sets claims together. Those that end or shrink make room for the others first.
func (l *Ledger) all(claims []fleet.Claim) error {
	before, providers := maps.Clone(l.claims), map[string]*fleet.Provider{}
	for id, p := range l.providers {
		providers[id] = new(fleet.Provider)
		*providers[id] = *p
	}
	claims = slices.SortedStableFunc(slices.Values(claims), func(a, b fleet.Claim) int { return len(a.Amounts) - len(b.Amounts) })
	for _, c := range claims {
		if err := l.claim(c); err != nil {
			l.claims, l.providers = before, providers
			return err
		}
	}
	return nil
}

func (l *Ledger) claim(c fleet.Claim) error {
	old, ok := l.claims[c.Consumer]
	if ok != (c.Generation != fleet.NewConsumer) || ok && old.Generation != c.Generation {
		return fleet.ErrStale
	}
	if len(c.Amounts) == 0 {
		delete(l.claims, c.Consumer)
	} else {
		if err := l.room(c); err != nil {
			return err
		}
		c.Generation++
		if !ok {
			c.Generation = 1
		}
		l.claims[c.Consumer] = c
	}
	for provider := range c.Amounts { // a provider that the claim leaves keeps its generation
		l.providers[provider].Generation++
	}
	return nil
}

// room reports what a claim that replaces the consumer's does not fit into. What is smaller than before always fits.
func (l *Ledger) room(c fleet.Claim) error {
	for provider, classes := range c.Amounts {
		p := l.providers[provider]
		if p == nil {
			return fmt.Errorf("no provider %s", provider)
		}
		used := l.used(provider, c.Consumer)
		for class, n := range classes {
			inv, ok := p.Inventories[class]
			if old := l.claims[c.Consumer].Amounts[provider][class]; !ok || n > old && used[class]+n > inv.Total-inv.Reserved {
				return fleet.ErrFull
			}
		}
	}
	return nil
}
