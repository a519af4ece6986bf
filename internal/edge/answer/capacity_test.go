package answer

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// aHost draws a host with links, VMs on them and their SLAs.
func aHost(t *rapid.T) *model.View {
	snap := &model.Snapshot{}
	v := &model.View{Snapshot: snap, Rules: model.Rules{HostPackets: rapid.SampledFrom([]uint64{0, 1e5, 1e6}).Draw(t, "host's packets")}}
	for i := range rapid.IntRange(1, 3).Draw(t, "PFs") {
		snap.PFs = append(snap.PFs, model.PF{
			Name: fmt.Sprint("pf", i), Address: model.PCIAddress(fmt.Sprint("0000:0", i, ":00.0")), Network: fmt.Sprint("br", i), Managed: true, LinkUp: true,
			Uplink: model.Uplink{Kind: "linux-bridge", Switch: fmt.Sprint("br", i)}, Speed: rapid.SampledFrom([]uint64{0, 1e9, 1e10}).Draw(t, "speed"),
			Carries: rapid.SampledFrom([]uint64{0, 0, 9e8}).Draw(t, "carries"), VFs: []model.VF{{ID: model.VFID{PF: fmt.Sprint("pf", i)}}},
		})
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "VMs") {
		name := fmt.Sprint("vm", i)
		vm := model.VM{ID: model.VMID(name), Name: name, State: rapid.SampledFrom([]model.VMState{model.VMRunning, model.VMPaused, model.VMStopped}).Draw(t, "state")}
		for k := range rapid.IntRange(1, 2).Draw(t, "NICs") {
			vm.NICs = append(vm.NICs, model.NIC{Alias: fmt.Sprint("n", k), Network: rapid.SampledFrom([]string{"br0", "br1", "elsewhere"}).Draw(t, "network")})
		}
		if rapid.Bool().Draw(t, "on a VF") {
			vm.NICs[0].VF = snap.PFs[0].VFs[0].ID
		}
		snap.VMs = append(snap.VMs, vm)
		rate := func(what string) model.Rate {
			return model.Rate{
				Bits:    rapid.SampledFrom([]uint64{0, 3e8, 7e8, 4e9, 2e10}).Draw(t, what),
				Packets: rapid.SampledFrom([]uint64{0, 2e4, 7e4, 5e5}).Draw(t, what+" in packets"),
			}
		}
		v.Rules.VMs = append(v.Rules.VMs, model.VMRule{Match: name, SLA: model.SLA{Guarantee: rate("guarantee"), Limit: rate("limit")}})
	}
	return v
}

// with is the host with one more VM that asks for a guarantee.
func with(v *model.View, network string, g model.Rate) *model.View {
	snap, rules := *v.Snapshot, v.Rules
	snap.VMs = append(slices.Clone(snap.VMs), model.VM{
		ID: "new", Name: "new", State: model.VMRunning, NICs: []model.NIC{{Alias: "n0", Network: network}},
	})
	rules.VMs = append(slices.Clone(rules.VMs), model.VMRule{Match: "new", SLA: model.SLA{Guarantee: g}})
	return &model.View{Snapshot: &snap, Rules: rules}
}

func admitted(v *model.View) bandwidth.Admission {
	return bandwidth.Admit(bandwidth.AskedOf(v.Snapshot, &v.Rules), v.Rules.HostPackets)
}

// What is free is admitted for one more VM, and no more than that; of packets more may be, where VMs on VFs do not load the host now.
func TestCapacityIsWhatAdmissionAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := aHost(t)
		before := admitted(v)
		worse := func(network string, g model.Rate) string {
			w := with(v, network, g)
			after := admitted(w)
			return after.Worse(&before)
		}
		c := Capacity(v)
		for i, pf := range c.PFs {
			free := uint64(pf.Bits.Free)
			if why := worse(pf.Network, model.Rate{Bits: free}); why != "" {
				t.Fatalf("%d bits/s are free on %s: %s", free, pf.PF, why)
			}
			if speed := v.Snapshot.PFs[i].Shared(); speed == 0 && free > 0 {
				t.Fatalf("%d bits/s are free on %s, whose speed is unknown", free, pf.PF)
			} else if speed > 0 && free < speed && worse(pf.Network, model.Rate{Bits: free + 1}) == "" {
				t.Fatalf("more than the %d bits/s that are free on %s are admitted", free, pf.PF)
			}
		}
		free := uint64(c.Packets.Free)
		if why := worse("br0", model.Rate{Packets: free}); why != "" {
			t.Fatalf("%d packets/s are free: %s", free, why)
		}
		guaranteed := map[string]float64{"": 0}
		for _, g := range c.Guarantees {
			guaranteed[g.PF] += g.Rate.Bits
			guaranteed["packets"] += g.Rate.Packets
		}
		for _, pf := range c.PFs {
			if guaranteed[pf.Address] != pf.Bits.Guaranteed {
				t.Fatalf("guarantees on %s add up to %v, not to %v", pf.PF, guaranteed[pf.Address], pf.Bits.Guaranteed)
			}
		}
		if guaranteed[""] != 0 || guaranteed["packets"] != c.Packets.Guaranteed {
			t.Fatalf("guarantees of packets add up to %v, not to %v; on no PF there are %v bits/s", guaranteed["packets"], c.Packets.Guaranteed, guaranteed[""])
		}
		onVF := slices.ContainsFunc(v.Snapshot.VMs, func(vm model.VM) bool { return vm.NICs[0].VF != model.NoVF })
		if v.Rules.HostPackets > 0 && !onVF && worse("br0", model.Rate{Packets: free + 1}) == "" {
			t.Fatalf("more than the %d packets/s that are free are admitted", free)
		}
	})
}

