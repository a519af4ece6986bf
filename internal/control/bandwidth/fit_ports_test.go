package bandwidth

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// portedHost is claimedHost with ports for some NICs.
func portedHost(t *rapid.T) (*model.Snapshot, *model.Rules) {
	snap, rules := claimedHost(t, true)
	for i := range snap.VMs {
		for k := range snap.VMs[i].NICs {
			nic := &snap.VMs[i].NICs[k]
			nic.Tap = fmt.Sprint("tap", i, k)
			if !rapid.Bool().Draw(t, "ported") {
				continue
			}
			rules.Ports = append(rules.Ports, model.Port{ID: nic.Tap, Tap: nic.Tap, MAC: nic.MAC, Since: rapid.Uint64Range(1, 3).Draw(t, "since"), SLA: model.SLA{
				Guarantee: model.Rate{Bits: rapid.Uint64Range(0, 6).Draw(t, "bits") * 1e9, Packets: rapid.Uint64Range(0, 6).Draw(t, "packets") * 1e3},
				Limit:     model.Rate{Bits: rapid.Uint64Range(0, 6).Draw(t, "limit") * 1e9},
			}})
		}
	}
	return snap, rules
}

// A port reduces what no other NIC is promised, on links and in packets, whatever classes they are in; nor does one that asks later what
// one that asked before it is promised.
func TestPortsTakeNothingFromOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap, rules := portedHost(t)
		rules.Claims = nil
		with := func(until uint64) (map[model.NICID]model.Rate, []Over) {
			r := *rules
			r.Ports = slices.DeleteFunc(slices.Clone(rules.Ports), func(p model.Port) bool { return p.Since > until })
			asked := AskedOf(snap, &r)
			a := Admit(asked, r.HostPackets)
			out := map[model.NICID]model.Rate{}
			for i := range asked {
				out[asked[i].ID] = a.Promised[i]
			}
			return out, a.Over
		}
		was, over := with(0)
		for until := uint64(1); until <= 3; until++ {
			is, more := with(until)
			if len(more) > len(over) {
				t.Errorf("ports exceed what there is: %v, before %v", more, over)
			}
			for vm, nic := range snap.NICs() {
				id := model.NICID{VM: vm.ID, NIC: nic.Alias}
				p := rules.PortOf(nic)
				if p != nil && p.Since == until { // its own may be lower: its limit counts whatever becomes of its guarantee
					continue
				}
				if is[id].Bits < was[id].Bits {
					t.Errorf("%v was promised %v, and with ports until %d %v", id, was[id], until, is[id])
				}
			}
			was, over = is, more
		}
	})
}

