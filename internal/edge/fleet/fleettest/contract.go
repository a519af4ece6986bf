package fleettest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
)

// PCI addresses of the PFs of Capacity, and of one that is not there.
const (
	PF0 = "0000:3b:00.0"
	PF1 = "0000:3b:00.1"
	PF2 = "0000:3b:00.2"
)

// Capacity is that of a host with two links of 10 Gbit/s, on red and on blue, and 1.5 Mpps.
func Capacity() *api.HostCapacity {
	pf := func(name, address, network string) api.PFCapacity {
		return api.PFCapacity{
			PF: name, Address: address, Driver: "ixgbe", Network: network, Uplink: "linux-bridge", LinkUp: true, Managed: true,
			Bits: api.RateCapacity{Total: 10e9, Free: 10e9, Source: "driver", Enforced: true},
		}
	}
	return &api.HostCapacity{
		Observed: time.Unix(1, 0), PFs: []api.PFCapacity{pf("pf0", PF0, "red"), pf("pf1", PF1, "blue")},
		Packets: api.RateCapacity{Total: 1.5e6, Enforced: true},
	}
}

// Guarantee is that of a VM with one NIC on pf0; n makes its UUID and its MAC address.
func Guarantee(n byte, bits, packets float64) api.Guarantee {
	return api.Guarantee{
		VM: "vm", ID: VM(n), NIC: "ua-net0", MAC: MAC(n), PF: PF0, Rate: api.Rate{Bits: bits, Packets: packets},
	}
}

// VM and MAC are those of Guarantee.
func VM(n byte) string { return uuid.UUID{15: n, 6: 0x40, 8: 0x80}.String() }

// MAC is that of the VM's NIC.
func MAC(n byte) string {
	return "52:54:00:00:00:" + string("0123456789abcdef"[n>>4]) + string("0123456789abcdef"[n&15])
}

// Host returns a host by its name.
func Host(name string) fleet.Host {
	h, err := fleet.HostOf(uuid.NewSHA1(uuid.NameSpaceDNS, []byte(name)).String(), name)
	if err != nil {
		panic(err)
	}
	return h
}

// Example is a ledger with three hosts.
func Example() *Ledger {
	l := &Ledger{}
	for i, name := range []string{"host1", "host2", "host3"} {
		c := Capacity()
		c.PFs[0].Network, c.PFs[1].Network = "br0", "br1"
		c.PFs[1].LinkUp = i != 0
		c.Drained = i == 2
		c.Guarantees = []api.Guarantee{Guarantee(byte(i), float64(2-i)*1e9, 0)}
		if _, _, err := fleet.Publish(context.Background(), l, Host(name), c); err != nil {
			panic(err)
		}
	}
	return l
}

// Contract is what package fleet needs of an empty ledger.
func Contract(t *testing.T, l fleet.Ledger) {
	ContractAs(t, l, func(fleet.Host) fleet.Ledger { return l })
}

