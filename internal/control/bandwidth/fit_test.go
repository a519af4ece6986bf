package bandwidth

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/model"
)

// claimedHost draws a host with two PFs, which may be of one network if shared, VMs with SLAs of their own, and claims for VMs that are there, stopped, or absent.
func claimedHost(t *rapid.T, shared bool) (*model.Snapshot, *model.Rules) {
	rate := rapid.Custom(func(t *rapid.T) model.Rate {
		return model.Rate{Bits: rapid.Uint64Range(0, 6).Draw(t, "bits") * 1e9, Packets: rapid.Uint64Range(0, 6).Draw(t, "packets") * 1e3}
	})
	snap := &model.Snapshot{}
	for i := range 2 {
		network := fmt.Sprint("br", i)
		if shared && rapid.Bool().Draw(t, "shared") {
			network = "br0"
		}
		snap.PFs = append(snap.PFs, model.PF{
			Name: fmt.Sprint("pf", i), Address: model.PCIAddress(fmt.Sprint("0000:0", i, ":00.0")), Network: network, LinkUp: true,
			Speed: rapid.SampledFrom([]uint64{0, 5e9, 10e9}).Draw(t, "speed"), Managed: true,
		})
	}
	rules := &model.Rules{
		HostPackets: rapid.Uint64Range(0, 15).Draw(t, "host") * 1e3,
		Classes:     []model.Class{{Name: "gold", Priority: 1, SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}}}},
	}
	for i := range 5 {
		vm := model.VM{ID: model.VMID(fmt.Sprint("vm", i)), Name: fmt.Sprint("name", i), State: model.VMRunning}
		if rapid.IntRange(0, 4).Draw(t, "stopped") == 0 {
			vm.State = model.VMStopped
		}
		for k := range rapid.IntRange(0, 2).Draw(t, "nics") {
			vm.NICs = append(vm.NICs, model.NIC{
				Alias: fmt.Sprint("net", k), MAC: model.MAC{2, byte(k)}, Network: fmt.Sprint("br", rapid.IntRange(0, 2).Draw(t, "net")),
				VF: model.NoVF,
			})
		}
		s := model.SLA{Guarantee: rate.Draw(t, "local")}
		if rapid.Bool().Draw(t, "limited") {
			s.Limit.Bits = 4e9
		}
		if rapid.Bool().Draw(t, "gold") {
			s.Class = "gold"
		}
		if rapid.Bool().Draw(t, "has an SLA") {
			vm.SLAs = []model.NICSLA{{NIC: "net0", SLA: s}}
		}
		snap.VMs = append(snap.VMs, vm)
	}
	for i := range 7 {
		for k := range 2 {
			if g := rate.Draw(t, "claim"); !g.IsZero() && rapid.Bool().Draw(t, "claimed") {
				rules.Claims = append(rules.Claims, model.Claim{
					VM: model.VMID(fmt.Sprint("vm", i)), MAC: model.MAC{2, byte(k)}, Guarantee: g,
					PF: model.PCIAddress(fmt.Sprint("0000:0", rapid.IntRange(0, 2).Draw(t, "pf"), ":00.0")),
				})
			}
		}
		for pf := range 3 { // for the whole VM; of the last PF only packets
			c := model.Claim{VM: model.VMID(fmt.Sprint("vm", i)), Guarantee: rate.Draw(t, "claim of the VM")}
			if c.PF = model.PCIAddress(fmt.Sprint("0000:0", pf, ":00.0")); pf == 2 {
				c.PF, c.Guarantee.Bits = "", 0
			}
			if !c.Guarantee.IsZero() && rapid.IntRange(0, 3).Draw(t, "the VM has a claim") == 0 {
				rules.Claims = append(rules.Claims, c)
			}
		}
	}
	return snap, rules
}

// The claims of a whole VM are kept by what its NICs are promised together on the network of the PFs, and by what is reserved besides.
func TestClaimsOfWholeVMs(t *testing.T) {
	type there struct {
		vm      model.VMID
		network string
	}
	rapid.Check(t, func(t *rapid.T) {
		snap, rules := claimedHost(t, true)
		rules.Claims = slices.DeleteFunc(rules.Claims, func(c model.Claim) bool { return !c.MAC.IsZero() })
		before, asked := askedBy(snap, &model.Rules{Classes: rules.Classes}), AskedOf(snap, rules)
		promised := Admit(asked, rules.HostPackets).Promised
		got, packets := map[there]uint64{}, map[model.VMID]uint64{}
		for i := range asked {
			a := &asked[i]
			packets[a.ID.VM] = max(packets[a.ID.VM], promised[i].Packets)
			if pf := snap.FindPF(a.PF); pf != nil {
				got[there{a.ID.VM, pf.Network}] += promised[i].Bits
			}
		}
		want := map[there]uint64{}
		for _, c := range FitClaims(snap, rules) {
			if c.Why != "" {
				continue
			}
			// Where the NIC has an SLA of its own, the claim sets nothing: what is promised of that counts for it, and for no other.
			bits := c.Guarantee.Bits
			at := slices.IndexFunc(before, func(a Asked) bool { return c.NIC != "" && a.ID == model.NICID{VM: c.VM, NIC: c.NIC} && !a.SLA.IsZero() })
			if at >= 0 {
				i := slices.IndexFunc(asked, func(a Asked) bool { return a.ID == before[at].ID })
				bits = min(bits, promised[i].Bits)
			} else if packets[c.VM] < c.Guarantee.Packets {
				t.Fatalf("%+v is kept, but %d packets/s are promised and reserved", c, packets[c.VM])
			}
			if pf := slices.IndexFunc(snap.PFs, func(pf model.PF) bool { return pf.Address == c.PF }); pf >= 0 {
				want[there{c.VM, snap.PFs[pf].Network}] += bits
			}
		}
		for at, bits := range want {
			if got[at] < bits {
				t.Fatalf("claims of %d bits/s are kept at %+v, but %d are promised and reserved", bits, at, got[at])
			}
		}
	})
}

func TestClaimsTakeNothingFromOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap, rules := claimedHost(t, true)
		local := *rules
		local.Claims = nil
		before, with := askedBy(snap, &local), AskedOf(snap, rules)
		was, is := Admit(before, rules.HostPackets), Admit(with, rules.HostPackets)
		packets := map[model.VMID]bool{} // of VMs with a claim: their NICs share them
		for _, c := range rules.Claims {
			packets[c.VM] = true
		}
		for i := range before {
			a := &before[i]
			if a.ID != with[i].ID {
				t.Fatalf("the NICs are in another order: %v, not %v", with[i].ID, a.ID)
			}
			if claimed := with[i].SLA.Guarantee != a.SLA.Guarantee; claimed {
				if is.Promised[i].Bits != with[i].SLA.Guarantee.Bits || is.Promised[i].Packets < with[i].SLA.Guarantee.Packets {
					t.Fatalf("the claim of %v is kept, but promised %v of %v", a.ID, is.Promised[i], with[i].SLA.Guarantee)
				}
				continue
			}
			if is.Promised[i].Bits < was.Promised[i].Bits || is.Promised[i].Packets < was.Promised[i].Packets && !packets[a.ID.VM] {
				t.Fatalf("%v is promised %v, without claims %v", a.ID, is.Promised[i], was.Promised[i])
			}
		}
		for i := len(before); i < len(with); i++ {
			if is.Promised[i].Bits != with[i].SLA.Guarantee.Bits || is.Promised[i].Packets < with[i].SLA.Guarantee.Packets {
				t.Fatalf("of the reserved claim %v only %v are promised", with[i], is.Promised[i])
			}
		}
		if len(is.Over) > len(was.Over) {
			t.Fatalf("more is promised than there is: %v", is.Over)
		}
	})
}

func TestClaimsFitInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap, rules := claimedHost(t, false)
		once := FitClaims(snap, rules)
		mixed := *rules
		mixed.Claims = rapid.Permutation(rules.Claims).Draw(t, "order")
		mixed.Claims = append(mixed.Claims, mixed.Claims...) // the same twice
		equal := cmp.Comparer(func(a, b Fitted) bool { return a == b })
		if again := FitClaims(snap, &mixed); !cmp.Equal(once, again, equal) {
			t.Fatalf("another order: %s", cmp.Diff(once, again, equal))
		}
		kept := once.Rules(rules)
		second := FitClaims(snap, &kept)
		if at := slices.IndexFunc(second, func(c Fitted) bool { return c.Why != "" }); at >= 0 {
			t.Fatalf("what was kept is refused: %+v of %v, kept before were %+v", second[at], second, once)
		}
	})
}

// Two claims of a VM at two PFs of one network: what its NICs are guaranteed anyway counts for one of them.
func TestClaimsAtPFsOfOneNetwork(t *testing.T) {
	gbit := func(n uint64) model.Rate { return model.Rate{Bits: n * 1e9} }
	for _, nics := range []int{1, 2} {
		vm := model.VM{ID: "vm", Name: "db-1", State: model.VMRunning, SLAs: []model.NICSLA{{NIC: "net0", SLA: model.SLA{Guarantee: gbit(2)}}}}
		for k := range nics {
			vm.NICs = append(vm.NICs, model.NIC{Alias: fmt.Sprint("net", k), MAC: model.MAC{2, byte(k)}, Network: "br0", VF: model.NoVF})
		}
		snap := &model.Snapshot{VMs: []model.VM{vm}}
		rules := &model.Rules{}
		for _, address := range []model.PCIAddress{"0000:01:00.0", "0000:03:00.0"} {
			snap.PFs = append(snap.PFs, model.PF{Name: "pf" + string(address[6]), Address: address, Network: "br0", Speed: 10e9, Managed: true, LinkUp: true})
			rules.Claims = append(rules.Claims, model.Claim{VM: "vm", PF: address, Guarantee: gbit(3)})
		}
		sum := uint64(0)
		for _, bits := range ClaimsOf(AskedOf(snap, rules)).Links {
			sum += bits
		}
		// With one NIC the first claim is for it, and sets nothing beside its own SLA.
		if want := map[int]uint64{1: 5e9, 2: 6e9}[nics]; sum != want {
			t.Errorf("%d NICs: %d bits/s are guaranteed and reserved, want %d", nics, sum, want)
		}
	}
}