func TestFitPorts(t *testing.T) {
	snap := &model.Snapshot{PFs: []model.PF{{Name: "pf0", Network: "br0", LinkUp: true, Speed: 10e9, Managed: true}}}
	rules := &model.Rules{HostPackets: 50e3}
	add := func(name string, since uint64, s model.SLA) {
		last := byte(len(snap.VMs))
		nic := model.NIC{Alias: "net0", Tap: "tap-" + name, MAC: model.MAC{2, last}, Network: "br0", VF: model.NoVF}
		snap.VMs = append(snap.VMs, model.VM{ID: model.VMID(name), Name: name, State: model.VMRunning, NICs: []model.NIC{nic}})
		s.Source = model.SourceOfPort(name)
		rules.Ports = append(rules.Ports, model.Port{ID: name, Tap: nic.Tap, MAC: nic.MAC, SLA: s, Since: since})
	}
	rate := func(gbits, kpps uint64) model.Rate { return model.Rate{Bits: gbits * 1e9, Packets: kpps * 1e3} }
	add("a", 2, model.SLA{Guarantee: rate(5, 0), Limit: rate(8, 0)})
	add("b", 1, model.SLA{Guarantee: rate(6, 0)})
	add("c", 3, model.SLA{Guarantee: rate(2, 40)})
	add("d", 4, model.SLA{Guarantee: rate(0, 20)})
	add("e", 1, model.SLA{Guarantee: rate(2, 0), Limit: rate(1, 0)})
	add("f", 1, model.SLA{Guarantee: rate(1, 0)})
	add("g", 1, model.SLA{Guarantee: rate(1, 0)})
	snap.VMs[5].NICs[0].Network = "elsewhere"
	snap.VMs[6].State = model.VMStopped
	got := FitPorts(snap, rules)
	for i, want := range []string{
		"pf0 carries 10Gbit, of which others are guaranteed 6Gbit", "", "", "the host carries 50kpps on virtio, of which others are guaranteed 40kpps",
		"the NIC's limit is 1Gbit", "no PF connects the NIC's network", "",
	} {
		if got[i].Why != want || (want != "") != (got[i].Remedy != "") {
			t.Errorf("%s: %q, want %q; remedy %q", got[i].ID, got[i].Why, want, got[i].Remedy)
		}
	}
	if got[1].VM == nil || got[1].NIC != "net0" || got[6].VM != nil {
		t.Errorf("the NICs of b and g: %+v, %+v", got[1], got[6])
	}
	kept := got.Rules(rules)
	if s := kept.SLA(&snap.VMs[0], &snap.VMs[0].NICs[0]); !s.Guarantee.IsZero() || s.Limit != rate(8, 0) {
		t.Errorf("a keeps its limit only: %+v", s)
	}
	if s := rules.Ports[0].SLA; s.Guarantee != rate(5, 0) {
		t.Errorf("the rules were changed: %+v", s)
	}
	if p := got.problems(); len(p) != 4 || !strings.Contains(p[0].Text, "5Gbit for Neutron's port a (net0 of a) is refused: pf0 carries") {
		t.Errorf("problems: %+v", p)
	}
	rules.Claims = []model.Claim{{VM: "b", MAC: model.MAC{2, 1}, Guarantee: rate(9, 0)}, {VM: "c", MAC: model.MAC{2, 2}, Guarantee: rate(1, 30)}}
	if a := Admit(AskedOf(snap, rules), rules.HostPackets); len(a.Over) > 0 || a.Promised[1] != rate(6, 0) || a.Promised[2] != rate(2, 40) {
		t.Errorf("beside claims for the same NICs: %v, %v", a.Promised, a.Over)
	}
}

// A port of Neutron has the room of a claim whose VM is absent, and the claim that is refused for it is a problem.
func TestPortTakesRoomOfClaim(t *testing.T) {
	mac := model.MAC{2, 1}
	snap := &model.Snapshot{
		PFs: []model.PF{{Name: "pf0", Address: "0000:01:00.0", Network: "br0", LinkUp: true, Speed: 10e9, Managed: true}},
		VMs: []model.VM{{ID: "vm", Name: "web", State: model.VMRunning, NICs: []model.NIC{
			{Alias: "net0", Tap: "tap0", MAC: mac, Network: "br0", VF: model.NoVF},
		}}},
	}
	rules := &model.Rules{Claims: []model.Claim{
		{VM: "absent", MAC: model.MAC{2, 2}, PF: "0000:01:00.0", Guarantee: model.Rate{Bits: 6e9}},
	}}
	if _, claims, _ := Fit(snap, rules); len(claims.problems()) > 0 {
		t.Fatalf("without the port: %v", claims.problems())
	}
	rules.Ports = []model.Port{{ID: "port", Tap: "tap0", MAC: mac, SLA: model.SLA{Guarantee: model.Rate{Bits: 5e9}}}}
	ports, claims, _ := Fit(snap, rules)
	const want = "the claim of 6Gbit for 02:02:00:00:00:00 of absent is refused: pf0 carries 10Gbit, of which others are guaranteed 5Gbit"
	if p := claims.problems(); len(ports.problems()) > 0 || len(p) != 1 || p[0].Text != want {
		t.Errorf("with it: %v, %v", ports.problems(), p)
	}
}
