package observe

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/control/doctor"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/others"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

func TestDoctor(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 6, mute).Driver = "igb"
	f.addPF("pf1", "br1", 2, counting)
	for n := 1; n <= 9; n++ {
		f.addVM(n, "br0")
	}
	f.dom(2).Ready = model.No
	f.dom(3).NICs[0].Failover = model.FailoverNone
	f.link("vnet4").Master = 0
	f.dom(4).NICs[0].Network = "br0"
	f.dom(5).NICs = nil
	f.dom(6).NICs[0].FreePort = model.No
	f.dom(6).State = model.VMMigrating
	f.link("vnet7").Master = f.bridge("br7")
	f.dom(8).Hostdevs = []libvirt.Hostdev{{Alias: "hostdev0", Address: addr(5)}}
	f.dom(8).Ready = model.Unknown
	f.attach(9, addr(0))
	f.problems = []model.Problem{{Subject: "vm1", Text: "twice the same"}, {Subject: "vm1", Text: "twice the same"}}
	s := New(f, f.uplinks(), f, f, Options{Pool: Pool{"pf0": {VFs: []int{0, 1, 2, 3}}}})
	defer s.Close()
	got := doctor.Examine(snapshot(t, s))
	var b strings.Builder
	problems(&b, got)
	want := `problem vm1: twice the same
problem vm6: it has no free PCIe root port, so no VF can be plugged
problem pf0: its driver igb does not count per VF
problem pf0: 1 of its VFs are not in Sluice's pool
problem pf0: VFs that Sluice leaves alone: pf0/5 (vm8 has it as hostdev0, not attached by Sluice)
problem pf1: its VFs are not in Sluice's pool
problem vm2: its guest OS is not up: the guest agent's channel is not connected
problem vm3: NIC ua-net0 has no failover: the guest would not take a VF as its second path
problem vm4: tap vnet4 of NIC ua-net0 is down or in no bridge that is up: the virtio path carries nothing
problem vm5: it has no virtio NIC to fall back to
problem vm6: it is being migrated
problem vm7: none of its NICs is in the network of a PF of Sluice's pool
problem vm8: it has no guest agent channel, so Sluice cannot tell when its OS is up
problem vm8: it has a VF that Sluice did not attach, so Sluice leaves it alone
problem vm9: its load on VF pf0/0 is not confirmed: no answer of the guest yet
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, p := range got[1:] {
		if p.Remedy == "" {
			t.Errorf("%s: %s: no remedy", p.Subject, p.Text)
		}
	}
}

func TestDoctorFindsNothing(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0")
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll})
	defer s.Close()
	if got := doctor.Examine(snapshot(t, s)); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestDoctorWithoutPool(t *testing.T) {
	f := newFakeWorld()
	f.addVM(1, "br0")
	s := New(f, f.uplinks(), f, f, Options{})
	defer s.Close()
	got := doctor.Examine(snapshot(t, s))
	if !slices.ContainsFunc(got, func(p model.Problem) bool { return p.Text == "Sluice manages no PF" }) {
		t.Errorf("got %v", got)
	}
}

// A host with only virtual PFs needs no PF.
func TestDoctorOfVirtualPFsAlone(t *testing.T) {
	s := &model.Snapshot{VMs: []model.VM{{Name: "node", NICs: []model.NIC{{VirtualPF: "vpf0"}}}}}
	for _, p := range doctor.Examine(s) {
		if p.Subject == "" && !p.Info {
			t.Errorf("%+v", p)
		}
	}
}

// A VM in another network than the pool's PFs is told how it can have a VF without leaving OVN's bridge, unless no PF is served: then the
// PF says what to do.
func TestDoctorOfVMInAnotherNetwork(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br-int")
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll})
	defer s.Close()
	snap := snapshot(t, s)
	got := doctor.Examine(snap)
	if len(got) != 1 || got[0].Subject != "vm1" || !strings.HasPrefix(got[0].Remedy, "list a PF of its network under pfs: in sluice.yaml") {
		t.Errorf("%+v", got)
	}
	snap.PFs[0].Uplink.Why, snap.PFs[0].Uplink.Remedy = "OVN needs a NIC in mode switchdev", "devlink dev eswitch set"
	if got = doctor.Examine(snap); len(got) != 1 || got[0].Subject != "pf0" {
		t.Errorf("while the PF is refused: %+v", got)
	}
}

// It is not a problem if `vfs:` excludes VFs or the hardware lacks a feature.
func TestDoctorToleratesWhatIsMeant(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 4, mute)
	f.addPF("pf1", "br0", 4, counting)
	f.addVM(1, "br0")
	s := New(f, f.uplinks(), f, f, Options{Pool: Pool{"pf0": {VFs: []int{0, 1}}}})
	defer s.Close()
	got := doctor.Examine(snapshot(t, s))
	if n := model.Problems(got); n != 0 || len(got) != 3 {
		t.Errorf("%d problems and %d notes: %v", n, len(got)-n, got)
	}
}

// Two VMs with the same MAC cannot have a VF, and the remedy is not Sluice's to apply.
func TestDoctorFindsDuplicateMACs(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0")
	f.addVM(2, "br0").NICs[0].MAC = mac(1)
	f.addVM(3, "br9").NICs[0].MAC = mac(1) // another network
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll})
	defer s.Close()
	var b strings.Builder
	problems(&b, doctor.Examine(snapshot(t, s)))
	want := `problem vm1: its NIC ua-net0 has MAC 52:54:00:00:00:01, which NIC ua-net0 of vm2 has too: neither can have a VF
