package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// What is wrong is found, and nothing else.
func TestCheck(t *testing.T) {
	l := &fleettest.Ledger{}
	a, b := fleettest.Host("a"), fleettest.Host("b")
	capacity := fleettest.Capacity()
	publish := func() {
		for _, h := range []fleet.Host{a, b} {
			if _, _, err := fleet.Publish(t.Context(), l, h, capacity); err != nil {
				t.Fatal(err)
			}
			capacity = fleettest.Capacity()
		}
	}
	expect := func(here *api.HostCapacity, want ...string) {
		t.Helper()
		state, err := l.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o := fleet.OfferOf(a, here)
		var got []string
		for _, f := range fleet.Check(&state, &o) {
			got = append(got, strings.Join([]string{f.Host, f.PF, f.Text}, "|"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	claim := func(n byte, by string, at fleet.Amounts) {
		id, _ := fleet.Consumer(fleettest.VM(n), fleettest.MAC(n))
		c := fleet.Claim{
			Consumer: id, Generation: fleet.NewConsumer, Type: fleet.ConsumerType, Amounts: at,
			User: fleet.Holder{By: by, VM: fleettest.VM(n), MAC: fleettest.MAC(n)}.User(),
		}
		if err := l.Do(t.Context(), fleet.Request{Kind: fleet.SetClaim, Claim: c}); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	expect(fleettest.Capacity())

	claim(1, fleet.ByPlace, fleet.Amounts{a.PF(fleettest.PF0): {fleet.ClassBits: 6_000_000}})
	expect(fleettest.Capacity(), "a||a claim for 52:54:00:00:00:01, but no guarantee to it here")

	here := fleettest.Capacity()
	here.Guarantees = []api.Guarantee{fleettest.Guarantee(1, 6e9, 0), fleettest.Guarantee(2, 5e9, 0)}
	capacity = here
	publish()
	expect(here, "a|"+fleettest.PF0+"|4000000 kbit/s are guaranteed there without a claim",
		"a||vm's ua-net0 is guaranteed more than it claims: the ledger has no room for it")

	here.Guarantees, here.PFs[0].Bits.Total = here.Guarantees[:1], 1e9
	expect(here, "a|"+fleettest.PF0+"|4000000 kbit/s are guaranteed there without a claim", "a||the ledger is not what the host offers and guarantees")
	capacity = here
	publish()
	expect(here, "a|"+fleettest.PF0+"|6000000 kbit/s are claimed of 1000000")

	claim(3, fleet.ByHost, fleet.Amounts{b.PF(fleettest.PF0): {fleet.ClassBits: 1}, a.PF(fleettest.PF1): {fleet.ClassBits: 1}})
	here.Guarantees = append(here.Guarantees, fleettest.Guarantee(3, 1e9, 0))
	expect(here, "a|"+fleettest.PF0+"|6000000 kbit/s are claimed of 1000000", "||its NIC 52:54:00:00:00:03 has a claim at a and at b",
		"a||vm's ua-net0 is guaranteed more than it claims: its claim is at another host")
	state, _ := l.Fleet(t.Context())
	second := fleettest.MAC(9)
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(1), second, fleet.Ask{Kbits: 1, Host: b.ID}); err != nil {
		t.Fatal(err)
	}
	two, _ := l.Fleet(t.Context())
	if found := fleet.Check(&two, nil); !slices.ContainsFunc(found, func(f fleet.Finding) bool {
		return f.VM == fleettest.VM(1) && f.Text == "its NICs have claims at a and at b"
	}) {
		t.Errorf("a VM at two hosts is not found: %+v", found)
	}
	if got := fleet.Links(&state); len(got) != 4 || got[0] != (fleet.Link{Host: "a", PF: fleettest.PF0, Network: "red", Total: 1_000_000, Claimed: 6_000_000}) {
		t.Errorf("%+v", got)
	}
}

// The ledger away for a while changes nothing but the ledger, and is brought up to date; each failure is told once.
func TestRun(t *testing.T) {
	l := &fleettest.Ledger{}
	h := fleettest.Host("a")
	away := 5
	l.Before = func(fleet.Request) error {
		if away--; away >= 0 {
			return errors.New("Placement does not answer")
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var told []string
	looks := 0
	get := daemon(func(context.Context) (api.HostCapacity, error) {
		if looks++; looks == 10 {
			stop()
		}
		c := fleettest.Capacity()
		c.Guarantees = []api.Guarantee{fleettest.Guarantee(1, 2e10, 0)}
		return *c, nil
	})
	log := fleet.Log{Tell: func(s string) { told = append(told, s) }}
	fleet.Run(ctx, time.Millisecond, func(ctx context.Context) fleet.Round { return fleet.Once(ctx, l, h, get) }, log.Add)
	const unclaimed = "vm's ua-net0 is guaranteed more than it claims: the ledger has no room for it"
	if want := []string{"create provider sluice:a: Placement does not answer", "published, 9 writes"}; !slices.Equal(slices.DeleteFunc(told, func(s string) bool { return s == unclaimed }), want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// The best host is the one with most left, and who is too late goes on to the next.
func TestPlaceGoesOn(t *testing.T) {
	l := &fleettest.Ledger{}
	for _, h := range []string{"a", "b", "c"} {
		c := fleettest.Capacity()
		c.PFs = c.PFs[:1]
		if h != "b" {
			c.PFs[0].Bits.Total = 4e9
		}
		if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(h), c); err != nil {
			t.Fatal(err)
		}
	}
	ask := fleet.Ask{Kbits: 3_000_000}
	tries := 0
	l.Before = func(r fleet.Request) error {
		if tries++; tries == 1 {
			if r.Claim.Amounts[fleettest.Host("b").PF(fleettest.PF0)] == nil {
				t.Errorf("first tried: %+v", r.Claim)
			}
			return fleet.ErrFull
		}
		return nil
	}
	p, err := fleet.Place(t.Context(), l, fleettest.VM(1), fleettest.MAC(1), ask)
	if err != nil || p.Host == "b" || p.Refused != 1 || p.Kbits != 3_000_000 {
		t.Errorf("%+v, %v", p, err)
	}
	l.Before = func(fleet.Request) error { return errors.New("500") }
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(2), fleettest.MAC(2), ask); err == nil || err.Error() != "500" {
		t.Errorf("%v, want the failure", err)
	}
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(1), fleettest.MAC(1), fleet.Ask{Kbits: 1}); err == nil || !strings.Contains(err.Error(), "has a claim already") {
		t.Errorf("%v for a second size", err)
	}
	l.Before = nil
	id, _ := fleet.Consumer(fleettest.VM(4), fleettest.MAC(4))
	if err := l.Do(t.Context(), fleet.Request{Kind: fleet.SetClaim, Claim: fleet.Claim{
		Consumer: id, Generation: fleet.NewConsumer, Type: fleet.ConsumerType,
		User:    fleet.Holder{By: fleet.ByHost, VM: fleettest.VM(4), MAC: fleettest.MAC(4)}.User(),
		Amounts: fleet.Amounts{fleettest.Host("b").PF(fleettest.PF0): {fleet.ClassBits: ask.Kbits}},
	}}); err != nil {
		t.Fatal(err)
	}
	p, err = fleet.Place(t.Context(), l, fleettest.VM(4), fleettest.MAC(4), fleet.Ask{Kbits: ask.Kbits})
	if err == nil || !strings.Contains(err.Error(), "host b says that the VM has") {
		t.Errorf("%+v, %v: a host drew a VM to it", p, err)
	}
	ask.Kbits = 100_000_000
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(3), fleettest.MAC(3), ask); !errors.Is(err, fleet.ErrNowhere) {
		t.Errorf("%v, want that no host has room", err)
	}
}

// Of two hosts with as much claimed, the one that sends less is the best; a load below the claims changes nothing.
func TestPlaceByLoad(t *testing.T) {
	a, b := fleettest.Host("a").PF(fleettest.PF0), fleettest.Host("b").PF(fleettest.PF0)
	for _, test := range []struct {
		load map[string]int
		want string
	}{
		{map[string]int{a: 5_000_000, b: 4_000_000}, "b"},
		{map[string]int{a: 4_000_000, b: 5_000_000}, "a"},
		{map[string]int{a: 1_000_000}, "a"}, // 2 Gbit/s are claimed at b
		{map[string]int{a: 3_000_000}, "b"},
	} {
		l := &fleettest.Ledger{}
		for _, h := range []string{"a", "b"} {
			if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(h), fleettest.Capacity()); err != nil {
				t.Fatal(err)
			}
		}
		ask := fleet.Ask{Kbits: 2_000_000, Traits: []string{fleet.NetworkTrait("red")}, Host: fleettest.Host("b").ID}
		if _, err := fleet.Place(t.Context(), l, fleettest.VM(1), fleettest.MAC(1), ask); err != nil {
			t.Fatal(err)
		}
		ask.Host, ask.Load = "", test.load
		if p, err := fleet.Place(t.Context(), l, fleettest.VM(2), fleettest.MAC(2), ask); err != nil || p.Host != test.want {
			t.Errorf("load %v: placed at %s, %v", test.load, p.Host, err)
		}
	}
}

// daemon is a fleet.Daemon that nobody tells anything.
type daemon func(context.Context) (api.HostCapacity, error)

func (d daemon) Capacity(ctx context.Context) (api.HostCapacity, error) { return d(ctx) }

func (daemon) SetClaims(context.Context, []api.HostClaim) (api.Result, error) {
	return api.Result{}, nil
}

// told is a daemon that notes what it is told.
type told struct {
	capacity api.HostCapacity
	claims   []api.HostClaim
	times    int
}

func (d *told) Capacity(context.Context) (api.HostCapacity, error) { return d.capacity, nil }

func (d *told) SetClaims(_ context.Context, claims []api.HostClaim) (api.Result, error) {
	d.claims = claims
	d.times++
	return api.Result{}, nil
}

// The daemon is told of what place has claimed at its host, not of what the host or another has, and of the end of that.
func TestDaemonIsToldOfClaims(t *testing.T) {
	l, d := &fleettest.Ledger{}, &told{capacity: *fleettest.Capacity()}
	d.capacity.Guarantees = []api.Guarantee{fleettest.Guarantee(1, 2e9, 0)}
	once := func() {
		t.Helper()
		if r := fleet.Once(t.Context(), l, fleettest.Host("a"), d); r.Err != nil || r.Untold != nil {
			t.Fatalf("%+v", r)
		}
	}
	once()
	if d.times > 0 {
		t.Errorf("told %v, though nothing was placed", d.claims)
	}
	if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host("b"), fleettest.Capacity()); err != nil {
		t.Fatal(err)
	}
	for n, host := range map[byte]string{2: "a", 3: "b"} {
		ask := fleet.Ask{Kbits: 3_000_000, Kpackets: 50, Host: fleettest.Host(host).ID, Traits: []string{fleet.NetworkTrait("red")}}
		if _, err := fleet.Place(t.Context(), l, fleettest.VM(n), fleettest.MAC(n), ask); err != nil {
			t.Fatal(err)
		}
	}
	once()
	want := []api.HostClaim{{
		ID: fleettest.VM(2), MAC: fleettest.MAC(2), PF: fleettest.PF0, Rate: api.Rate{Bits: 3e9, Packets: 50e3},
	}}
	if !slices.Equal(d.claims, want) {
		t.Errorf("told %+v, want %+v", d.claims, want)
	}
	d.capacity.Claims = []api.HostClaimState{{HostClaim: want[0]}}
	if err := fleet.Release(t.Context(), l, fleettest.VM(2), fleettest.MAC(2)); err != nil {
		t.Fatal(err)
	}
	once()
	if len(d.claims) > 0 {
		t.Errorf("told %+v after the end", d.claims)
	}
}
