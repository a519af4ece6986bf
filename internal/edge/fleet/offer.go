package fleet

import (
	"math"
	"slices"

	"sluice/api/v1"
)

// Offer is what the ledger is to say of a host: its providers, and the guarantees of VMs that are there.
type Offer struct {
	Host      Host
	Providers []Provider // the host's first; without generations and what is used
	Promises  []Promise
	Kept      map[string]bool        // consumers whose claims give their NICs, which are here, their guarantees
	Told      map[api.HostClaim]bool // claims that the daemon was told of; true: it keeps them
}

// Promise is a guarantee that the host has made to a NIC.
type Promise struct {
	Consumer string // "": it cannot have a claim
	Holder   Holder
	Name     string // of the VM
	NIC      string
	Amounts  Amounts
}

// OfferOf is the Offer of a host with that capacity. What is offered is rounded down, what is promised up.
func OfferOf(h Host, c *api.HostCapacity) Offer {
	host := Provider{ID: h.ID, Name: h.providerName(), Traits: []string{TraitHost}}
	if c.Packets.Enforced {
		host.Inventories = inventories(ClassPackets, c.Packets.Total)
	}
	if c.Drained {
		host.Traits = append(host.Traits, TraitDrained)
	}
	if slices.ContainsFunc(c.PFs, func(pf api.PFCapacity) bool { return !pf.Bits.Enforced }) {
		host.Traits = append(host.Traits, TraitUnenforced)
	}
	o := Offer{Host: h, Providers: []Provider{host}, Kept: map[string]bool{}, Told: map[api.HostClaim]bool{}}
	for i := range c.PFs {
		pf := &c.PFs[i]
		p := Provider{
			ID: h.PF(pf.Address), Name: h.pfName(pf.Address), Parent: h.ID, Inventories: inventories(ClassBits, pf.Bits.Total),
			Traits: []string{TraitPF, trait(traitNetwork, pf.Network), trait(traitDriver, pf.Driver)},
		}
		if pf.Uplink != "" {
			p.Traits = append(p.Traits, trait(traitUplink, pf.Uplink))
		}
		if pf.NUMANode >= 0 {
			p.Traits = append(p.Traits, NUMATrait(pf.NUMANode))
		}
		if !pf.LinkUp {
			p.Traits = append(p.Traits, TraitDown)
		}
		o.Providers = append(o.Providers, p)
	}
	for i := range c.Claims {
		g := &c.Claims[i]
		o.Told[g.HostClaim] = g.Refused == ""
		if id, err := Consumer(g.ID, g.MAC); err == nil && g.NIC != "" && g.Refused == "" {
			o.Kept[id] = true
		}
	}
	seen := map[string]bool{}
	for i := range c.Guarantees {
		p := promiseOf(h, &c.Guarantees[i])
		if seen[p.Consumer] {
			p.Consumer = "" // a second NIC of the VM with the same address
		}
		seen[p.Consumer] = true
		o.Promises = append(o.Promises, p)
	}
	return o
}

func promiseOf(h Host, g *api.Guarantee) Promise {
	p := Promise{Name: g.VM, NIC: g.NIC, Amounts: Amounts{}}
	if g.PF != "" {
		p.Amounts.add(h.PF(g.PF), ClassBits, thousands(g.Rate.Bits, math.Ceil))
	}
	p.Amounts.add(h.ID, ClassPackets, thousands(g.Rate.Packets, math.Ceil))
	if id, err := Consumer(g.ID, g.MAC); err == nil && g.MAC != "" {
		p.Consumer, p.Holder = id, Holder{By: ByHost, VM: g.ID, MAC: g.MAC}
	}
	return p
}

// inventories are those of a rate; none if that is unknown.
func inventories(class string, total float64) map[string]Inventory {
	if n := thousands(total, math.Floor); n > 0 {
		return map[string]Inventory{class: plain(n, 0)}
	}
	return nil
}

// thousands is a rate in thousands, and in what Placement takes.
func thousands(rate float64, round func(float64) float64) int {
	return int(min(math.MaxInt32, max(0, round(rate/1e3))))
}
