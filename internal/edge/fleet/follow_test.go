package fleet_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	cmp2 "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

// Names and classes as Neutron's agents and OVN's driver publish them.
const (
	node  = "compute-1.example.org"
	ovs   = node + ":Open vSwitch agent"
	sriov = node + ":NIC Switch agent"
	ovn   = node + ":OVN Controller agent"
	kpps  = "NET_PACKET_RATE_KILOPACKET_PER_SEC"
	out   = "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC"
	in    = "NET_BW_IGR_KILOBIT_PER_SEC"

	elsewhere = "compute-2.example.org"
)

// neutron is a ledger with the compute node, the given providers below it, and claims of instances and migrations by number. A
// consumer's UUID is that of its number.
func neutron(t testing.TB, providers []string, types map[byte]string, claims map[byte]map[string]map[string]int) *fleettest.Ledger {
	t.Helper()
	l := &fleettest.Ledger{}
	do := func(r fleet.Request) {
		if err := l.Do(t.Context(), r); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
	}
	plain := fleet.Inventory{Total: 100_000_000, Min: 1, Max: 100_000_000, Step: 1, Ratio: 1}
	all := map[string]fleet.Inventory{fleet.ClassBits: plain, kpps: plain, out: plain, in: plain}
	do(fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: node, Name: node}})
	for _, name := range providers {
		p := fleet.Provider{ID: name, Name: name, Parent: node}
		do(fleet.Request{Kind: fleet.CreateProvider, Provider: p})
		p.Inventories = all
		do(fleet.Request{Kind: fleet.SetInventories, Provider: p})
	}
	do(fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: elsewhere, Name: elsewhere}})
	do(fleet.Request{Kind: fleet.SetInventories, Provider: fleet.Provider{ID: elsewhere, Inventories: all}})
	for n, amounts := range claims {
		c := fleet.Claim{Consumer: fleettest.VM(n), Generation: fleet.NewConsumer, Type: "INSTANCE", User: "nova", Amounts: amounts}
		if c.Type = cmp.Or(types[n], c.Type); c.Type == "MIGRATION of another" {
			c.Type, c.User = "MIGRATION", "another"
		}
		do(fleet.Request{Kind: fleet.SetClaim, Claim: c})
	}
	return l
}