// ContractAs is the same of a ledger that hosts write by other means than operators do: as returns that of a host.
func ContractAs(t *testing.T, l fleet.Ledger, as func(fleet.Host) fleet.Ledger) {
	c := contract{T: t, l: l, as: as}
	a, b := Host("a"), Host("b")
	c.publish(a, Capacity())
	c.publish(b, Capacity())
	c.rests(a, Capacity())

	hosts, err := l.Hosts(t.Context())
	if err != nil || !slices.Equal(hosts, []fleet.Host{a, b}) {
		t.Errorf("hosts %v, %v", hosts, err)
	}

	// A second host of the same name is refused.
	namesake := Host("namesake")
	namesake.Name = "a"
	if _, _, err := fleet.Publish(t.Context(), as(namesake), namesake, Capacity()); !errors.Is(err, fleet.ErrTaken) {
		t.Errorf("a second host with the name a: %v", err)
	}

	// A guarantee is claimed, follows the SLA, and ends with it.
	busy := Capacity()
	busy.Guarantees = []api.Guarantee{Guarantee(1, 2e9, 5e4)}
	c.publish(a, busy)
	c.used(a, PF0, 2_000_000)
	c.rests(a, busy)
	busy.Guarantees[0].Rate.Bits = 3e9
	c.publish(a, busy)
	c.used(a, PF0, 3_000_000)
	busy.Guarantees[0].PF = PF1
	c.publish(a, busy)
	c.used(a, PF0, 0)
	c.used(a, PF1, 3_000_000)
	c.publish(a, Capacity())
	c.used(a, PF1, 0)

	// What is guaranteed without a claim is not offered: a part of a link, and all that a host has.
	for _, bits := range []float64{4e9, 1e10} {
		reserved := Capacity()
		reserved.PFs, reserved.Guarantees = reserved.PFs[:1], []api.Guarantee{Guarantee(3, bits, 0)}
		reserved.Guarantees[0].MAC = ""
		if plan, _, err := fleet.Publish(t.Context(), as(a), a, reserved); err != nil || len(plan.Unclaimed) != 1 {
			t.Errorf("published %+v, %v", plan, err)
		}
		c.overview()
	}
	c.publish(a, Capacity())

	// A stale generation and a claim that does not fit are refused.
	claim := fleet.Claim{
		Consumer: uuid.NewString(), Generation: fleet.NewConsumer, Type: "SOMEBODY", User: "somebody",
		Amounts: fleet.Amounts{a.PF(PF0): {fleet.ClassBits: 1_000_000}},
	}
	c.do(nil, fleet.Request{Kind: fleet.SetClaim, Claim: claim})
	c.do(fleet.ErrStale, fleet.Request{Kind: fleet.SetClaim, Claim: claim})
	big := claim
	big.Consumer, big.Amounts = uuid.NewString(), fleet.Amounts{a.PF(PF0): {fleet.ClassBits: 9_000_001}}
	c.do(fleet.ErrFull, fleet.Request{Kind: fleet.SetClaim, Claim: big})

	// A link that carries less than is claimed says so, and a PF that is gone stays until its claims end.
	slow := Capacity()
	slow.PFs[0].Bits.Total = 5e8
	c.publish(a, slow)
	c.overview()
	slow.PFs = slow.PFs[1:]
	c.publish(a, slow)
	c.overview()
	if p := c.provider(a.PF(PF0)); p == nil || !slices.Contains(p.Traits, fleet.TraitDown) {
		t.Errorf("the PF with a claim that is gone: %+v", p)
	}
	claim.Amounts, claim.Generation = nil, 1
	c.do(nil, fleet.Request{Kind: fleet.SetClaim, Claim: claim})
	c.publish(a, slow)
	if p := c.provider(a.PF(PF0)); p != nil {
		t.Errorf("the PF without claims that is gone is still there: %+v", p)
	}
	c.publish(a, Capacity())

	// Where there is room: by network, on hosts that are not drained, at PFs whose link is up.
	red := fleet.Ask{Kbits: 2_000_000, Kpackets: 50, Traits: []string{fleet.NetworkTrait("red")}, Limit: 10}
	c.candidates(red, a, b)
	onlyB := red
	onlyB.Host = b.ID
	c.candidates(onlyB, b)
	green := red
	green.Traits = []string{fleet.NetworkTrait("green")}
	c.candidates(green)
	drained := Capacity()
	drained.Drained = true
	c.publish(a, drained)
	c.candidates(red, b)
	down := Capacity()
	down.PFs[0].LinkUp = false
	c.publish(b, down)
	c.candidates(red)
	idle := Capacity()
	idle.PFs[0].Bits.Enforced, idle.PFs[1].Bits.Enforced = false, false
	c.publish(b, idle)
	c.candidates(red)
	c.publish(a, Capacity())
	c.publish(b, Capacity())

	// Placing twice changes nothing, and a release makes room.
	first := c.place(1, red)
	if again := c.place(1, red); !again.Before || again.Host != first.Host || again.PF != first.PF || first.PF != PF0 {
		t.Errorf("placed %+v, again %+v", first, again)
	}
	if err := fleet.Release(t.Context(), l, VM(1), MAC(1)); err != nil {
		t.Error(err)
	}
	c.evacuate()
	c.migrate()
	c.concurrent()
}

// evacuate moves a claim, with its packets, from a dead host.
func (c *contract) evacuate() {
	c.Helper()
	for _, name := range []string{"dead", "alive"} {
		capacity := Capacity()
		capacity.PFs = capacity.PFs[:1]
		capacity.PFs[0].Network = "yellow"
		c.publish(Host(name), capacity)
	}
	c.place(2, fleet.Ask{Kbits: 2_000_000, Kpackets: 50, Host: Host("dead").ID})
	list, err := fleet.Evacuate(c.Context(), c.l, Host("dead"), nil)
	if err != nil || len(list) != 1 || list[0].Host != "alive" || list[0].Kpackets != 50 {
		c.Errorf("evacuated %+v, %v", list, err)
	}
	c.used(Host("dead"), PF0, 0)
	c.used(Host("alive"), PF0, 2_000_000)
	if list, err := fleet.Evacuate(c.Context(), c.l, Host("dead"), nil); err != nil || len(list) != 0 {
		c.Errorf("evacuated again %+v, %v", list, err)
	}
}

