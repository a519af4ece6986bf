package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Placement is where a VM can go: its claim is in the ledger.
type Placement struct {
	VM       string `json:"uuid"`
	MAC      string `json:"mac"`
	Consumer string `json:"consumer"`
	Host     string `json:"host"`
	PF       string `json:"pci_address"`
	Kbits    int    `json:"kilobits_per_second"`
	Kpackets int    `json:"kilopackets_per_second,omitempty"`
	Before   bool   `json:"already_placed"` // it was there before, and nothing was changed
	Refused  int    `json:"refused"`        // candidates that others took first
}

// ErrNowhere means that no host has room.
var ErrNowhere = errors.New("no host has room")

// mostCandidates is how many are looked at, unless an Ask says.
const mostCandidates = 10

// mostByLoad is the same if the load is known: Placement, which does not know it, chooses which these are.
const mostByLoad = 200

// mostLooks bounds how often Place looks for candidates. After each look in vain somebody else has written.
const mostLooks = 100

// Place claims a guarantee for a NIC of a VM, on the best candidate: that with the greatest part of its link still free afterwards, of what
// is claimed and, if the load is known and greater, of what is sent. If another claim was faster, the next candidate is tried. A claim that
// is there already is returned as it is.
func Place(ctx context.Context, l Ledger, vm, mac string, a Ask) (Placement, error) {
	id, err := Consumer(vm, mac)
	if err != nil {
		return Placement{}, err
	}
	if a.Limit == 0 {
		a.Limit = mostCandidates
		if a.Load != nil {
			a.Limit = mostByLoad
		}
	}
	p := Placement{VM: vm, MAC: mac, Consumer: id}
	for range mostLooks {
		c, ok, err := l.Claim(ctx, id)
		if err != nil {
			return p, err
		}
		if ok {
			return placedBefore(ctx, l, p, &c, a)
		}
		list, err := l.Candidates(ctx, a)
		if err != nil {
			return p, err
		}
		if len(list) == 0 {
			return p, fmt.Errorf("%w for %s%s: `sluice fleet list` shows what is free", ErrNowhere, Rate(a.Kbits, a.Kpackets), where(a.Traits))
		}
		for i := range list {
			list[i].Used = max(list[i].Used, a.Load[list[i].PF])
		}
		slices.SortStableFunc(list, better)
		for i := range list {
			c := Claim{
				Consumer: id, Generation: NewConsumer, Type: ConsumerType, User: Holder{By: ByPlace, VM: vm, MAC: mac}.User(), Amounts: list[i].Amounts,
			}
			err := l.Do(ctx, Request{Kind: SetClaim, Claim: c})
			if err == nil {
				return describe(ctx, l, p, &c)
			}
			if !errors.Is(err, ErrFull) && !errors.Is(err, ErrStale) {
				return p, err
			}
			p.Refused++
		}
	}
	return p, errors.New("others claim all the time: try again")
}

// Rate is a rate in Placement's units, as text.
func Rate(kbits, kpackets int) string {
	return model.Rate{Bits: uint64(max(0, kbits)) * 1e3, Packets: uint64(max(0, kpackets)) * 1e3}.String()
}

func where(traits []string) string {
	if len(traits) == 0 {
		return ""
	}
	return " with " + strings.Join(traits, " and ")
}

// better compares what is left of the links, as parts of them.
func better(a, b Candidate) int {
	left := func(c *Candidate) float64 {
		return float64(c.Total-c.Used-c.Amounts[c.PF][ClassBits]) / float64(max(1, c.Total))
	}
	return cmp.Or(cmp.Compare(left(&b), left(&a)), cmp.Compare(a.PF, b.PF))
}

// placedBefore answers a repeated question. What a host says of itself decides nothing: it could draw a VM to it that way.
func placedBefore(ctx context.Context, l Ledger, p Placement, c *Claim, a Ask) (Placement, error) {
	holder, ours := HolderOf(c)
	if !ours {
		return p, fmt.Errorf("somebody else uses the consumer %s (type %s)", c.Consumer, c.Type)
	}
	p.Before = true
	p, err := describe(ctx, l, p, c)
	if err == nil && holder.By != ByPlace {
		return p, fmt.Errorf("host %s says that the VM has %s there already: look there, and if it has not, end the claim by "+
			"`sluice fleet release`", p.Host, Rate(p.Kbits, p.Kpackets))
	}
	if err == nil && (p.Kbits != a.Kbits || p.Kpackets != a.Kpackets) {
		return p, fmt.Errorf("it has a claim already, on %s: %s; `sluice fleet release` ends it", p.Host, Rate(p.Kbits, p.Kpackets))
	}
	return p, err
}

// describe adds the names of what is claimed.
func describe(ctx context.Context, l Ledger, p Placement, c *Claim) (Placement, error) {
	for provider, classes := range c.Amounts {
		p.Kbits += classes[ClassBits]
		p.Kpackets += classes[ClassPackets]
		state, err := l.Tree(ctx, provider, false)
		if err != nil {
			return p, fmt.Errorf("there is a claim, but its host cannot be read: %w", err)
		}
		for i := range state.Providers {
			if o := &state.Providers[i]; o.ID == provider {
				p.Host = hostOf(o.Name)
				p.PF = cmp.Or(addressOf(o.Name), p.PF)
			}
		}
	}
	return p, nil
}

// Where returns what a NIC has claimed, and where; nothing of a host: it has no claim. Nothing is written.
func Where(ctx context.Context, l Ledger, vm, mac string) (Placement, error) {
	id, err := Consumer(vm, mac)
	p := Placement{VM: vm, MAC: mac, Consumer: id}
	if err != nil {
		return p, err
	}
	c, ok, err := l.Claim(ctx, id)
	if err != nil || !ok {
		return p, err
	}
	if _, ours := HolderOf(&c); !ours {
		return p, fmt.Errorf("somebody else uses the consumer %s (type %s)", c.Consumer, c.Type)
	}
	p.Before = true
	return describe(ctx, l, p, &c)
}

// Release ends the claim of a NIC.
func Release(ctx context.Context, l Ledger, vm, mac string) error {
	id, err := Consumer(vm, mac)
	if err != nil {
		return err
	}
	for range mostPasses {
		c, ok, err := l.Claim(ctx, id)
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("VM %s has no claim for %s", vm, mac)
		}
		if _, ours := HolderOf(&c); !ours {
			return fmt.Errorf("somebody else uses the consumer %s (type %s)", c.Consumer, c.Type)
		}
		c.Amounts = nil
		if err := l.Do(ctx, Request{Kind: SetClaim, Claim: c}); !errors.Is(err, ErrStale) {
			return err
		}
	}
	return errors.New("others write to this claim all the time: try again")
}