problem vm2: its NIC ua-net0 has MAC 52:54:00:00:00:01, which NIC ua-net0 of vm1 has too: neither can have a VF
`
	if got := strings.ReplaceAll(b.String(), "problem vm3: none of its NICs is in the network of a PF of Sluice's pool\n", ""); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// Functions of a virtual PF are not pairs: missing failover, port or tap is no problem for them, and the config's bond applies to the VM's
// ordinary NICs.
func TestDoctorLeavesFunctionsAlone(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	vm := f.addVM(1, "br0")
	vm.NICs[0].Failover = model.FailoverNone
	for i, vf := range []int{-1, 0} {
		vm.NICs = append(vm.NICs, model.NIC{
			Alias: model.VPFAlias("vpf0", vf), MAC: mac(10 + i), Network: "br0", VirtualPF: "vpf0", Function: i,
			FreePort: model.No,
		})
	}
	f.dom(1).Hostdevs = []libvirt.Hostdev{{Alias: "hostdev0", Address: addr(1), MAC: mac(11)}}
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll, Failover: func(string, model.VMID) model.Failover { return model.FailoverBond }})
	defer s.Close()
	snap := snapshot(t, s)
	for i, want := range []model.Failover{model.FailoverBond, model.FailoverNone, model.FailoverNone} {
		if n := snap.VMs[0].NICs[i]; n.Failover != want || n.VF != model.NoVF {
			t.Errorf("%s: failover %q, VF %v", n.Alias, n.Failover, n.VF)
		}
	}
	if n := snap.VMs[0].NICs[1]; n.Moved != nil {
		t.Errorf("without a tap, %s moved %+v", n.Alias, n.Moved)
	}
	for _, p := range doctor.Examine(snap) {
		if !strings.Contains(p.Text, "Sluice did not attach") && !strings.Contains(p.Text, "Sluice leaves alone") {
			t.Errorf("%+v", p)
		}
	}
}

// The counts of a function's tap are reported from the guest's point of view.
func TestMovedByAFunction(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0").NICs[0].VirtualPF = "vpf0"
	f.link("vnet1").Counters = netdev.Counters{RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4}
	f.addVM(2, "br0")
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll})
	defer s.Close()
	snap := snapshot(t, s)
	if got := snap.VMs[0].NICs[0].Moved; got == nil || *got != (model.Moved{RxPackets: 2, TxPackets: 1, RxBytes: 4, TxBytes: 3}) {
		t.Errorf("moved %+v", got)
	}
	if got := snap.VMs[1].NICs[0].Moved; got != nil {
		t.Errorf("an ordinary NIC tells %+v", got)
	}
}

// A PF in mode switchdev is rejected with a remedy: its VFs would cut VMs off.
func TestDoctorRefusesSwitchdev(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting).Eswitch = model.EswitchSwitchdev
	f.addVM(1, "br0")
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll})
	defer s.Close()
	got := doctor.Examine(snapshot(t, s))
	if len(got) != 1 || got[0].Subject != "pf0" || !strings.Contains(got[0].Text,
		"no VM can use its VFs: the NIC's embedded switch is in mode switchdev") || !strings.Contains(got[0].Remedy, "mode legacy") {
		t.Errorf("got %+v", got)
	}
}

// Other programs are asked about the VFs of the pool and their representors, now and then, and what they do is reported.
func TestDoctorFindsOthers(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 3, counting)
	f.pfs[0].Uses = []vf.Use{{}, {HostNetdev: "eth7"}, {}}
	var asked []others.Interface
	calls := 0
	s := New(f, f.uplinks(), f, f, Options{Pool: Pool{"pf0": {VFs: []int{0, 1}}}, Others: func(list []others.Interface) []model.Problem {
		asked, calls = list, calls+1
		return []model.Problem{{Subject: "pf0", Text: "somebody else", Remedy: "stop it", Info: true}}
	}})
	defer s.Close()
	for range 2 {
		if got := doctor.Examine(snapshot(t, s)); !slices.ContainsFunc(got, func(p model.Problem) bool { return p.Text == "somebody else" }) {
			t.Errorf("got %v", got)
		}
	}
	want := []others.Interface{{Name: "pf0v0", VF: model.VFID{PF: "pf0"}}, {Name: "eth7", VF: model.VFID{PF: "pf0", Index: 1}}}
	if !slices.Equal(asked, want) || calls != 1 {
		t.Errorf("asked %d times, about %+v", calls, asked)
	}
}

// Of a representor they are told which Linux bridge it is in.
func TestDoctorTellsOthersOfBridges(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting).Eswitch = model.EswitchSwitchdev
	f.link("pf0").Switch, f.link("pf0").Port = "a1", "p0"
	f.links = append(f.links, netdev.Link{Index: 300, Name: "rep0", Switch: "a1", Port: "pf0vf0", Master: f.bridge("br0")},
		netdev.Link{Index: 301, Name: "rep1", Switch: "a1", Port: "pf0vf1"})
	var asked []others.Interface
	s := New(f, f.uplinks(), f, f, Options{Pool: poolAll, Others: func(list []others.Interface) []model.Problem {
		asked = slices.DeleteFunc(slices.Clone(list), func(i others.Interface) bool { return !i.Representor })
		return nil
	}})
	defer s.Close()
	snapshot(t, s)
	want := []others.Interface{
		{Name: "rep0", Index: 300, VF: model.VFID{PF: "pf0"}, Representor: true, Bridge: "br0"},
		{Name: "rep1", Index: 301, VF: model.VFID{PF: "pf0", Index: 1}, Representor: true},
	}
	if !slices.Equal(asked, want) {
		t.Errorf("told of %+v, want %+v", asked, want)
	}
}
