package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

type nobody struct{}

func (nobody) VM(model.VMID) bool   { return false }
func (nobody) NIC(model.NICID) bool { return false }

type only model.VMID

func (o only) VM(id model.VMID) bool   { return id == model.VMID(o) }
func (o only) NIC(id model.NICID) bool { return o.VM(id.VM) }

// onlyNIC is a Busy with one NIC under way.
type onlyNIC struct{ nic model.NICID }

func (o onlyNIC) VM(id model.VMID) bool   { return id == o.nic.VM }
func (o onlyNIC) NIC(id model.NICID) bool { return id == o.nic }

var (
	macA = model.MAC{0x52, 0x54, 0, 0, 0, 0xa}
	macB = model.MAC{0x52, 0x54, 0, 0, 0, 0xb}
	vf0  = model.VFID{PF: "pf0", Index: 0}
	vf1  = model.VFID{PF: "pf0", Index: 1}
)

// world returns a Snapshot with VM a, which holds vf0, VM b on virtio, and a free vf1.
func world() *model.Snapshot {
	s := &model.Snapshot{Time: time.Unix(0, 0)}
	s.PFs = []model.PF{{Name: "pf0", Network: "br0", Managed: true, NumVFs: 2, SelfFDB: []model.MAC{macB}, VFs: []model.VF{
		{ID: vf0, Address: "0000:01:10.0", Owner: model.OwnerSluice, Holder: "a", MAC: macA, InGuest: model.Yes},
		{ID: vf1, Address: "0000:01:10.1", Owner: model.OwnerFree},
	}}}
	nic := func(mac model.MAC, tap, fdb string) []model.NIC {
		return []model.NIC{{Alias: "ua-0", MAC: mac, Tap: tap, Network: "br0", VLAN: 7, Failover: model.FailoverTeaming, Route: fdb}}
	}
	s.VMs = []model.VM{
		{ID: "a", Name: "a", State: model.VMRunning, NICs: nic(macA, "tapa", "pf0")},
		{ID: "b", Name: "b", State: model.VMRunning, NICs: nic(macB, "tapb", "tapb")},
	}
	s.VMs[0].NICs[0].VF, s.VMs[0].NICs[0].VFOwner = vf0, model.OwnerSluice
	return s
}

func target(s *model.Snapshot, a ...model.Assignment) *model.Target {
	return &model.Target{Assign: a, Reasons: make([]model.Reason, len(s.VMs))}
}

func text(moves []model.Move) string {
	var b strings.Builder
	for _, m := range moves {
		b.WriteString(m.String())
	}
	return b.String()
}

