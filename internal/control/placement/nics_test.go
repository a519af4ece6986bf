package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// nic gives the VM another NIC.
func nic(vm *model.VM, network string, pps float64) *model.NIC {
	n := len(vm.NICs)
	vm.NICs = append(vm.NICs, model.NIC{
		Alias: fmt.Sprintf("ua-net%d", n), MAC: model.MAC{2, 0, 0, 0, vm.ID[len(vm.ID)-1], byte(n)}, Tap: fmt.Sprintf("%s-tap%d", vm.Name, n),
		Network: network, Failover: model.FailoverTeaming, FreePort: model.Yes, LinkUp: model.Yes,
		Virtio: model.Traffic{RxPPS: pps, Known: true},
	})
	return &vm.NICs[n]
}

// nicsSaid prints a Target as "vm/nic:vf" triples.
func nicsSaid(s *scene, t *model.Target) string {
	var out []string
	for _, a := range t.Assign {
		out = append(out, s.FindVM(a.VM).Name+"/"+strings.TrimPrefix(a.NIC, "ua-")+":"+a.VF.String())
	}
	return strings.Join(out, " ")
}

func TestNICsOfAVM(t *testing.T) {
	rule := func(r model.VMRule) model.Rules { r.Match = "vm0"; return model.Rules{VMs: []model.VMRule{r}} }
	for _, c := range []struct {
		name  string
		rules model.Rules
		world func(s *scene)
		want  string
		why   string            // vm0's Reason
		nics  map[string]string // those of its NICs
	}{
		{
			name: "the management NIC comes first and can have none", want: "vm0/net1:pf0/0",
			world: func(s *scene) { nic(s.pf("pf0", "data", 1, 0).vm("mgmt", 9), "data", 1) },
			why:   "holds a VF behind ua-net1: there are VFs",
		},
		{
			name: "the first NIC is on a PF whose VFs are not made", want: "vm0/net1:pf1/0",
			world: func(s *scene) {
				nic(s.pf("pf0", "mgmt", 0, 0).pf("pf1", "data", 1, 0).vm("mgmt", 9), "data", 1)
			},
		},
		{
			name: "one VF for each NIC that can have one", want: "vm0/net0:pf0/0 vm0/net2:pf1/0",
			world: func(s *scene) {
				vm := s.pf("pf0", "br0", 1, 0).pf("pf1", "br1", 1, 0).vm("br0", 5)
				nic(vm, "br9", 1)
				nic(vm, "br1", 7)
			},
			nics: map[string]string{"ua-net0": "holds a VF behind ua-net0: there are VFs", "ua-net2": "holds a VF behind ua-net2: there are VFs"},
		},
		{
			name: "two NICs of a VM compete on one network", want: "vm0/net1:pf0/0",
			world: func(s *scene) { nic(s.pf("pf0", "br0", 1, 0).vm("br0", 5), "br0", 7); s.vm("br0", 6) },
			why:   "holds a VF behind ua-net1: it gains more from a VF than vm1, the next in line",
			nics: map[string]string{
				"ua-net0": "stays on virtio with ua-net0: those with a VF gain more",
				"ua-net1": "holds a VF",
			},
		},
		{
			name: "a rule names the NIC by alias", want: "vm0/net0:pf0/0", rules: rule(model.VMRule{NIC: "ua-net0"}),
			world: func(s *scene) { nic(s.pf("pf0", "br0", 1, 0).vm("br0", 5), "br0", 7) },
		},
		{
			name: "by MAC", want: "vm0/net1:pf0/0", rules: rule(model.VMRule{NIC: "02:00:00:00:30:01"}),
			world: func(s *scene) { nic(s.pf("pf0", "br0", 1, 0).vm("br0", 9), "br0", 1) },
		},
		{
			name: "by network", want: "vm0/net1:pf1/0", rules: rule(model.VMRule{NIC: "br1"}),
			world: func(s *scene) { nic(s.pf("pf0", "br0", 1, 0).pf("pf1", "br1", 1, 0).vm("br0", 9), "br1", 1) },
		},
		{
			name: "a rule names a NIC that is not there", want: "", rules: rule(model.VMRule{NIC: "ua-net7"}),
			world: func(s *scene) { nic(s.pf("pf0", "br0", 1, 0).vm("br0", 9), "br0", 1) },
			why:   "matches `nic: ua-net7`",
		},
		{
			name: "a NIC that a rule leaves out gives its VF up", want: "vm0/net1:pf0/1", rules: rule(model.VMRule{NIC: "ua-net1"}),
			world: func(s *scene) {
				nic(s.pf("pf0", "br0", 2, 0).vm("br0", 9), "br0", 1)
				s.give(&s.VMs[0], model.VFID{PF: "pf0", Index: 0})
			},
			nics: map[string]string{"ua-net0": "a rule allows VFs only for NIC ua-net1 of this VM"},
		},
		{
			name: "a pinned VM's NICs are all pinned", want: "vm0/net0:pf0/0 vm0/net1:pf0/1", rules: rule(model.VMRule{Pin: true}),
			world: func(s *scene) { nic(s.pf("pf0", "br0", 2, 0).vm("br0", 0), "br0", 0); s.vm("br0", 9) },
		},
		{
			name: "no more VFs than free root ports, the busiest NIC first", want: "vm0/net1:pf1/0",
			world: func(s *scene) {
				vm := s.pf("pf0", "br0", 1, 0).pf("pf1", "br1", 1, 0).vm("br0", 5)
				nic(vm, "br1", 7)
				vm.Ports = 1
			},
			nics: map[string]string{"ua-net0": "other NICs of the VM leave no PCIe root port for it"},
		},
		{
			name: "a NIC with somebody else's VF does not keep the other from one", want: "vm0/net1:pf0/1",
			world: func(s *scene) {
				vm := s.pf("pf0", "br0", 2, 0).vm("br0", 5)
				nic(vm, "br0", 7)
				s.give(vm, model.VFID{PF: "pf0", Index: 0})
				vm.NICs[0].VFOwner, s.PFs[0].VFs[0].Owner = model.OwnerForeign, model.OwnerForeign
			},
			nics: map[string]string{"ua-net0": "attached by somebody else"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.world(s)
			got := decider(t, policyOf(c.rules)).Decide(start, &s.Snapshot, &Hints{})
			if nicsSaid(s, got) != c.want {
				t.Errorf("assigned %q, want %q", nicsSaid(s, got), c.want)
			}
			if text := got.Reasons[0].String(); !strings.Contains(text, c.why) {
				t.Errorf("the VM: %q does not say %q", text, c.why)
			}
			for alias, want := range c.nics {
				if why := got.NIC(0, alias); why.NIC != alias || !strings.Contains(why.String(), want) {
					t.Errorf("%s: %q does not say %q", alias, why, want)
				}
			}
		})
	}
}