// migrate moves a claim to a host that has room for it once, and not where there is none.
func (c *contract) migrate() {
	c.Helper()
	for _, name := range []string{"old", "new"} {
		capacity := Capacity()
		capacity.PFs = capacity.PFs[:1]
		capacity.PFs[0].Network = "orange"
		c.publish(Host(name), capacity)
	}
	c.place(4, fleet.Ask{Kbits: 6_000_000, Kpackets: 50, Host: Host("old").ID})
	macs := []string{MAC(4)}
	for _, done := range []func(context.Context, fleet.Ledger, string, []string) error{fleet.CancelMigration, fleet.EndMigration} {
		if m, err := fleet.BeginMigration(c.Context(), c.l, VM(4), macs, ""); err != nil || m.Host != "new" || m.From != "old" {
			c.Errorf("begun %+v, %v", m, err)
		}
		c.used(Host("old"), PF0, 6_000_000)
		c.used(Host("new"), PF0, 6_000_000)
		if err := done(c.Context(), c.l, VM(4), macs); err != nil {
			c.Error(err)
		}
	}
	c.used(Host("old"), PF0, 0)
	c.used(Host("new"), PF0, 6_000_000)
	c.place(5, fleet.Ask{Kbits: 5_000_000, Host: Host("old").ID})
	if _, err := fleet.BeginMigration(c.Context(), c.l, VM(4), macs, ""); !errors.Is(err, fleet.ErrNowhere) {
		c.Errorf("back to a host without room: %v", err)
	}
	c.used(Host("new"), PF0, 6_000_000)
}

// overview checks that the Overview says of each PF what the Fleet says.
func (c *contract) overview() {
	c.Helper()
	whole, err := c.l.Fleet(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	short, err := c.l.Overview(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	if want, got := fleet.Links(&whole), fleet.Links(&short); len(got) == 0 || !slices.Equal(got, want) {
		c.Errorf("overview\n%+v, want\n%+v", got, want)
	}
}

type contract struct {
	*testing.T
	l  fleet.Ledger
	as func(fleet.Host) fleet.Ledger
}

func (c *contract) publish(h fleet.Host, capacity *api.HostCapacity) {
	c.Helper()
	if plan, _, err := fleet.Publish(c.Context(), c.as(h), h, capacity); err != nil || len(plan.Unclaimed) > 0 {
		c.Fatalf("%+v, %v", plan, err)
	}
}

// rests checks that there is nothing to write.
func (c *contract) rests(h fleet.Host, capacity *api.HostCapacity) {
	c.Helper()
	if _, writes, err := fleet.Publish(c.Context(), c.as(h), h, capacity); err != nil || writes != 0 {
		c.Errorf("%d writes although nothing has changed, %v", writes, err)
	}
}

func (c *contract) do(want error, r fleet.Request) {
	c.Helper()
	if err := c.l.Do(c.Context(), r); !errors.Is(err, want) {
		c.Fatalf("%s: %v, want %v", r, err, want)
	}
}

func (c *contract) provider(id string) *fleet.Provider {
	c.Helper()
	s, err := c.l.Fleet(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for i := range s.Providers {
		if s.Providers[i].ID == id {
			return &s.Providers[i]
		}
	}
	return nil
}

func (c *contract) used(h fleet.Host, address string, want int) {
	c.Helper()
	if p := c.provider(h.PF(address)); p == nil || p.Used[fleet.ClassBits] != want {
		c.Errorf("claimed of %s: %+v, want %d", address, p, want)
	}
}

func (c *contract) candidates(a fleet.Ask, want ...fleet.Host) {
	c.Helper()
	list, err := c.l.Candidates(c.Context(), a)
	if err != nil {
		c.Fatal(err)
	}
	var got, hosts []string
	for i := range list {
		got = append(got, list[i].Host)
	}
	for _, h := range want {
		hosts = append(hosts, h.ID)
	}
	slices.Sort(got)
	slices.Sort(hosts)
	if !slices.Equal(got, hosts) {
		c.Errorf("room at %v, want %v", got, hosts)
	}
}

func (c *contract) place(n byte, a fleet.Ask) fleet.Placement {
	c.Helper()
	p, err := fleet.Place(c.Context(), c.l, VM(n), MAC(n), a)
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// concurrent has 4 writers place 60 VMs on a PF that fits 33.
func (c *contract) concurrent() {
	c.Helper()
	h := Host("small")
	small := Capacity()
	small.PFs = small.PFs[:1]
	c.publish(h, small)
	ask := fleet.Ask{Kbits: 300_000, Host: h.ID}
	var mu sync.Mutex
	granted := 0
	var group errgroup.Group
	for w := range 4 {
		group.Go(func() error {
			for i := range 15 {
				n := byte(100 + 15*w + i)
				_, err := fleet.Place(c.Context(), c.l, VM(n), MAC(n), ask)
				if err != nil && !errors.Is(err, fleet.ErrNowhere) {
					return err
				}
				if err == nil {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		c.Error(err)
	}
	if granted != 33 {
		c.Errorf("%d of 60 claims were granted, want 33", granted)
	}
	c.used(h, PF0, 33*300_000)
}
