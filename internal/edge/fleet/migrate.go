package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Migration is a VM on its way from a host to another, at both of which its guarantees are claimed.
type Migration struct {
	VM   string        `json:"uuid"`
	From string        `json:"from_host"`
	Host string        `json:"host"`
	NICs []MigratedNIC `json:"nics"`
}

// MigratedNIC is a NIC of a Migration.
type MigratedNIC struct {
	MAC      string `json:"mac"`
	Kbits    int    `json:"kilobits_per_second"`
	Kpackets int    `json:"kilopackets_per_second,omitempty"`
	PF       string `json:"pci_address"` // at the new host
}

// ErrMigrating means that room is held for a migration that has not been ended.
var ErrMigrating = errors.New("a migration of this VM was interrupted")

// held is a NIC with its claim and, if there is one, that of its migration.
type held struct {
	mac        string
	claim      Claim // its Generation is NewConsumer if there is none
	room       Claim // the same
	host, name string
	network    []string // traits
}

// BeginMigration claims at another host, besides the claims that a VM's NICs have, as much for each: on the best one with room for all, or
// on that of the UUID to. EndMigration or CancelMigration must follow.
func BeginMigration(ctx context.Context, l Ledger, vm string, macs []string, to string) (Migration, error) {
	for range mostLooks {
		m, done, err := beginMigration(ctx, l, vm, macs, to)
		if err != nil || done {
			return m, err
		}
	}
	return Migration{}, errors.New("others claim all the time: try again")
}

func beginMigration(ctx context.Context, l Ledger, vm string, macs []string, to string) (m Migration, done bool, err error) {
	nics, err := readMigration(ctx, l, vm, macs)
	if err != nil {
		return m, false, err
	}
	for i := range nics {
		n := &nics[i]
		switch {
		case n.room.Generation != NewConsumer:
			return m, false, fmt.Errorf("%w: if it runs at the new host by now, repeat this with --end, else with --cancel", ErrMigrating)
		case n.claim.Generation == NewConsumer:
			return m, false, fmt.Errorf("VM %s has no claim for %s: it can be migrated without this", vm, n.mac)
		case n.host == "" || n.host != nics[0].host:
			return m, false, errors.New("its claims are not at one host: see sluice fleet fsck")
		case n.host == to:
			return m, false, fmt.Errorf("it is claimed at %s already", n.name)
		}
	}
	ask := nics[0].ask(to)
	ask.Limit = mostCandidates + 1 // its own host may be among them
	first, err := l.Candidates(ctx, ask)
	if err != nil {
		return m, false, err
	}
	first = slices.DeleteFunc(first, func(c Candidate) bool { return c.Host == nics[0].host })
	slices.SortStableFunc(first, better)
	refused := false
	for _, c := range first {
		rooms, err := roomsAt(ctx, l, nics, c)
		if err != nil {
			return m, false, err
		}
		if rooms == nil {
			continue
		}
		err = l.Do(ctx, Request{Kind: SetClaims, Claims: rooms})
		switch {
		case err == nil:
			m, err = describeMigration(ctx, l, vm, nics, rooms)
			return m, true, err
		case !errors.Is(err, ErrFull) && !errors.Is(err, ErrStale):
			return m, false, err
		}
		refused = true
	}
	if !refused {
		err = fmt.Errorf("%w for its guarantees: `sluice fleet list` shows what is free", ErrNowhere)
	}
	return m, false, err
}

// roomsAt chooses a PF of a candidate's host for each NIC; nil: they do not all fit there.
func roomsAt(ctx context.Context, l Ledger, nics []held, first Candidate) (rooms []Claim, err error) {
	used := Amounts{}
	for i := range nics {
		list := []Candidate{first}
		if i > 0 {
			if list, err = l.Candidates(ctx, nics[i].ask(first.Host)); err != nil {
				return nil, err
			}
			for j := range list {
				list[j].Used += used[list[j].PF][ClassBits]
			}
			list = slices.DeleteFunc(list, func(c Candidate) bool { return c.Used+c.Amounts[c.PF][ClassBits] > c.Total })
			slices.SortStableFunc(list, better)
		}
		if len(list) == 0 {
			return nil, nil
		}
		used.add(list[0].PF, ClassBits, list[0].Amounts[list[0].PF][ClassBits])
		room := nics[i].room
		room.Amounts = list[0].Amounts
		rooms = append(rooms, room)
	}
	return rooms, nil
}

// Kept reports whether the new host's daemon keeps what place has claimed for the NICs, so that they have their guarantees there from the
// first frame on. Guarantees that come from other sources do not need that.
func Kept(ctx context.Context, l Ledger, vm string, macs []string) (bool, error) {
	for _, mac := range macs {
		id, err := Consumer(vm, mac)
		if err != nil {
			return false, err
		}
		claim, _, err := l.Claim(ctx, id)
		if err != nil {
			return false, err
		}
		if h, _ := HolderOf(&claim); h.By != ByPlace {
			continue
		}
		room, _, err := l.Claim(ctx, migrationConsumer(id))
		if h, _ := migrationOf(&room); err != nil || h.By != byKept {
			return false, err
		}
	}
	return true, nil
}