// A guarantee is enforced by allocators that know it, and not in observe mode.
func TestCapacityIsEnforced(t *testing.T) {
	for allocator, want := range map[string][2]bool{"waterfill": {true, true}, "daqs": {true, false}, "equal": {false, false}, "": {false, false}} {
		for _, mode := range []model.Mode{model.ModeEnforce, model.ModeObserve} {
			v := &model.View{Mode: mode, Snapshot: &model.Snapshot{PFs: []model.PF{{Name: "pf0", Network: "br0"}}}}
			if allocator != "" {
				v.Bandwidth = &model.Bandwidth{Allocator: allocator}
			}
			if allocator == "waterfill" {
				v.Bandwidth.Off = true
				if c := Capacity(v); c.PFs[0].Bits.Enforced || c.Packets.Enforced {
					t.Error("enforced, although SLAs are not")
				}
				v.Bandwidth.Off = false
			}
			c := Capacity(v)
			if got := [2]bool{c.PFs[0].Bits.Enforced, c.Packets.Enforced}; mode == model.ModeEnforce && got != want || mode == model.ModeObserve && got != [2]bool{} {
				t.Errorf("%s, %q: %v", mode, allocator, got)
			}
		}
	}
}

// Before the first observation nothing is free; a drained host says so.
func TestCapacityOfNothing(t *testing.T) {
	if c := Capacity(nil); len(c.PFs) != 0 || c.Packets.Free != 0 || c.Drained {
		t.Errorf("%+v", c)
	}
	if c := Capacity(&model.View{Overrides: []model.Override{{Kind: model.OverrideDrain}}}); !c.Drained {
		t.Error("the host is drained")
	}
}

// A claim counts as guaranteed, but is no guarantee of the host's own, which would become a claim and keep itself alive.
func TestCapacityWithClaims(t *testing.T) {
	mac := model.MAC{2, 1}
	claim := func(vm model.VMID, bits uint64) model.Claim {
		return model.Claim{VM: vm, MAC: mac, PF: "0000:01:00.0", Guarantee: model.Rate{Bits: bits}}
	}
	v := &model.View{
		Snapshot: &model.Snapshot{
			PFs: []model.PF{{Name: "pf0", Address: "0000:01:00.0", Network: "br0", Speed: 10e9, Managed: true, LinkUp: true}},
			VMs: []model.VM{{ID: "a", Name: "db", State: model.VMRunning, NICs: []model.NIC{{Alias: "net0", Network: "br0", MAC: mac}}}},
		},
		Rules: model.Rules{Claims: []model.Claim{claim("a", 3e9), claim("b", 2e9), claim("c", 6e9)}},
	}
	c := Capacity(v)
	if got := c.PFs[0].Bits.Guaranteed; got != 5e9 || len(c.Guarantees) != 0 || len(c.Claims) != 3 {
		t.Fatalf("guaranteed %g, %v, %v", got, c.Guarantees, c.Claims)
	}
	if a, b, c := c.Claims[0], c.Claims[1], c.Claims[2]; a.VM != "db" || a.NIC != "net0" || a.Refused != "" || b.VM != "" || b.NIC != "" ||
		b.Refused != "" || c.Refused == "" || c.Remedy == "" {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
	if s := SLAs(v)[0]; s.Source != "claim" || s.Guarantee.Bits != 3e9 {
		t.Errorf("kept: %+v", s)
	}
	v.Rules.Claims[0].Guarantee.Bits = 11e9
	if s := SLAs(v)[0]; s.Source != "" || s.Guarantee.Bits != 0 {
		t.Errorf("refused: %+v", s)
	}
}
