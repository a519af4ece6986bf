package fleet

import (
	"cmp"
	"slices"
	"strings"
)

// Link is what the ledger says of a PF.
type Link struct {
	Host       string `json:"host"`
	PF         string `json:"pci_address"`
	Network    string `json:"network"`                     // as its trait spells it
	Total      int    `json:"kilobits_per_second"`         // for claims: without what is reserved
	Claimed    int    `json:"claimed_kilobits_per_second"` // by all consumers
	Free       int    `json:"free_kilobits_per_second"`
	Down       bool   `json:"down"`
	Drained    bool   `json:"drained"`    // its host is
	Unenforced bool   `json:"unenforced"` // nothing keeps guarantees at its host
}

// Links lists the PFs of the fleet, by host and address.
func Links(s *State) []Link {
	drained, idle := map[string]bool{}, map[string]bool{}
	for i := range s.Providers {
		p := &s.Providers[i]
		drained[p.ID] = slices.Contains(p.Traits, TraitDrained)
		idle[p.ID] = slices.Contains(p.Traits, TraitUnenforced)
	}
	out := []Link{}
	for i := range s.Providers {
		p := &s.Providers[i]
		if !slices.Contains(p.Traits, TraitPF) {
			continue
		}
		inv := p.Inventories[ClassBits]
		l := Link{
			Host: hostOf(p.Name), PF: addressOf(p.Name), Total: max(0, inv.Total-inv.Reserved), Claimed: p.Used[ClassBits],
			Down: slices.Contains(p.Traits, TraitDown), Drained: drained[p.Parent], Unenforced: idle[p.Parent],
		}
		l.Free = max(0, l.Total-l.Claimed)
		for _, t := range p.Traits {
			if network, ok := strings.CutPrefix(t, traitNetwork); ok {
				l.Network = strings.ToLower(network)
			}
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Link) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PF, b.PF)) })
	return out
}
