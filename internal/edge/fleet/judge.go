package fleet

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	ownTrait   = regexp.MustCompile(`^` + traitPrefix + `[A-Z0-9_]{1,200}$`)
)

// OwnTrait reports whether a trait is one that Sluice may create.
func OwnTrait(name string) bool { return ownTrait.MatchString(name) }

// Judge says why a host may not make a Request, for whoever stands between hosts and a ledger that lets everybody write everything; nil: it
// may. ErrStale: it has to read again. The State is what the ledger says now of what Subjects names, of the providers that those
// consumers have claims on, and, if a provider is to be created, of the host's. Nothing may write between Judge and the Request.
//
// A host may write its own providers: that with its UUID, and those of its PFs, whose UUIDs are made of that one. Its providers have its
// name, so that none can be taken for another's. It may claim on them for VMs that have no claim, and change claims that are on nothing
// else; what place has claimed never becomes less.
func Judge(h Host, r *Request, s *State) error {
	have := s.provider(r.Provider.ID)
	switch r.Kind {
	case CreateProvider:
		return h.mayCreate(&r.Provider, s)
	case DeleteProvider:
		if have == nil || !h.owns(have) {
			return errors.New("it is not a PF of this host")
		}
		return nil
	case SetInventories, SetTraits:
		switch {
		case have == nil || have.ID != h.ID && !h.owns(have):
			return errors.New("the provider is not this host's")
		case have.Generation != r.Provider.Generation:
			return ErrStale
		case r.Kind == SetTraits:
			return mayHaveTraits(have.Traits, r.Provider.Traits)
		}
		return mayHaveInventories(have.Inventories, r.Provider.Inventories)
	case SetClaim:
		return h.mayClaim(&r.Claim, s)
	}
	return errors.New("only operators may do that")
}

// Subjects returns the providers and consumers that a Request is about, besides those that the consumers have claims on.
func Subjects(r *Request) (providers, consumers []string) {
	claims := r.Claims
	switch r.Kind {
	case SetClaim:
		claims = []Claim{r.Claim}
	case SetClaims:
	default:
		return []string{r.Provider.ID}, nil
	}
	for i := range claims {
		consumers = append(consumers, claims[i].Consumer)
		providers = slices.AppendSeq(providers, maps.Keys(claims[i].Amounts))
	}
	return providers, consumers
}

func (s *State) provider(id string) *Provider {
	i := slices.IndexFunc(s.Providers, func(p Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Providers[i]
}

// mostPFs is how many PFs a host may publish through the proxy.
const mostPFs = 64

func (h Host) mayCreate(p *Provider, s *State) error {
	if p.ID == h.ID && p.Name == h.providerName() && p.Parent == "" {
		return nil
	}
	address := addressOf(p.Name)
	if h.owns(p) && p.Name == h.pfName(address) && pciAddress.MatchString(address) {
		n := 0
		for i := range s.Providers {
			if s.Providers[i].Parent == h.ID {
				n++
			}
		}
		if n >= mostPFs {
			return fmt.Errorf("this host has %d PFs in the ledger already, the most that one may have", n)
		}
		return nil
	}
	return fmt.Errorf("this host's providers are %s with the UUID %s, and its PFs below it", h.providerName(), h.ID)
}

// mayHaveTraits requires that only Sluice's traits change.
func mayHaveTraits(have, want []string) error {
	for _, t := range slices.Concat(have, want) {
		if !OwnTrait(t) && slices.Contains(have, t) != slices.Contains(want, t) {
			return fmt.Errorf("the trait %s is not Sluice's", t)
		}
	}
	return nil
}

// mayHaveInventories requires that only Sluice's classes change.
func mayHaveInventories(have, want map[string]Inventory) error {
	for _, both := range []map[string]Inventory{have, want} {
		for class := range both {
			if class != ClassBits && class != ClassPackets && have[class] != want[class] {
				return fmt.Errorf("the resource class %s is not Sluice's", class)
			}
		}
	}
	return nil
}

func (h Host) mayClaim(c *Claim, s *State) error {
	old, exists := s.Claims[c.Consumer]
	holder, ours := HolderOf(c)
	if room, comes := migrationOf(c); comes {
		return h.mayKeep(room, c, &old, exists, s)
	}
	switch {
	case !ours:
		return errors.New("it is not the claim of a VM's NIC, made as Sluice makes them")
	case !exists && (c.Generation != NewConsumer || len(c.Amounts) == 0):
		return ErrStale // it has ended meanwhile
	case !exists && holder.By != ByHost:
		return errors.New("only operators may place a VM")
	case exists && (old.Type != c.Type || old.User != c.User):
		return errors.New("the claim was made by somebody else")
	case exists && !h.all(old.Amounts, s):
		return errors.New("the claim is not at this host alone")
	case exists && old.Generation != c.Generation:
		return ErrStale
	case !h.all(c.Amounts, s):
		return errors.New("this host may claim on its own providers only")
	}
	for _, class := range []string{ClassBits, ClassPackets} {
		if exists && holder.By == ByPlace && total(c, class) < total(&old, class) {
			return errors.New("only operators may take away what was placed")
		}
	}
	return nil
}

// mayKeep lets a host say that it keeps room which is held there for a migration, and change nothing else.
func (h Host) mayKeep(room Holder, c, old *Claim, exists bool, s *State) error {
	before := Holder{By: byMigration, VM: room.VM, MAC: room.MAC}
	switch {
	case !exists || room.By != byKept || old.User != before.User() || old.Type != c.Type || !equal(old.Amounts, c.Amounts),
		!h.all(old.Amounts, s):
		return errors.New("of room that is held for a migration, a host may say only that it keeps it")
	case old.Generation != c.Generation:
		return ErrStale
	}
	return nil
}

// all reports whether all of the amounts are of Sluice's classes and at this host's providers.
func (h Host) all(a Amounts, s *State) bool {
	for id, classes := range a {
		if p := s.provider(id); p == nil || p.ID != h.ID && !h.owns(p) {
			return false
		}
		for class := range classes {
			if class != ClassBits && class != ClassPackets {
				return false
			}
		}
	}
	return true
}