// A NIC whose MAC exists twice gets no VF, pinned or not, and keeps the one it has.
func TestDuplicateMACs(t *testing.T) {
	s := newScene().pf("pf0", "br0", 4, 0)
	for range 4 {
		s.vm("br0", 9)
	}
	for i := range s.VMs {
		s.VMs[i].NICs[0].MAC = model.MAC{2, 0, 0, 0, 0, byte(i)}
	}
	s.VMs[1].NICs[0].MAC = s.VMs[0].NICs[0].MAC
	d := decider(t, policyOf(model.Rules{VMs: []model.VMRule{{Match: "vm0", Pin: true}}}))
	look := func() *model.Target { return d.Decide(start, &s.Snapshot, &Hints{}) }
	got := look()
	if said(s, got) != "vm2:pf0/0 vm3:pf0/1" {
		t.Errorf("assigned %q", said(s, got))
	}
	want := "stays on virtio: it must not be moved (its MAC 02:00:00:00:00:00 is also that of NIC ua-net0 of vm1 on network br0, so " +
		"frames could go to either; give one of them another MAC and restart it)"
	if text := got.Reasons[0].String(); text != want {
		t.Errorf("vm0: %q", text)
	}
	for what, change := range map[string]func(){
		"the other is stopped":            func() { s.VMs[1].State = model.VMStopped },
		"the other is on another network": func() { s.VMs[1].NICs[0].Network = "br1" },
		"the other has another MAC":       func() { s.VMs[1].NICs[0].MAC[0] = 6 },
	} {
		before := s.VMs[1]
		before.NICs = append([]model.NIC(nil), before.NICs...)
		change()
		if got := look(); got.Reasons[0].Code != model.CodePinned {
			t.Errorf("%s: vm0 %s", what, &got.Reasons[0])
		}
		s.VMs[1] = before
		if got := look(); got.Reasons[0].Code != model.CodeVeto {
			t.Errorf("%s, no more: vm0 %s", what, &got.Reasons[0])
		}
	}
	s.give(&s.VMs[0], model.VFID{PF: "pf0", Index: 3})
	if got := look(); !strings.Contains(said(s, got), "vm0:pf0/3") {
		t.Errorf("a VF was taken from a VM whose MAC is there twice: %q", said(s, got))
	}
}