func TestFitClaims(t *testing.T) {
	const id, other = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	mac := model.MAC{2, 1}
	gbit := func(n uint64) model.Rate { return model.Rate{Bits: n * 1e9} }
	for _, c := range []struct {
		name  string
		state model.VMState
		sla   model.SLA // of the VM's own
		claim model.Claim
		want  string // why it is refused
		sum   uint64 // Gbit/s that are guaranteed on the PF
	}{
		{"kept", model.VMRunning, model.SLA{}, model.Claim{VM: id, MAC: mac, PF: "0000:01:00.0", Guarantee: gbit(6)}, "", 10},
		{"the VM's own counts first", model.VMRunning, model.SLA{Guarantee: gbit(1)}, model.Claim{
			VM: id, MAC: mac, PF: "0000:01:00.0", Guarantee: gbit(9),
		}, "", 5},
		{"stopped", model.VMStopped, model.SLA{}, model.Claim{VM: id, MAC: mac, PF: "0000:01:00.0", Guarantee: gbit(6)}, "", 10},
		{"absent", model.VMRunning, model.SLA{}, model.Claim{VM: "absent", MAC: mac, PF: "0000:01:00.0", Guarantee: gbit(6)}, "", 10},
		{
			"too much", model.VMRunning,
			model.SLA{},
			model.Claim{VM: id, MAC: mac, PF: "0000:01:00.0", Guarantee: gbit(7)},
			"pf0 carries 10Gbit, of which others are guaranteed 4Gbit", 4,
		},
		{"for the VM, which has one NIC", model.VMRunning, model.SLA{}, model.Claim{VM: id, PF: "0000:01:00.0", Guarantee: gbit(6)}, "", 10},
		{"for the VM at another PF of its network", model.VMRunning, model.SLA{}, model.Claim{VM: id, PF: "0000:03:00.0", Guarantee: gbit(6)}, "", 10},
		{"for a VM that is absent", model.VMRunning, model.SLA{}, model.Claim{VM: "absent", PF: "0000:01:00.0", Guarantee: gbit(6)}, "", 10},
		{
			"too much for the VM", model.VMRunning,
			model.SLA{},
			model.Claim{VM: id, PF: "0000:01:00.0", Guarantee: gbit(7)},
			"pf0 carries 10Gbit, of which others are guaranteed 4Gbit", 4,
		},
		{"too much in packets", model.VMRunning, model.SLA{}, model.Claim{
			VM: "absent", MAC: mac, PF: "0000:01:00.0", Guarantee: model.Rate{Bits: 1e9, Packets: 60e3},
		}, "the host carries 50kpps on virtio, of which others are guaranteed ", 4},
		{"above its limit", model.VMRunning, model.SLA{Limit: gbit(1)}, model.Claim{
			VM: id, MAC: mac, PF: "0000:01:00.0", Guarantee: gbit(2),
		}, "the NIC's limit is 1Gbit", 4},
		{
			"no such PF", model.VMRunning,
			model.SLA{},
			model.Claim{VM: "absent", MAC: mac, PF: "0000:02:00.0", Guarantee: gbit(1)},
			"this host has no PF 0000:02:00.0", 4,
		},
	} {
		nic := model.NIC{Alias: "net0", MAC: mac, Network: "br0", VF: model.NoVF}
		snap := &model.Snapshot{
			PFs: []model.PF{
				{Name: "pf0", Address: "0000:01:00.0", Network: "br0", Speed: 10e9, Managed: true, LinkUp: true},
				{Name: "pf1", Address: "0000:03:00.0", Network: "br0", Speed: 10e9, LinkUp: true},
			},
			VMs: []model.VM{
				{ID: id, Name: "db-1", State: c.state, NICs: []model.NIC{nic}, SLAs: []model.NICSLA{{SLA: c.sla}}},
				{
					ID: other, Name: "web-1", State: model.VMRunning, NICs: []model.NIC{nic},
					SLAs: []model.NICSLA{{SLA: model.SLA{Guarantee: gbit(4)}}},
				},
			},
		}
		rules := &model.Rules{HostPackets: 50e3, Claims: []model.Claim{c.claim}}
		got := FitClaims(snap, rules)
		if len(got) != 1 || got[0].Why != c.want || (got[0].Why == "") != (got[0].Remedy == "") {
			t.Errorf("%s: have %+v", c.name, got)
		}
		if sum := ClaimsOf(AskedOf(snap, rules)).Links["pf0"]; sum != c.sum*1e9 {
			t.Errorf("%s: guaranteed %d, want %d Gbit/s", c.name, sum, c.sum)
		}
		if p := got.problems(); (len(p) == 1) != (c.want != "") || len(p) == 1 && !strings.Contains(p[0].Text, c.want) {
			t.Errorf("%s: problems %v", c.name, p)
		}
	}
}