// What Nova and Neutron have claimed of a host's devices and packets is told to its daemon, and nothing is written.
func TestFollow(t *testing.T) {
	type claims = map[byte]map[string]map[string]int
	claim := func(n byte, pf string, bits, packets float64) api.HostClaim {
		return api.HostClaim{ID: fleettest.VM(n), PF: pf, Rate: api.Rate{Bits: bits, Packets: packets}}
	}
	bits := func(n int) map[string]int { return map[string]int{fleet.ClassBits: n, in: 7} }
	for name, test := range map[string]struct {
		claims  claims
		types   map[byte]string
		devices map[string]string
		before  []api.HostClaimState
		want    []api.HostClaim
		unknown string
	}{
		"nothing": {},
		"the agent of Open vSwitch: a bridge, and packets of the agent": {
			claims: claims{1: {ovs + ":red": bits(2_000_000), ovs: {kpps: 50}}, 2: {ovs + ":blue": bits(1_000_000)}},
			want:   []api.HostClaim{claim(1, fleettest.PF0, 2e9, 50e3), claim(2, fleettest.PF1, 1e9, 0)},
		},
		"the agent of SR-IOV: a PF": {
			claims: claims{1: {sriov + ":pf1": bits(2_000_000)}}, want: []api.HostClaim{claim(1, fleettest.PF1, 2e9, 0)},
		},
		"OVN: a bridge that is named": {
			claims:  claims{1: {ovn + ":br-ex": bits(2_000_000)}},
			devices: map[string]string{"br-ex": "pf1"}, want: []api.HostClaim{claim(1, fleettest.PF1, 2e9, 0)},
		},
		"two devices that are one PF": {
			claims: claims{1: {ovs + ":red": bits(1_000_000), sriov + ":pf0": bits(500_000)}}, want: []api.HostClaim{claim(1, fleettest.PF0, 1.5e9, 0)},
		},
		"packets alone, by direction": {claims: claims{1: {ovs: {out: 20}}}, want: []api.HostClaim{claim(1, "", 0, 20e3)}},
		"a device that is not known": {
			claims: claims{1: {ovn + ":br-ex": bits(2_000_000)}, 2: {ovs + ":red": bits(1_000_000)}},
			want:   []api.HostClaim{claim(2, fleettest.PF0, 1e9, 0)}, unknown: `"br-ex" of Neutron is neither a PF of this host nor the network of one`,
		},
		"receiving is nobody's promise": {claims: claims{1: {ovs + ":red": {in: 1_000_000}}}},
		"a VM that migrates away keeps its claim": {
			claims: claims{1: {ovs + ":red": bits(1_000_000)}, 2: {elsewhere: bits(2_000_000)}, 9: {ovs + ":red": bits(2_000_000)}},
			types:  map[byte]string{9: "MIGRATION"},
			before: []api.HostClaimState{
				{HostClaim: claim(1, fleettest.PF0, 1e9, 0), VM: "db-1"}, {HostClaim: claim(2, fleettest.PF0, 2e9, 0), VM: "db-2"},
			},
			want: []api.HostClaim{claim(1, fleettest.PF0, 1e9, 0), claim(2, fleettest.PF0, 2e9, 0)},
		},
		"two such VMs": {
			claims: claims{
				1: {elsewhere: bits(2_000_000)}, 2: {elsewhere: bits(2_000_000)},
				8: {ovs + ":red": bits(2_000_000)}, 9: {ovs + ":red": bits(2_000_000)},
			},
			types: map[byte]string{8: "MIGRATION", 9: "MIGRATION"},
			before: []api.HostClaimState{
				{HostClaim: claim(1, fleettest.PF0, 2e9, 0), VM: "db-1"}, {HostClaim: claim(2, fleettest.PF0, 2e9, 0), VM: "db-2"},
			},
			want: []api.HostClaim{claim(1, fleettest.PF0, 2e9, 0), claim(2, fleettest.PF0, 2e9, 0)},
		},
		"a VM leaves whose claim the migration has taken before it has another": {
			claims: claims{9: {ovs + ":red": bits(2_000_000)}}, types: map[byte]string{9: "MIGRATION"},
			before: []api.HostClaimState{{HostClaim: claim(2, fleettest.PF0, 2e9, 0), VM: "db-2"}},
			want:   []api.HostClaim{claim(2, fleettest.PF0, 2e9, 0)},
		},
		"rather one with a claim elsewhere": {
			claims: claims{3: {elsewhere: bits(2_000_000)}, 9: {ovs + ":red": bits(2_000_000)}}, types: map[byte]string{9: "MIGRATION"},
			before: []api.HostClaimState{
				{HostClaim: claim(2, fleettest.PF0, 2e9, 0), VM: "db-2"}, {HostClaim: claim(3, fleettest.PF0, 2e9, 0), VM: "db-3"},
			},
			want: []api.HostClaim{claim(3, fleettest.PF0, 2e9, 0)},
		},
		"nor does one of another user": {
			claims: claims{2: {elsewhere: bits(2_000_000)}, 9: {ovs + ":red": bits(2_000_000)}}, types: map[byte]string{9: "MIGRATION of another"},
			before: []api.HostClaimState{{HostClaim: claim(2, fleettest.PF0, 2e9, 0), VM: "db-2"}},
			want:   []api.HostClaim{claim(9, fleettest.PF0, 2e9, 0)},
		},
		"room for one that is not here": {
			claims: claims{9: {ovs + ":red": bits(2_000_000)}}, types: map[byte]string{9: "MIGRATION"},
			before: []api.HostClaimState{{HostClaim: claim(2, fleettest.PF0, 2e9, 0)}},
			want:   []api.HostClaim{claim(9, fleettest.PF0, 2e9, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := neutron(t, []string{ovs, ovs + ":red", ovs + ":blue", sriov, sriov + ":pf0", sriov + ":pf1", ovn, ovn + ":br-ex"}, test.types, test.claims)
			wrote := l.Writes()
			d := &told{capacity: *fleettest.Capacity()}
			d.capacity.Claims = test.before
			r := fleet.Follow(t.Context(), l, node, test.devices, d)
			if r.Err != nil || r.Writes != 0 || l.Writes() != wrote {
				t.Errorf("%+v, %d writes", r, l.Writes()-wrote)
			}
			if diff := cmp2.Diff(test.want, d.claims); diff != "" {
				t.Error(diff)
			}
			if (r.Untold == nil) != (test.unknown == "") || r.Untold != nil && !strings.Contains(r.Untold.Error(), test.unknown) {
				t.Errorf("untold: %v", r.Untold)
			}
		})
	}
}

// A compute node that the ledger does not have, or a host that nobody has observed yet, has no claims to end.
func TestFollowNothing(t *testing.T) {
	l := neutron(t, nil, nil, nil)
	d := &told{capacity: *fleettest.Capacity()}
	d.capacity.Claims = []api.HostClaimState{{HostClaim: api.HostClaim{ID: fleettest.VM(1), PF: fleettest.PF0, Rate: api.Rate{Bits: 1e9}}}}
	if r := fleet.Follow(t.Context(), l, "compute-1", nil, d); r.Err == nil || d.times > 0 {
		t.Errorf("%v, told %d times", r.Err, d.times)
	}
	if r := fleet.Follow(t.Context(), l, node, nil, &told{}); r.Err == nil {
		t.Error("a host that nobody has observed")
	}
	if r := fleet.Follow(t.Context(), l, node, nil, d); r.Err != nil || d.times != 1 || len(d.claims) != 0 {
		t.Errorf("%+v, told %v", r, d.claims)
	}
}

// Whatever is claimed, all of it that is known is told, once for each VM and PF.
func TestClaimsAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &fleet.State{Claims: map[string]fleet.Claim{}}
		names := []string{ovs, ovs + ":red", ovs + ":blue", sriov + ":pf0", ovn + ":br-ex"}
		for _, name := range names {
			s.Providers = append(s.Providers, fleet.Provider{ID: name, Name: name})
		}
		c := fleettest.Capacity()
		sum, packets := map[bool]float64{}, 0.0
		for n := range byte(rapid.IntRange(0, 6).Draw(t, "claims")) {
			amounts := fleet.Amounts{}
			for _, name := range names {
				if rapid.Bool().Draw(t, name) {
					k := rapid.IntRange(1, 5).Draw(t, "amount")
					if name == ovs {
						amounts[name] = map[string]int{kpps: k}
						packets += float64(k) * 1e3
						continue
					}
					amounts[name] = map[string]int{fleet.ClassBits: k}
					sum[name == ovn+":br-ex"] += float64(k) * 1e3
				}
			}
			id := fleettest.VM(n)
			s.Claims[id] = fleet.Claim{Consumer: id, Type: rapid.SampledFrom([]string{"INSTANCE", "MIGRATION", ""}).Draw(t, "type"), Amounts: amounts}
			if rapid.Bool().Draw(t, "was told") {
				c.Claims = append(c.Claims, api.HostClaimState{VM: "here", HostClaim: api.HostClaim{
					ID: fleettest.VM(n + 100), PF: fleettest.PF0, Rate: api.Rate{Bits: float64(rapid.IntRange(1, 5).Draw(t, "before")) * 1e3},
				}})
			}
		}
		list, unknown := fleet.ClaimsAt(s, node, c, nil)
		var got api.Rate
		seen := map[[2]string]bool{}
		for _, h := range list {
			if key := [2]string{h.ID, h.PF}; seen[key] || h.MAC != "" || h.Rate == (api.Rate{}) {
				t.Fatalf("%+v", list)
			} else {
				seen[key] = true
			}
			got.Bits, got.Packets = got.Bits+h.Rate.Bits, got.Packets+h.Rate.Packets
		}
		if got.Bits != sum[false] || got.Packets != packets || (unknown != nil) != (sum[true] > 0) {
			t.Fatalf("told %+v of %g bits/s and %g packets/s, unknown %v", got, sum[false], packets, unknown)
		}
	})
}