// For any VMs, NICs, networks and ports: one NIC per VF, on its network, and no VM gets more VFs than it has ports.
func TestSeveralNICsSound(t *testing.T) {
	networks := rapid.SampledFrom([]string{"br0", "br1", "br2"})
	eachPolicy(t, func(t *rapid.T, rules model.Rules) {
		s := newScene().pf("pf0", "br0", rapid.IntRange(0, 4).Draw(t, "vfs"), 0).pf("pf1", "br1", rapid.IntRange(0, 4).Draw(t, "vfs"),
			0).pf("pf2", "br0", 1, 1)
		for range rapid.IntRange(1, 6).Draw(t, "vms") {
			vm := s.vm(networks.Draw(t, "network"), 1)
			for range rapid.IntRange(0, 3).Draw(t, "nics") {
				nic(vm, networks.Draw(t, "network"), rapid.Float64Range(0, 100).Draw(t, "pps"))
			}
			vm.Ports = rapid.IntRange(0, 3).Draw(t, "ports")
			vm.State = rapid.SampledFrom([]model.VMState{model.VMRunning, model.VMRunning, model.VMPaused}).Draw(t, "state")
		}
		rules.VMs = []model.VMRule{
			{Match: "vm0", Pin: true},
			{Match: "vm1", NIC: "ua-net0"},
			{Match: "vm2", NIC: "br1", Forbid: rapid.Bool().Draw(t, "forbid")},
		}
		d, err := New(rules)
		if err != nil {
			t.Fatal(err)
		}
		for tick := range 5 {
			got := d.Decide(start.Add(time.Duration(tick)*time.Second), &s.Snapshot, &Hints{})
			checkSound(t, s, got)
			carryOut(s, got)
		}
	})
}

func checkSound(t *rapid.T, s *scene, got *model.Target) {
	taken, plugs := map[model.VFID]bool{}, map[model.VMID]int{}
	last := model.NICID{}
	for _, a := range got.Assign {
		id := model.NICID{VM: a.VM, NIC: a.NIC}
		n := s.FindVM(a.VM).FindNIC(a.NIC)
		switch {
		case last.Compare(id) >= 0:
			t.Fatalf("%s after %s", id, last)
		case taken[a.VF]:
			t.Fatalf("%s is given twice", a.VF)
		case n == nil || s.FindPF(a.VF.PF).Network != n.Network:
			t.Fatalf("%s gets %s", id, a.VF)
		}
		last, taken[a.VF] = id, true
		if n.VF == model.NoVF {
			plugs[a.VM]++
		}
	}
	for i := range s.VMs {
		vm, why := &s.VMs[i], &got.Reasons[i]
		if vm.Ports > 0 && plugs[vm.ID] > vm.Ports {
			t.Fatalf("%s gets %d VFs for %d ports", vm.Name, plugs[vm.ID], vm.Ports)
		}
		holds := false
		for j := range vm.NICs {
			n := &vm.NICs[j]
			has := false
			for _, a := range got.Assign {
				has = has || a.VM == vm.ID && a.NIC == n.Alias
			}
			holds = holds || has
			if r := got.NIC(i, n.Alias); r.NIC == n.Alias && r.Hold != has {
				t.Fatalf("%s of %s: assigned %v, but %s", n.Alias, vm.Name, has, r)
			}
		}
		if why.Code == "" || why.Hold != holds {
			t.Fatalf("%s: holds %v, but %+v", vm.Name, holds, why)
		}
	}
}

// carryOut applies a Target.
func carryOut(s *scene, t *model.Target) {
	for i := range s.PFs {
		for j := range s.PFs[i].VFs {
			s.PFs[i].VFs[j].Owner, s.PFs[i].VFs[j].Holder = model.OwnerFree, ""
		}
	}
	for i := range s.VMs {
		vm := &s.VMs[i]
		for j := range vm.NICs {
			n := &vm.NICs[j]
			n.VFPath.Known = true
			had := n.VF != model.NoVF
			n.VF, n.VFOwner = model.NoVF, ""
			for _, a := range t.Assign {
				if a.VM == vm.ID && a.NIC == n.Alias {
					n.VF, n.VFOwner = a.VF, model.OwnerSluice
					s.FindVF(a.VF).Owner, s.FindVF(a.VF).Holder = model.OwnerSluice, vm.ID
				}
			}
			if has := n.VF != model.NoVF; has != had && vm.Ports > 0 {
				vm.Ports += map[bool]int{true: -1, false: 1}[has]
				if vm.Ports == 0 {
					for k := range vm.NICs {
						vm.NICs[k].FreePort = model.No
					}
				}
			}
		}
	}
}
