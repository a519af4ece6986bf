package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Evacuated is what became of a claim at a host that is dead.
type Evacuated struct {
	VM       string `json:"uuid"`
	MAC      string `json:"mac"`
	Kbits    int    `json:"kilobits_per_second"`
	Kpackets int    `json:"kilopackets_per_second,omitempty"`
	From     string `json:"from_pci_address"`
	Host     string `json:"host,omitempty"` // where the claim is now; "": still at the dead host
	PF       string `json:"pci_address,omitempty"`
	Why      string `json:"why,omitempty"` // it is not moved
}

// Evacuate moves the claims at a host that is dead to others with the same network, each in one write, the largest first: what is left
// then fits more easily. Before that the host is marked as drained, so that nobody is placed there until it publishes again. Claims that
// have moved stay until they are released: their VMs have still to be started there. Claims of others are not touched. It may be repeated.
// before, unless nil, is called before each claim of how many.
func Evacuate(ctx context.Context, l Ledger, host Host, before func(e *Evacuated, n, of int)) ([]Evacuated, error) {
	s, err := markDrained(ctx, l, host)
	if err != nil {
		return nil, err
	}
	pfs := map[string]*Provider{}
	for i := range s.Providers {
		pfs[s.Providers[i].ID] = &s.Providers[i]
	}
	list := slices.Collect(maps.Values(s.Claims))
	list = slices.DeleteFunc(list, func(c Claim) bool { _, ours := HolderOf(&c); return !ours })
	slices.SortFunc(list, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(total(&b, ClassBits), total(&a, ClassBits)), cmp.Compare(a.Consumer, b.Consumer))
	})
	out := []Evacuated{}
	for i := range list {
		c := &list[i]
		holder, _ := HolderOf(c)
		e := Evacuated{VM: holder.VM, MAC: holder.MAC, Kbits: total(c, ClassBits), Kpackets: total(c, ClassPackets)}
		if before != nil {
			before(&e, len(out), len(list))
		}
		ask := Ask{Kbits: e.Kbits, Kpackets: e.Kpackets, Limit: mostCandidates}
		elsewhere := false
		for id := range c.Amounts {
			p := pfs[id]
			if p == nil {
				elsewhere = true
				continue
			}
			if e.From = cmp.Or(addressOf(p.Name), e.From); p.Parent != "" {
				ask.Traits = slices.DeleteFunc(slices.Clone(p.Traits), func(t string) bool { return !strings.HasPrefix(t, traitNetwork) })
			}
		}
		if elsewhere {
			e.Why = "it claims at another host too: `sluice fleet release` ends it"
		} else if err := evacuate(ctx, l, c, holder, ask, &e); err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

// total is what a claim has of a class.
func total(c *Claim, class string) (n int) {
	for _, classes := range c.Amounts {
		n += classes[class]
	}
	return n
}

// markDrained returns what the ledger says of the host once its trait says that it is drained.
func markDrained(ctx context.Context, l Ledger, host Host) (State, error) {
	for range mostPasses {
		s, err := l.Tree(ctx, host.ID, true)
		if err != nil {
			return s, err
		}
		i := slices.IndexFunc(s.Providers, func(p Provider) bool { return p.ID == host.ID })
		if i < 0 {
			return s, fmt.Errorf("no host %s has been published", host.Name)
		}
		p := s.Providers[i]
		if slices.Contains(p.Traits, TraitDrained) {
			return s, nil
		}
		p.Traits = append(slices.Clone(p.Traits), TraitDrained)
		if err := l.Do(ctx, Request{Kind: SetTraits, Provider: p}); err != nil && !errors.Is(err, ErrStale) {
			return s, err
		}
	}
	return State{}, fmt.Errorf("others write to the host %s all the time: is it really dead?", host.Name)
}

// evacuate moves one claim, and describes where to.
func evacuate(ctx context.Context, l Ledger, c *Claim, holder Holder, ask Ask, e *Evacuated) error {
	holder.By = ByPlace // the new host does not have the VM yet, and must keep the claim nevertheless
	for range mostLooks {
		list, err := l.Candidates(ctx, ask)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			e.Why = ErrNowhere.Error() + where(ask.Traits)
			return nil
		}
		slices.SortStableFunc(list, better)
		for i := range list {
			moved := Claim{Consumer: c.Consumer, Generation: c.Generation, Type: c.Type, User: holder.User(), Amounts: list[i].Amounts}
			err := l.Do(ctx, Request{Kind: SetClaim, Claim: moved})
			if err == nil {
				p, err := describe(ctx, l, Placement{}, &moved)
				e.Host, e.PF = p.Host, p.PF
				return err
			}
			if !errors.Is(err, ErrFull) && !errors.Is(err, ErrStale) {
				return err
			}
		}
		now, ok, err := l.Claim(ctx, c.Consumer)
		if err != nil {
			return err
		}
		if !ok || !maps.EqualFunc(now.Amounts, c.Amounts, maps.Equal) {
			e.Why = "somebody else has changed it meanwhile: look again"
			return nil
		}
		*c = now
	}
	return errors.New("others claim all the time: try again")
}