// drawFollowed is a host with up to three PFs behind each of two bridges, and claims of VMs on those and on PFs.
func drawFollowed(t *rapid.T) (*fleet.State, *api.HostCapacity) {
	s := &fleet.State{Claims: map[string]fleet.Claim{}}
	c := &api.HostCapacity{}
	names := []string{ovs + ":red", ovs + ":blue"}
	for i := range rapid.IntRange(2, 5).Draw(t, "PFs") {
		c.PFs = append(c.PFs, api.PFCapacity{
			PF: fmt.Sprint("pf", i), Address: fmt.Sprintf("0000:%02x:00.0", i), Network: rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "network"),
			Bits: api.RateCapacity{Total: float64(rapid.SampledFrom([]int{0, 10, 10, 25}).Draw(t, "carries")) * 1e3},
		})
		names = append(names, fmt.Sprint(sriov, ":pf", i))
	}
	for _, name := range names {
		s.Providers = append(s.Providers, fleet.Provider{ID: name, Name: name})
	}
	for n := range byte(rapid.IntRange(1, 8).Draw(t, "claims")) {
		drawClaim(t, s, n, 8)
	}
	return s, c
}

// drawClaim gives a VM a claim of up to so many kbit/s of each of some devices.
func drawClaim(t *rapid.T, s *fleet.State, n byte, most int) {
	amounts := fleet.Amounts{}
	for range rapid.IntRange(1, 3).Draw(t, "devices") {
		name := s.Providers[rapid.IntRange(0, len(s.Providers)-1).Draw(t, "device")].Name
		amounts[name] = map[string]int{fleet.ClassBits: rapid.IntRange(1, most).Draw(t, "kbit")}
	}
	id := fleettest.VM(n)
	s.Claims[id] = fleet.Claim{Consumer: id, Type: "INSTANCE", Amounts: amounts}
}

// toldOf is what the daemon says that it was told.
func toldOf(list []api.HostClaim) (out []api.HostClaimState) {
	for _, h := range list {
		out = append(out, api.HostClaimState{HostClaim: h, VM: "here"})
	}
	return out
}