func TestSwapIsUnplugThenPlug(t *testing.T) {
	s := world()
	got := text(Diff(s, target(s, model.Assignment{VM: "b", NIC: "ua-0", VF: vf0}), nobody{}, DefaultTimeouts))
	want := `unplug a pf0/0
  check-virtio a vf pf0/0
  add-self a pf pf0 mac 52:54:00:00:00:0a
  open-dual-path a pf pf0 mac 52:54:00:00:00:0a
  detach a vf pf0/0 (0000:01:10.0)
  wait-gone a vf pf0/0
  route-to-tap a pf pf0 mac 52:54:00:00:00:0a
  clear-vf a vf pf0/0
  close-dual-path a pf pf0 mac 52:54:00:00:00:0a
  announce a pf pf0 mac 52:54:00:00:00:0a
plug b pf0/0
  check-virtio b vf pf0/0
  bind-vfio b vf pf0/0 (0000:01:10.0)
  set-vf b vf pf0/0 vlan 7 spoofchk on trust off
  add-self b pf pf0 mac 52:54:00:00:00:0b
  open-dual-path b pf pf0 mac 52:54:00:00:00:0b
  set-mac b vf pf0/0 mac 52:54:00:00:00:0b
  attach b vf pf0/0 (0000:01:10.0)
  wait-guest b vf pf0/0
  route-to-vf b pf pf0 mac 52:54:00:00:00:0b
  del-self b pf pf0 mac 52:54:00:00:00:0b
  close-dual-path b pf pf0 mac 52:54:00:00:00:0b
  announce b pf pf0 mac 52:54:00:00:00:0b
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNothingToDoIsNothing(t *testing.T) {
	s := world()
	if m := Diff(s, target(s, model.Assignment{VM: "a", NIC: "ua-0", VF: vf0}), nobody{}, DefaultTimeouts); m != nil {
		t.Errorf("planned %s", text(m))
	}
	if m := Diff(s, target(s), only("a"), DefaultTimeouts); m != nil {
		t.Errorf("planned for a busy VM: %s", text(m))
	}
	foreign := target(s)
	s.VMs[0].NICs[0].VFOwner = model.OwnerForeign
	foreign.Reasons[0].Code = model.CodeForeign
	if m := Diff(s, foreign, nobody{}, DefaultTimeouts); m != nil {
		t.Errorf("planned to take what others attached: %s", text(m))
	}
}

func TestEveryStepHasADeadline(t *testing.T) {
	s := world()
	for _, m := range Diff(s, target(s, model.Assignment{VM: "b", NIC: "ua-0", VF: vf0}), nobody{}, DefaultTimeouts) {
		for i, st := range m.Steps {
			if st.Timeout <= 0 {
				t.Errorf("%s has no deadline", st)
			}
			for _, gone := range []bool{false, true} {
				for _, u := range Undo(m, i, gone, DefaultTimeouts) {
					if u.Timeout <= 0 {
						t.Errorf("undoing %s: %s has no deadline", st, u)
					}
				}
			}
		}
	}
}

func kinds(steps []model.Step) string {
	var k []string
	for _, s := range steps {
		k = append(k, string(s.Kind))
	}
	return strings.Join(k, " ")
}

func TestUndo(t *testing.T) {
	s := world()
	moves := Diff(s, target(s, model.Assignment{VM: "b", NIC: "ua-0", VF: vf1}), nobody{}, DefaultTimeouts)
	unplug, plug := moves[0], moves[1]
	const tail = "clear-vf follow-guest announce"
	for _, c := range []struct {
		move model.Move
		at   model.StepKind
		gone bool
		want string
	}{
		{plug, model.StepCheckVirtio, false, ""},
		{plug, model.StepSetMAC, false, tail},
		{plug, model.StepAttach, false, "add-self open-dual-path detach wait-gone " + tail},
		{plug, model.StepWaitGuest, false, "add-self open-dual-path detach wait-gone " + tail},
		{plug, model.StepWaitGuest, true, "clear-vf del-self close-dual-path"},
		{unplug, model.StepCheckVirtio, false, ""},
		{unplug, model.StepWaitGone, false, "follow-guest announce"},
		{unplug, model.StepWaitGone, true, "clear-vf del-self close-dual-path"},
		{unplug, model.StepClearVF, false, tail},
	} {
		i := 0
		for c.move.Steps[i].Kind != c.at {
			i++
		}
		if got := kinds(Undo(c.move, i, c.gone, DefaultTimeouts)); got != c.want {
			t.Errorf("%s failed at %s, gone %v: undo %q, want %q", c.move.Kind, c.at, c.gone, got, c.want)
		}
	}
}

func TestResume(t *testing.T) {
	s := world()
	unplugA := Diff(s, target(s), nobody{}, DefaultTimeouts)[0]
	plugB, _ := Plug(s, &s.VMs[1], &model.Assignment{VM: "b", NIC: "ua-0", VF: vf1}, model.Rate{}, &model.Reason{}, DefaultTimeouts)
	for _, c := range []struct {
		name string
		move model.Move
		now  func(*model.Snapshot)
		want string // kind and first step; "" if nothing is left to do
	}{
		{"an unplug is finished", unplugA, func(*model.Snapshot) {}, "unplug check-virtio"},
		{
			"a VF that is out is cleaned", unplugA, func(s *model.Snapshot) { s.VMs[0].NICs[0].VF, s.PFs[0].VFs[0].Holder = model.NoVF, "" },
			"repair add-self",
		},
		{"a plug that got in is finished", plugB, func(s *model.Snapshot) {
			s.VMs[1].NICs[0].VF, s.VMs[1].NICs[0].VFOwner, s.PFs[0].VFs[1].Holder = vf1, model.OwnerSluice, "b"
		}, "plug check-virtio"},
		{"a plug that did not is cleaned", plugB, func(*model.Snapshot) {}, "repair add-self"},
		{
			"a repair comes again by itself",
			model.Move{Kind: model.MoveRepair, VM: "a", VF: vf0, Steps: unplugA.Steps},
			func(*model.Snapshot) {},
			"",
		},
		{"the VM is gone", plugB, func(s *model.Snapshot) { s.VMs = s.VMs[:1] }, "repair clear-vf"},
		{"somebody else has the VF", plugB, func(s *model.Snapshot) { s.PFs[0].VFs[1].Holder = "c" }, ""},
		{"another NIC of the VM has the VF", plugB, func(s *model.Snapshot) {
			other := s.VMs[1].NICs[0]
			other.Alias, other.VF, other.VFOwner = "ua-1", vf1, model.OwnerSluice
			s.VMs[1].NICs, s.PFs[0].VFs[1].Holder = append(s.VMs[1].NICs, other), "b"
		}, ""},
		{"the VF is foreign now", plugB, func(s *model.Snapshot) { s.PFs[0].VFs[1].Owner = model.OwnerForeign }, ""},
	} {
		s := world()
		c.now(s)
		m, ok := Resume(s, c.move, DefaultTimeouts)
		got := ""
		if ok {
			got = string(m.Kind) + " " + string(m.Steps[0].Kind)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The repair of a VLAN changes the VLAN of a VF in use, and none of its rates.
func TestVLANIsRepairedAlone(t *testing.T) {
	s := world()
	vf := &s.PFs[0].VFs[0]
	s.PFs[0].Uplink.Switch, vf.VLAN, vf.MaxTxRate, vf.MinTxRate, vf.MaxPackets = "br0", 9, 3e9, 1e9, 5000
	for _, f := range NewChecker().Check(s, nobody{}, DefaultTimeouts) {
		if f.Code != FindWrongVLAN {
			continue
		}
		if set := f.Repair[0].VF; set.MaxTxRate != vf.MaxTxRate || set.MinTxRate != vf.MinTxRate || set.MaxPackets != vf.MaxPackets ||
			set.VLAN != s.VMs[0].NICs[0].VLAN {
			t.Errorf("the repair sets %+v", set)
		}
		return
	}
	t.Error("no wrong VLAN was found")
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(s *model.Snapshot)
		want  string // "code subject: repair steps" per finding
	}{
		{"a sound host", func(*model.Snapshot) {}, ""},
		{"stale MAC", func(s *model.Snapshot) { s.PFs[0].VFs[1].MAC = model.MAC{2, 9} }, "stale-mac VF pf0/1: clear-vf"},
		{"stale VLAN", func(s *model.Snapshot) { s.PFs[0].VFs[1].VLAN = 7 }, "stale-vlan VF pf0/1: clear-vf"},
		{"stale rate", func(s *model.Snapshot) { s.PFs[0].VFs[1].MaxTxRate = 1e9 }, "stale-rate VF pf0/1: clear-vf"},
		{"stale trust", func(s *model.Snapshot) { s.PFs[0].VFs[1].Trust = model.Yes }, "stale-trust VF pf0/1: clear-vf"},
		{"a filter that swallows frames", func(s *model.Snapshot) { s.PFs[0].VFs[1].MAC = macB }, "stolen-mac VF pf0/1: clear-vf"},
		{
			"two VFs with one MAC", func(s *model.Snapshot) { s.PFs[0].VFs[1].MAC = macA },
			"duplicate-mac VF pf0/1: | stolen-mac VF pf0/1: clear-vf",
		},
		{"wrong MAC", func(s *model.Snapshot) { s.PFs[0].VFs[0].MAC = model.MAC{2, 9} }, "wrong-mac VM a: set-mac"},
		{"another VLAN", func(s *model.Snapshot) { s.PFs[0].Uplink.Switch, s.PFs[0].VFs[0].VLAN = "br0", 9 }, "wrong-vlan VM a: set-vf follow-guest announce"},
		{"an unknown VLAN", func(s *model.Snapshot) {
			s.PFs[0].Uplink.Switch, s.PFs[0].VFs[0].VLAN, s.VMs[0].NICs[0].Network = "br0", 9, ""
		}, ""},
		{"frames at a deaf tap", func(s *model.Snapshot) { s.VMs[0].NICs[0].Route = "tapa" }, "route-at-tap VM a: follow-guest announce"},
		{"frames at the PF", func(s *model.Snapshot) { s.VMs[1].NICs[0].Route = "pf0" }, "route-at-pf VM b: route-to-tap announce"},
		{
			"a VF that its guest does not use", func(s *model.Snapshot) { s.PFs[0].VFs[0].InGuest = model.No },
			"no-self VM a: add-self | route-at-idle-vf VM a: follow-guest announce",
		},
		{
			"a VF that the guest gave up as it migrates away", func(s *model.Snapshot) {
				s.PFs[0].VFs[0].InGuest, s.VMs[0].State = model.No, model.VMMigrating
			}, "route-at-idle-vf VM a: follow-guest announce",
		},
		{"a VF that a guest which migrates uses still", func(s *model.Snapshot) {
			s.VMs[0].State, s.VMs[0].NICs[0].DualPath, s.PFs[0].VFs[0].MAC = model.VMMigrating, true, model.MAC{}
		}, ""},
		{"a VF that waits for a VM which migrates in", func(s *model.Snapshot) {
			s.PFs[0].VFs[0].InGuest, s.VMs[0].State, s.VMs[0].NICs[0].Route = model.No, model.VMMigrating, ""
		}, ""},
		{"a VF of somebody else's in a VM that migrates", func(s *model.Snapshot) {
			s.VMs[0].NICs[0].VFOwner, s.PFs[0].VFs[0].Owner = model.OwnerForeign, model.OwnerForeign
			s.PFs[0].VFs[0].InGuest, s.VMs[0].State = model.No, model.VMMigrating
		}, ""},
		{"a VF in a VM that has come from another host", func(s *model.Snapshot) {
			s.VMs[0].NICs[0].Route, s.PFs[0].Uplink.Switch, s.PFs[0].VFs[0].VLAN = "", "br0", s.VMs[0].NICs[0].VLAN
		}, "route-unset VM a: follow-guest announce"},
		{"a dual path left open", func(s *model.Snapshot) { s.VMs[1].NICs[0].DualPath = true }, "open-dual-path VM b: follow-guest announce"},
		{"a dual path left open for a VF in use", func(s *model.Snapshot) {
			s.VMs[0].NICs[0].DualPath, s.VMs[0].NICs[0].Route, s.PFs[0].SelfFDB = true, "tapa", []model.MAC{macA, macB}
		}, "open-dual-path VM a: follow-guest announce"},
		{"a dual path for a guest that may take up its VF any moment", func(s *model.Snapshot) {
			s.VMs[0].NICs[0].DualPath, s.VMs[0].NICs[0].Route, s.PFs[0].SelfFDB = true, "tapa", []model.MAC{macA, macB}
			s.PFs[0].VFs[0].InGuest = model.No
		}, ""},
		{"what is left of a dual path", func(s *model.Snapshot) {
			s.DualPaths = []model.DualPath{{Tap: "tapz", MAC: macB, PF: "pf0", Detached: model.Yes}}
		}, "stale-dual-path tap tapz: close-dual-path"},
		{
			"a dual path of nobody's", func(s *model.Snapshot) { s.DualPaths = []model.DualPath{{Tap: "tapz", MAC: macB, PF: "pf0"}} },
			"lost-dual-path tap tapz: close-dual-path",
		},
		{"what is left of limits", func(s *model.Snapshot) {
			s.Limited = []model.TapLimit{{Tap: "tapz", Detached: model.Yes}}
		}, "stale-limit tap tapz: clear-tap"},
		{"limits of nobody's", func(s *model.Snapshot) { s.Limited = []model.TapLimit{{Tap: "tapz"}} }, "lost-limit tap tapz: clear-tap"},
		{"what is left of a switch port", func(s *model.Snapshot) {
			s.Ports = []model.TapLimit{{Tap: "tapz", Detached: model.Yes}}
		}, "stale-port tap tapz: clear-port"},
		{
			"a switch port of nobody's, which would be open without", func(s *model.Snapshot) { s.Ports = []model.TapLimit{{Tap: "tapz"}} },
			"lost-port tap tapz:",
		},
		{"a bridge entry of nobody's", func(s *model.Snapshot) {
			s.Routes = []model.Route{{Network: "br0", MAC: model.MAC{2, 9}, Port: "pf0"}}
		}, "stale-route switch br0: close-dual-path"},
		{"no filter for a virtio VM", func(s *model.Snapshot) { s.PFs[0].SelfFDB = nil }, "no-self VM b: add-self"},
		{"no filter for a VM that runs elsewhere still", func(s *model.Snapshot) { s.PFs[0].SelfFDB, s.VMs[1].State = nil, model.VMPaused }, ""},
		{
			"no filter and none to spare", func(s *model.Snapshot) { s.PFs[0].SelfFDB, s.PFs[0].SelfSlots = []model.MAC{{2, 9}}, 1 },
			"no-self VM b:",
		},
		{"no filter for a function without a carrier", func(s *model.Snapshot) {
			s.PFs[0].SelfFDB, s.VMs[1].NICs[0].VirtualPF, s.VMs[1].NICs[0].Carrier = nil, "vpf0", model.No
		}, ""},
		{"a filter for nobody's MAC", func(s *model.Snapshot) { s.PFs[0].SelfFDB = append(s.PFs[0].SelfFDB, model.MAC{2, 9}) }, ""},
		{"two VMs with one MAC", func(s *model.Snapshot) {
			s.VMs[1].NICs[0].MAC, s.VMs[1].NICs[0].Route, s.PFs[0].SelfFDB = macA, "pf0", nil
		}, "duplicate-mac VM a: | duplicate-mac VM b:"},
		{"two VMs with one MAC on networks of their own", func(s *model.Snapshot) {
			s.VMs[1].NICs[0].MAC, s.VMs[1].NICs[0].Network, s.PFs[0].SelfFDB = macA, "br1", nil
		}, ""},
		{"a MAC that a stopped VM has too", func(s *model.Snapshot) {
			s.VMs[1].NICs[0].MAC, s.VMs[1].State, s.PFs[0].SelfFDB = macA, model.VMStopped, nil
		}, ""},
		{"a filter for a holder", func(s *model.Snapshot) { s.PFs[0].SelfFDB = []model.MAC{macA, macB} }, "stale-self PF pf0: follow-guest"},
		{
			"what others own is theirs",
			func(s *model.Snapshot) {
				v := &s.PFs[0].VFs[1]
				v.Owner, v.Driver, v.MAC, v.VLAN = model.OwnerForeign, "vfio-pci", model.MAC{2, 9}, 5
			},
			"",
		},
		{
			"a VF of somebody else's that swallows frames",
			func(s *model.Snapshot) {
				s.PFs[0].VFs[1].Owner, s.PFs[0].VFs[1].MAC = model.OwnerForeign, macB
			},
			"foreign-mac VF pf0/1:",
		},
		{
			"a VF that somebody else gave the VM",
			func(s *model.Snapshot) {
				s.PFs[0].VFs[1].Owner, s.PFs[0].VFs[1].MAC, s.PFs[0].VFs[1].Holder = model.OwnerForeign, macB, "b"
			},
			"",
		},
		{
			"the MAC of a VM of another network",
			func(s *model.Snapshot) {
				s.PFs[0].VFs[1].Owner, s.PFs[0].VFs[1].MAC = model.OwnerForeign, macB
				s.VMs[1].NICs[0].Network = "br1"
			},
			"",
		},
	} {
		s := world()
		c.spoil(s)
		var got []string
		for _, f := range NewChecker().Check(s, nobody{}, DefaultTimeouts) {
			got = append(got, strings.TrimSpace(f.Code+" "+f.Subject+": "+kinds(f.Repair)))
		}
		if d := cmp.Diff(c.want, strings.Join(got, " | ")); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// A PF in a bond is behind the bond's port: bridge entries name that port, and so do Steps.
func TestBondedPF(t *testing.T) {
	bonded := func() *model.Snapshot {
		s := world()
		s.PFs[0].Uplink = model.Uplink{Switch: "br0", Port: "bond0"}
		return s
	}
	for code, spoil := range map[string]func(*model.Snapshot){
		FindRouteAtPF:     func(s *model.Snapshot) { s.VMs[1].NICs[0].Route = "bond0" },
		FindRouteAtIdleVF: func(s *model.Snapshot) { s.PFs[0].VFs[0].InGuest, s.VMs[0].NICs[0].Route = model.No, "bond0" },
	} {
		s := bonded()
		spoil(s)
		found := NewChecker().Check(s, nobody{}, DefaultTimeouts)
		at := slices.IndexFunc(found, func(f model.Finding) bool { return f.Code == code })
		if at < 0 {
			t.Errorf("%s: found only %+v", code, found)
			continue
		}
		for _, step := range found[at].Repair {
			if step.Path.PF != "pf0" || step.Path.Uplink != "bond0" {
				t.Errorf("%s: %+v, want PF pf0 behind bond0", code, step)
			}
		}
	}
	s := bonded()
	m := Unplug(s, &s.VMs[0], &s.VMs[0].NICs[0], &model.Reason{}, DefaultTimeouts)
	for _, step := range m.Steps {
		if step.Path != (model.PathStep{}) && step.Path.Port() != "bond0" {
			t.Errorf("%s goes through %s, want bond0", step.Kind, step.Path.Port())
		}
	}
}

// If the VM of a MAC has another tap now, removing the old dual path must not remove the MAC's bridge entry.
func TestStaleMirrorKeepsTheEntryOfItsVM(t *testing.T) {
	for mac, want := range map[model.MAC]string{macB: "", {2, 9}: "pf0"} {
		s := world()
		s.DualPaths = []model.DualPath{{Tap: "tapz", MAC: mac, PF: "pf0", Detached: model.Yes}}
		found := NewChecker().Check(s, nobody{}, DefaultTimeouts)
		if len(found) != 1 || len(found[0].Repair) != 1 || found[0].Repair[0].Path.PF != want {
			t.Errorf("MAC %s: %+v, want a step whose PF is %q", mac, found, want)
		}
	}
}

// Faults of a NIC are found while another NIC of its VM has a move under way, and their repair need not wait for that move.
func TestCheckBesideANICUnderWay(t *testing.T) {
	for nic, want := range map[string]int{"ua-0": 0, "ua-1": 1} {
		s := world()
		s.VMs[0].NICs[0].Route = "tapa"
		got := NewChecker().Check(s, onlyNIC{model.NICID{VM: "a", NIC: nic}}, DefaultTimeouts)
		if len(got) != want {
			t.Errorf("%s is under way: findings %+v, want %d", nic, got, want)
		}
		for _, f := range got {
			if of := f.Repair[0].Subject; f.Code != FindRouteAtTap || of.NIC != "ua-0" || of.Key() == (model.Subject{VM: "a", NIC: nic}).Key() {
				t.Errorf("%s is under way: %+v", nic, f)
			}
		}
	}
}

// Leftovers of a VM that ends by itself are repaired at once; what was there before Sluice is left alone unless a user asks.
func TestCheckFindsWhatAVMLeavesBehind(t *testing.T) {
	c := NewChecker()
	c.Check(world(), nobody{}, DefaultTimeouts)
	s := world()
	s.VMs = nil
	s.PFs[0].VFs[0].Owner, s.PFs[0].VFs[0].Holder = model.OwnerFree, ""
	s.PFs[0].VFs[1].MAC = model.MAC{2, 9}
	var got []string
	for _, f := range c.Check(s, nobody{}, DefaultTimeouts) {
		got = append(got, fmt.Sprintf("%s %s: %s %v", f.Code, f.Subject, kinds(f.Repair), Urgent(f.Code)))
	}
	want := []string{"left-behind VF pf0/0: clear-vf true", "stale-mac VF pf0/1: clear-vf false", "stale-self PF pf0: del-self true"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s.PFs[0].VFs[0].MAC, s.PFs[0].SelfFDB = model.MAC{}, nil
	if f := c.Check(s, nobody{}, DefaultTimeouts); len(f) != 1 {
		t.Errorf("after the repair: %v", f)
	}
	s.PFs[0].VFs[0].MAC = macA
	if f := c.Check(s, nobody{}, DefaultTimeouts); len(f) != 2 || f[0].Code != FindStaleMAC {
		t.Errorf("a MAC that came later is not what the VM left behind: %v", f)
	}
}

// The bridge entry of a holder that ends is removed at once, even if the bridge state in the Snapshots is older than the VM's
// end; later entries for its MAC are not taken for Sluice's.
func TestCheckFindsTheEntryOfAHolderThatEnds(t *testing.T) {
	c := NewChecker()
	at := func(sec int, pinned, late bool) (found []string) {
		s := world()
		s.Time = s.Time.Add(time.Duration(sec) * time.Second)
		s.Read = s.Time
		if late {
			s.Read = s.Time.Add(-5 * time.Second)
		}
		if s.PFs[0].VFs[0].Owner = model.OwnerFree; sec > 0 {
			s.VMs = s.VMs[1:]
			s.PFs[0].VFs[0].MAC = model.MAC{}
		}
		if pinned {
			s.Routes = []model.Route{{Network: "br0", MAC: macA, Port: "pf0", VLAN: 7}}
		}
		for _, f := range c.Check(s, nobody{}, DefaultTimeouts) {
			if strings.HasPrefix(f.Subject, "switch") {
				found = append(found, f.Code)
				if p := f.Repair[0].Path; p.PF != "pf0" || p.MAC != macA || p.VLAN != 7 || p.Network != "br0" || p.Tap != "" {
					t.Errorf("would be repaired by %+v", p)
				}
			}
		}
		return found
	}
	for i, step := range []struct {
		pinned, late bool
		want         string
	}{
		{false, false, "[]"},
		{false, true, "[]"},
		{true, true, "[left-behind]"},
		{true, false, "[left-behind]"},
		{false, false, "[]"},
		{true, false, "[stale-route]"},
	} {
		if got := fmt.Sprint(at(i, step.pinned, step.late)); got != step.want {
			t.Errorf("look %d: %s, want %s", i, got, step.want)
		}
	}
}

// Each NIC of a VM has its own Moves; a VF that somebody else attached to one is left alone.
func TestSeveralNICs(t *testing.T) {
	s := world()
	vm := &s.VMs[0]
	for _, alias := range []string{"ua-1", "ua-2"} {
		n := vm.NICs[0]
		n.Alias, n.VF, n.VFOwner, n.MAC[5] = alias, model.NoVF, "", alias[3]
		vm.NICs = append(vm.NICs, n)
	}
	vm.NICs[2].VF, vm.NICs[2].VFOwner = model.VFID{PF: "pf9"}, model.OwnerForeign
	tg := target(s, model.Assignment{VM: "a", NIC: "ua-1", VF: vf1})
	tg.Reasons[0] = model.Reason{VM: "a", NIC: "ua-1", Code: model.CodeRank}
	tg.NICs = []model.Reason{{VM: "a", NIC: "ua-0", Code: model.CodeOutranked}, {VM: "a", NIC: "ua-1", Code: model.CodeRank}}
	var got []string
	for _, m := range Diff(s, tg, nobody{}, DefaultTimeouts) {
		got = append(got, fmt.Sprintf("%s %s %s %s", m.Kind, m.NIC, m.VF, m.Reason.Code))
	}
	if want := []string{"unplug ua-0 pf0/0 outranked", "plug ua-1 pf0/1 rank"}; !slices.Equal(got, want) {
		t.Errorf("planned %q, want %q", got, want)
	}
	if moves := Diff(s, target(s, model.Assignment{VM: "a", NIC: "ua-0", VF: vf0}, model.Assignment{VM: "a", NIC: "ua-1", VF: vf1}), nobody{},
		DefaultTimeouts); len(moves) != 1 || moves[0].NIC != "ua-1" {
		t.Errorf("planned %s", text(moves))
	}
}

// PFs and VFs come and go under new names; the state about them is bounded by those that exist.
func TestCheckerForgetsWhatIsNotThere(t *testing.T) {
	c := NewChecker()
	for i := range 500 {
		s := world()
		name := fmt.Sprintf("pf%d", i)
		s.PFs[0].Name = name
		for k := range s.PFs[0].VFs {
			s.PFs[0].VFs[k].ID.PF, s.PFs[0].VFs[k].Owner = name, model.OwnerSluice
		}
		s.VMs[0].NICs[0].VF.PF = name
		c.Check(s, nobody{}, DefaultTimeouts)
	}
	if len(c.held) > 4 || len(c.ours) > 2 {
		t.Errorf("remembers %d VFs and %d PFs; 2 and 1 are there", len(c.held), len(c.ours))
	}
}

// While a VM that runs could not be read, nothing is cleared up that seems to be nobody's, and who is cut off is helped all the same.
func TestCheckSparesUnreadVMs(t *testing.T) {
	mirror := model.DualPath{Tap: "tapz", MAC: model.MAC{2, 0, 0, 0, 0, 9}, PF: "pf0"}
	for _, unread := range [][]model.VMID{nil, {"z"}} {
		s := world()
		s.Unread, s.DualPaths = unread, []model.DualPath{mirror}
		s.PFs[0].SelfFDB = append(s.PFs[0].SelfFDB, mirror.MAC)
		s.VMs[1].NICs[0].Route = "pf0" // it is on virtio
		c := NewChecker()
		c.Added(model.Filter{PF: "pf0", MAC: mirror.MAC})
		var repaired []string
		for _, f := range c.Check(s, nobody{}, DefaultTimeouts) {
			if len(f.Repair) > 0 {
				repaired = append(repaired, f.Code)
			}
		}
		for code, want := range map[string]bool{FindRouteAtPF: true, FindLostDualPath: unread == nil, FindStaleSelf: unread == nil} {
			if slices.Contains(repaired, code) != want {
				t.Errorf("unread %v: repaired %v, %s: want %v", unread, repaired, code, want)
			}
		}
	}
}

// With representors each VF has its own port: the PF's filters are not changed, and frames are sent to that port.
func TestRepresentorsNeedNoFilters(t *testing.T) {
	s := world()
	pf := &s.PFs[0]
	pf.Uplink = model.Uplink{Kind: "test", Switch: "br0", Representors: true}
	pf.SelfFDB = nil
	pf.VFs[0].Port, pf.VFs[1].Port = "rep0", "rep1"
	s.VMs[0].NICs[0].Route = "rep0"
	if found := NewChecker().Check(s, nobody{}, DefaultTimeouts); len(found) > 0 {
		t.Errorf("found wrong: %+v", found)
	}
	for _, m := range Diff(s, target(s, model.Assignment{VM: "b", NIC: "ua-0", VF: vf0}), nobody{}, DefaultTimeouts) {
		m = WithUndo(m, DefaultTimeouts)
		for _, list := range append(m.Undo, m.Steps, m.Gone) {
			for _, st := range list {
				if st.Kind == model.StepAddSelf || st.Kind == model.StepDelSelf {
					t.Errorf("%s %s: %s", m.Kind, m.VMName, st.Kind)
				}
				if st.Path != (model.PathStep{}) && (st.Path.Port() != "rep0" || st.Path.Kind != "test") {
					t.Errorf("%s %s: %s goes to %+v", m.Kind, m.VMName, st.Kind, st.Path)
				}
				if st.VF != (model.VFStep{}) && st.VF.Port != "rep0" { // where its packets/s are limited
					t.Errorf("%s %s: %s %+v", m.Kind, m.VMName, st.Kind, st.VF)
				}
			}
		}
		last := m.UndoAt(len(m.Steps)-1, false)
		if early := m.UndoAt(2, false); len(early) == 0 || len(last) == 0 {
			t.Errorf("%s %s: undone by %v early, %v late", m.Kind, m.VMName, early, last)
		}
	}
	s.VMs[1].NICs[0].Route = "rep1" // b is on virtio
	if found := NewChecker().Check(s, nobody{}, DefaultTimeouts); len(found) != 1 || found[0].Code != FindRouteAtPF {
		t.Errorf("frames at a representor: found %+v", found)
	}
	s.VMs[1].NICs[0].Route, pf.VFs[1].MaxPackets = "", 5000
	if found := NewChecker().Check(s, nobody{}, DefaultTimeouts); len(found) != 1 || found[0].Code != FindStaleRate ||
		found[0].Text != "is free but has a limit of 5kpps" || found[0].Repair[0].VF.Port != "rep1" {
		t.Errorf("a limit left at a representor: found %+v", found)
	}
	pf.VFs[1].MaxPackets, pf.Uplink.OnePort, s.VMs[0].NICs[0].DualPath = 0, true, true
	if found := NewChecker().Check(s, nobody{}, DefaultTimeouts); len(found) != 1 || found[0].Repair[0].Kind != model.StepFollowGuest ||
		found[0].Repair[0].Device.Port != "rep0" || found[0].Repair[0].Timeout != 2*DefaultTimeouts.Kernel+model.SilentFor {
		t.Errorf("a switch with one port: found %+v, want time to wait for a frame at its representor between two changes", found)
	}
}

// A finding names what is left on a free VF, and nothing that is not.
func TestFindingsNameWhatIsLeft(t *testing.T) {
	for want, vf := range map[string]model.VF{
		"MAC 02:00:00:00:00:09, VLAN 7, a limit of 2Gbit/s, trust": {MAC: model.MAC{2, 0, 0, 0, 0, 9}, VLAN: 7, MaxTxRate: 2e9, Trust: model.Yes},
		"a guarantee of 1Gbit/s":                                   {MinTxRate: 1e9},
	} {
		if got := settings(&vf); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