// EndMigration has the claims at the new host take the place of those at the old one, in one write: the VM runs there.
func EndMigration(ctx context.Context, l Ledger, vm string, macs []string) error {
	return endMigration(ctx, l, vm, macs, func(n *held) []Claim {
		arrived, room := n.claim, n.room
		arrived.Amounts, room.Amounts = n.room.Amounts, nil
		return []Claim{arrived, room}
	})
}

// CancelMigration gives back what BeginMigration has claimed: the VM runs where it did.
func CancelMigration(ctx context.Context, l Ledger, vm string, macs []string) error {
	return endMigration(ctx, l, vm, macs, func(n *held) []Claim {
		room := n.room
		room.Amounts = nil
		return []Claim{room}
	})
}

// endMigration writes what claims makes of each NIC for which room is held, all in one write. Without such a NIC it has been done before.
func endMigration(ctx context.Context, l Ledger, vm string, macs []string, claims func(*held) []Claim) error {
	for range mostPasses {
		nics, err := readMigration(ctx, l, vm, macs)
		if err != nil {
			return err
		}
		var all []Claim
		for i := range nics {
			if nics[i].room.Generation != NewConsumer {
				all = append(all, claims(&nics[i])...)
			}
		}
		if len(all) == 0 {
			return nil
		}
		if err := l.Do(ctx, Request{Kind: SetClaims, Claims: all}); !errors.Is(err, ErrStale) {
			return err
		}
	}
	return errors.New("others write to these claims all the time: try again")
}

// readMigration reads the claims of a VM's NICs, those of its migration, and where the former are.
func readMigration(ctx context.Context, l Ledger, vm string, macs []string) ([]held, error) {
	nics := make([]held, len(macs))
	for i, mac := range macs {
		n := &nics[i]
		n.mac = mac
		holder := Holder{By: ByHost, VM: vm, MAC: mac}
		id, err := Consumer(vm, mac)
		if err != nil {
			return nil, err
		}
		if n.claim, err = claimOr(ctx, l, Claim{Consumer: id, Generation: NewConsumer, Type: ConsumerType, User: holder.User()}); err != nil {
			return nil, err
		}
		if _, ours := HolderOf(&n.claim); !ours {
			return nil, fmt.Errorf("somebody else uses the consumer %s (type %s)", n.claim.Consumer, n.claim.Type)
		}
		holder.By = byMigration
		room := Claim{Consumer: migrationConsumer(id), Generation: NewConsumer, Type: ConsumerType, User: holder.User()}
		if n.room, err = claimOr(ctx, l, room); err != nil {
			return nil, err
		}
		for provider := range n.claim.Amounts {
			if err := n.locate(ctx, l, provider); err != nil {
				return nil, err
			}
		}
	}
	return nics, nil
}

// claimOr reads a claim; if there is none, it is that which is given.
func claimOr(ctx context.Context, l Ledger, none Claim) (Claim, error) {
	c, ok, err := l.Claim(ctx, none.Consumer)
	if err != nil || ok {
		return c, err
	}
	return none, nil
}

// locate notes the host and the networks of a provider that the NIC's claim is at.
func (n *held) locate(ctx context.Context, l Ledger, provider string) error {
	s, err := l.Tree(ctx, provider, false)
	if err != nil {
		return err
	}
	for i := range s.Providers {
		p := &s.Providers[i]
		if p.ID != provider {
			continue
		}
		n.network = append(n.network, networksOf(p)...)
		if n.host != "" && n.host != rootID(p) {
			n.host = "" // at two
			return nil
		}
		n.host, n.name = rootID(p), hostOf(p.Name)
	}
	return nil
}

// ask is what the NIC needs at a host; "": anywhere.
func (n *held) ask(host string) Ask {
	return Ask{
		Kbits: total(&n.claim, ClassBits), Kpackets: total(&n.claim, ClassPackets), Traits: n.network, Host: host, Limit: mostCandidates,
	}
}

func describeMigration(ctx context.Context, l Ledger, vm string, nics []held, rooms []Claim) (Migration, error) {
	m := Migration{VM: vm, From: nics[0].name}
	for i := range rooms {
		p, err := describe(ctx, l, Placement{}, &rooms[i])
		if err != nil {
			return m, err
		}
		m.Host = p.Host
		m.NICs = append(m.NICs, MigratedNIC{MAC: nics[i].mac, Kbits: p.Kbits, Kpackets: p.Kpackets, PF: p.PF})
	}
	return m, nil
}

// migrationOf returns whose migration a claim is for; false: it is for none.
func migrationOf(c *Claim) (Holder, bool) {
	f := strings.Split(c.User, " ")
	if c.Type != ConsumerType || len(f) != 3 || f[0] != byMigration && f[0] != byKept {
		return Holder{}, false
	}
	h := Holder{By: f[0], VM: f[1], MAC: f[2]}
	id, err := Consumer(h.VM, h.MAC)
	return h, err == nil && migrationConsumer(id) == c.Consumer
}

// checkMigration finds room that is held for a migration.
func checkMigration(h Holder, hosts []string) Finding {
	again := fmt.Sprintf("sluice fleet migrate %s --mac %s", h.VM, h.MAC)
	return Finding{
		Host: strings.Join(hosts, ", "), VM: h.VM, Text: fmt.Sprintf("room is held for a migration of its NIC %s", h.MAC),
		Remedy: "unless that still runs: " + again + " --end if the VM runs there, else --cancel",
	}
}