// While claims are the same each stays at its PF, and when others end, or come that fit, each that has room there does.
func TestClaimsStay(t *testing.T) {
	stayed := 0
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawFollowed(t)
		first, _ := fleet.ClaimsAt(s, node, c, nil)
		c.Claims = toldOf(first)
		slices.SortFunc(c.Claims, func(a, b api.HostClaimState) int { return cmp.Compare(a.ID+a.PF, b.ID+b.PF) }) // as the daemon lists them
		if second, _ := fleet.ClaimsAt(s, node, c, nil); !cmp2.Equal(first, second) {
			t.Fatalf("nothing has changed: %s", cmp2.Diff(first, second))
		}
		given, total := map[string]float64{}, map[string]float64{}
		for i := range c.PFs {
			total[c.PFs[i].Address] = c.PFs[i].Bits.Total
		}
		before := maps.Clone(s.Claims)
		for _, id := range slices.Sorted(maps.Keys(before)) {
			if rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
				delete(s.Claims, id)
			}
		}
		for _, h := range first {
			if _, stays := s.Claims[h.ID]; stays {
				given[h.PF] += h.Rate.Bits
			}
		}
		fits := true
		for pf, n := range given {
			fits = fits && (total[pf] == 0 || n <= total[pf])
		}
		for n := range byte(rapid.IntRange(0, 2).Draw(t, "come")) {
			drawClaim(t, s, n+100, 2)
			for name, classes := range s.Claims[fleettest.VM(n+100)].Amounts {
				for i := range c.PFs {
					pf := &c.PFs[i]
					if name == sriov+":"+pf.PF || name == ovs+":"+pf.Network { // it may come here
						given[pf.Address] += float64(classes[fleet.ClassBits]) * 1e3
						fits = fits && given[pf.Address] <= pf.Bits.Total
					}
				}
			}
		}
		if !fits {
			return
		}
		after, _ := fleet.ClaimsAt(s, node, c, nil)
		for _, h := range first {
			if _, stays := s.Claims[h.ID]; stays && !slices.Contains(after, h) {
				t.Fatalf("%+v had room and is now at %+v", h, after)
			} else if stays {
				stayed++
			}
		}
	})
	if stayed == 0 {
		t.Error("no claim could stay")
	}
}

// Of a link that has become too slow for its claims, one goes to another PF behind the bridge that has room.
func TestClaimsLeaveSlowLink(t *testing.T) {
	s := &fleet.State{Providers: []fleet.Provider{{ID: ovs, Name: ovs + ":red"}}, Claims: map[string]fleet.Claim{}}
	c := fleettest.Capacity()
	c.PFs[1].Network = "red"
	for n := range byte(2) {
		id := fleettest.VM(n)
		s.Claims[id] = fleet.Claim{Consumer: id, Type: "INSTANCE", Amounts: fleet.Amounts{ovs: {fleet.ClassBits: 4e6}}}
		c.Claims = append(c.Claims, api.HostClaimState{HostClaim: api.HostClaim{ID: id, PF: fleettest.PF0, Rate: api.Rate{Bits: 4e9}}})
	}
	for total, want := range map[float64][]string{10e9: {fleettest.PF0, fleettest.PF0}, 5e9: {fleettest.PF0, fleettest.PF1}} {
		c.PFs[0].Bits.Total = total
		list, err := fleet.ClaimsAt(s, node, c, nil)
		if err != nil || len(list) != 2 || list[0].PF != want[0] || list[1].PF != want[1] {
			t.Errorf("of %g bits/s: %+v, %v; want %v", total, list, err, want)
		}
	}
}

// What is new does not go to a PF whose link is down, and what is there stays.
func TestNothingGoesToALinkThatIsDown(t *testing.T) {
	s := &fleet.State{Providers: []fleet.Provider{{ID: ovs, Name: ovs + ":red"}}, Claims: map[string]fleet.Claim{}}
	c := fleettest.Capacity()
	c.PFs[1].Network, c.PFs[1].Bits = "red", api.RateCapacity{}
	for n := range byte(2) {
		id := fleettest.VM(n)
		s.Claims[id] = fleet.Claim{Consumer: id, Type: "INSTANCE", Amounts: fleet.Amounts{ovs: {fleet.ClassBits: 4e6}}}
	}
	c.Claims = []api.HostClaimState{{HostClaim: api.HostClaim{ID: fleettest.VM(0), PF: fleettest.PF1, Rate: api.Rate{Bits: 4e9}}}}
	list, err := fleet.ClaimsAt(s, node, c, nil)
	if err != nil || len(list) != 2 || list[0].PF != fleettest.PF1 || list[1].PF != fleettest.PF0 {
		t.Errorf("%+v, %v; want the first where it is, and the second where the link is up", list, err)
	}
}
