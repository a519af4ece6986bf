package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Advice is where a claim should go, because its host is to be emptied or has promised too much.
type Advice struct {
	VM       string `json:"uuid"`
	MAC      string `json:"mac"`
	Kbits    int    `json:"kilobits_per_second"`
	Kpackets int    `json:"kilopackets_per_second,omitempty"`
	From     string `json:"from"`
	FromPF   string `json:"from_pci_address"`
	Why      string `json:"why"`            // it should go
	Host     string `json:"host,omitempty"` // "": there is no room for it anywhere
	PF       string `json:"pci_address,omitempty"`
	VFs      *int   `json:"free_vfs,omitempty"` // that no VM holds there, less those of VMs above that go there too; nil: not known
}

// Seen is what Prometheus knows of PFs, by provider; nil: it was not asked.
type Seen struct {
	Kbits map[string]int // kbit/s that are sent
	VFs   map[string]int // that no VM holds
}

// Empty says where each of Sluice's claims at a host could go, the largest first: what is left then fits more easily. Each goes to the PF
// of the same network that keeps the greatest part of its link free, as Place has it, of what is claimed and, if it is known and
// greater, of what is sent. Nothing is written.
func Empty(s *State, host Host, seen Seen) []Advice {
	m := newMoves(s, seen)
	out := []Advice{}
	for _, c := range m.at(func(p *Provider) bool { return rootID(p) == host.ID }) {
		out = append(out, m.move(c, "the host is to be emptied"))
	}
	return out
}

// Relieve says which claims should leave PFs and hosts that have less than is claimed of them: of each the smallest claim that is enough,
// else the largest, and so on. Claims that fit nowhere stay, and are listed. Nothing is written.
func Relieve(s *State, seen Seen) []Advice {
	m := newMoves(s, seen)
	out := []Advice{}
	for _, id := range slices.Sorted(maps.Keys(m.providers)) {
		p := m.providers[id]
		for _, class := range []string{ClassBits, ClassPackets} {
			left := m.at(func(o *Provider) bool { return o.ID == id })
			for len(left) > 0 && m.room(p, class) < 0 {
				i := len(left) - 1 // from the smallest
				for i > 0 && left[i].Amounts[id][class] < -m.room(p, class) {
					i--
				}
				out = append(out, m.move(left[i], "more is claimed there than there is"))
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	return out
}

func rootID(p *Provider) string { return cmp.Or(p.Parent, p.ID) }

// moves are what the ledger would say after some moves.
type moves struct {
	state     *State
	providers map[string]*Provider
	used      Amounts
	load      map[string]int
	vfs       map[string]int  // free, less those of VMs that have moved
	told      map[string]bool // consumers whose claims were moved, or fit nowhere
}

func newMoves(s *State, seen Seen) *moves {
	m := &moves{
		state: s, providers: map[string]*Provider{}, used: Amounts{}, load: seen.Kbits, vfs: maps.Clone(seen.VFs), told: map[string]bool{},
	}
	for i := range s.Providers {
		p := &s.Providers[i]
		m.providers[p.ID] = p
		m.used[p.ID] = maps.Clone(p.Used)
	}
	return m
}

// at lists Sluice's claims that are not told yet and have something of such a provider, the largest first.
func (m *moves) at(chosen func(*Provider) bool) (out []Claim) {
	for _, c := range m.state.Claims {
		if _, ours := HolderOf(&c); !ours || m.told[c.Consumer] {
			continue
		}
		for id := range c.Amounts {
			if p := m.providers[id]; p != nil && chosen(p) {
				out = append(out, c)
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(total(&b, ClassBits), total(&a, ClassBits)), cmp.Compare(total(&b, ClassPackets), total(&a, ClassPackets)),
			cmp.Compare(a.Consumer, b.Consumer))
	})
	return out
}

// room is what can still be claimed of a class; below 0, more is claimed than there is.
func (m *moves) room(p *Provider, class string) int {
	inv := p.Inventories[class]
	return inv.Total - inv.Reserved - m.used[p.ID][class]
}

// move finds a place for a claim at another host, and takes it there.
func (m *moves) move(c Claim, why string) Advice {
	holder, _ := HolderOf(&c)
	a := Advice{VM: holder.VM, MAC: holder.MAC, Kbits: total(&c, ClassBits), Kpackets: total(&c, ClassPackets), Why: why}
	m.told[c.Consumer] = true
	var here []string
	var networks []string
	for id := range c.Amounts {
		if p := m.providers[id]; p != nil {
			here = append(here, rootID(p))
			a.From, a.FromPF = hostOf(p.Name), cmp.Or(addressOf(p.Name), a.FromPF)
			networks = append(networks, networksOf(p)...)
		}
	}
	var best *Provider
	bestLeft := 0.0
	for _, id := range slices.Sorted(maps.Keys(m.providers)) {
		p := m.providers[id]
		root := m.providers[rootID(p)]
		if root == nil || slices.Contains(here, root.ID) || !m.open(p, root) || !slices.Equal(networksOf(p), networks) ||
			m.room(p, ClassBits) < a.Kbits || a.Kpackets > 0 && m.room(root, ClassPackets) < a.Kpackets {
			continue
		}
		inv := p.Inventories[ClassBits]
		total := inv.Total - inv.Reserved
		free := min(m.room(p, ClassBits), total-m.load[id])
		if left := float64(free-a.Kbits) / float64(max(1, total)); best == nil || left > bestLeft {
			best, bestLeft = p, left
		}
	}
	if best == nil {
		return a
	}
	a.Host, a.PF = hostOf(best.Name), addressOf(best.Name)
	if n, ok := m.vfs[best.ID]; ok {
		a.VFs = &n
		m.vfs[best.ID] = max(0, n-1)
	}
	for id, classes := range c.Amounts {
		for class, n := range classes {
			m.used.add(id, class, -n)
		}
	}
	m.used.add(best.ID, ClassBits, a.Kbits)
	m.used.add(rootID(best), ClassPackets, a.Kpackets)
	return a
}

// open reports whether Place would choose a PF.
func (m *moves) open(p, root *Provider) bool {
	return slices.Contains(p.Traits, TraitPF) && !slices.Contains(p.Traits, TraitDown) &&
		!slices.Contains(root.Traits, TraitDrained) && !slices.Contains(root.Traits, TraitUnenforced)
}

// networksOf are the traits of the networks that a PF reaches.
func networksOf(p *Provider) (out []string) {
	for _, t := range p.Traits {
		if strings.HasPrefix(t, traitNetwork) {
			out = append(out, t)
		}
	}
	return out
}
