package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scene builds Snapshots in a few words.
type scene struct {
	model.Snapshot
}

func newScene() *scene { return &scene{model.Snapshot{Time: start}} }

func (s *scene) pf(name, network string, vfs, numa int) *scene {
	p := model.PF{Name: name, Network: network, NUMANode: numa, LinkUp: true, Managed: true, NumVFs: vfs}
	for i := range vfs {
		p.VFs = append(p.VFs, model.VF{ID: model.VFID{PF: name, Index: i}, Owner: model.OwnerFree})
	}
	s.PFs = append(s.PFs, p)
	return s
}

func (s *scene) vm(network string, pps float64) *model.VM {
	n := len(s.VMs)
	s.VMs = append(s.VMs, model.VM{
		ID: model.VMID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)), Name: fmt.Sprintf("vm%d", n), State: model.VMRunning, NUMANode: -1,
		Ready: model.Yes,
		NICs: []model.NIC{{
			Alias: "ua-net0", Tap: fmt.Sprintf("tap%d", n), Network: network, Failover: model.FailoverTeaming, FreePort: model.Yes,
			LinkUp: model.Yes,
			Virtio: model.Traffic{RxPPS: pps, Known: true, Proof: model.ProofKernel},
		}},
	})
	return &s.VMs[n]
}

// give makes the VM a holder.
func (s *scene) give(vm *model.VM, id model.VFID) {
	vm.NICs[0].VF, vm.NICs[0].VFOwner, vm.NICs[0].VFPath = id, model.OwnerSluice, model.Traffic{Known: true}
	vf := s.FindVF(id)
	vf.Owner, vf.Holder = model.OwnerSluice, vm.ID
}

func decider(t *testing.T, rules model.Rules) *Decider {
	t.Helper()
	if rules.Policy == "" {
		rules.Policy, rules.Interval = "activity", time.Minute
	}
	d, err := New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// said prints a Target as "vm:vf" pairs.
func said(s *scene, t *model.Target) string {
	var out []string
	for _, a := range t.Assign {
		out = append(out, s.FindVM(a.VM).Name+":"+a.VF.String())
	}
	return strings.Join(out, " ")
}

func TestDecide(t *testing.T) {
	pf0 := func(i int) model.VFID { return model.VFID{PF: "pf0", Index: i} }
	for _, c := range []struct {
		name  string
		rules model.Rules
		hints Hints
		world func(s *scene)
		want  string
		why   map[int]model.Code
		text  map[int]string
	}{
		{
			name: "busiest first", world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 5); s.vm("br0", 9) },
			want: "vm1:pf0/0", why: map[int]model.Code{0: model.CodeOutranked, 1: model.CodeRank},
			text: map[int]string{0: "the least of them vm1", 1: "than vm0, the next in line"},
		},
		{
			name: "holders keep theirs at a tie",
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0).vm("br0", 5)
				s.give(s.vm("br0", 5), pf0(0))
			},
			want: "vm1:pf0/0",
		},
		{
			name: "everyone has one when there are enough", want: "vm0:pf0/0",
			world: func(s *scene) { s.pf("pf0", "br0", 3, 0).vm("br0", 0) },
			why:   map[int]model.Code{0: model.CodeEnough},
		},
		{
			name: "pin beats load, priority beats load", want: "vm0:pf0/0 vm1:pf0/1",
			rules: model.Rules{VMs: []model.VMRule{{Match: "vm0", Pin: true}, {Match: "vm1", Priority: 1}}},
			world: func(s *scene) { s.pf("pf0", "br0", 2, 0).vm("br0", 1); s.vm("br0", 2); s.vm("br0", 99) },
			why:   map[int]model.Code{0: model.CodePinned, 2: model.CodeOutranked},
		},
		{
			name: "a class's weight multiplies", want: "vm0:pf0/0",
			rules: model.Rules{
				VMs:     []model.VMRule{{Match: "vm0", Class: "gold"}, {Match: "vm*", Class: "lead"}},
				Classes: []model.Class{{Name: "lead", Weight: 9}, {Name: "gold", Weight: 27}},
			},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 4); s.vm("br0", 9) },
		},
		{
			name: "a rule's own weight comes before its class's", want: "vm1:pf0/0",
			rules: model.Rules{
				VMs:     []model.VMRule{{Match: "vm0", Class: "gold", Weight: 1}},
				Classes: []model.Class{{Name: "gold", Weight: 3}},
			},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 4); s.vm("br0", 9) },
		},
		{
			name: "a class's priority comes before all scores", want: "vm0:pf0/0",
			rules: model.Rules{VMs: []model.VMRule{{Match: "vm0", Class: "gold"}}, Classes: []model.Class{{Name: "gold", Priority: 1}}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 4); s.vm("br0", 9) },
		},
		{
			name: "weight multiplies", want: "vm0:pf0/0",
			rules: model.Rules{VMs: []model.VMRule{{Match: "vm0", Weight: 3}}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 4); s.vm("br0", 9) },
		},
		{
			name: "forbidden gives up what it has", want: "vm1:pf0/0",
			rules: model.Rules{VMs: []model.VMRule{{Match: "vm*0", Forbid: true}}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0); s.give(s.vm("br0", 9), pf0(0)); s.vm("br0", 1) },
			why:   map[int]model.Code{0: model.CodeForbidden},
		},
		{
			name: "by hand wins over the config", want: "vm0:pf0/0",
			rules: model.Rules{VMs: []model.VMRule{
				{Match: "00000000-0000-4000-8000-000000000000", Pin: true, ByHand: true},
				{Match: "vm0", Forbid: true},
			}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 1); s.vm("br0", 9) },
		},
		{
			name: "too many pins", want: "vm0:pf0/0", rules: model.Rules{VMs: []model.VMRule{{Match: "*", Pin: true}}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 1); s.vm("br0", 9) },
			why:   map[int]model.Code{1: model.CodeNoVF}, text: map[int]string{1: "pinned, but every VF"},
		},
		{
			name: "own network only", want: "vm0:pf1/0", why: map[int]model.Code{1: model.CodeNoVF},
			world: func(s *scene) { s.pf("pf1", "br1", 2, 0).vm("br1", 1); s.vm("br9", 9) },
			text:  map[int]string{1: "network br9 has no PF"},
		},
		{
			name: "NUMA node first", want: "vm0:pf1/0",
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).pf("pf1", "br0", 1, 1).vm("br0", 1).NUMANode = 1 },
		},
		{
			name: "a VM without a pair is left alone", want: "vm1:pf0/0",
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0).vm("br0", 9).NICs[0].Failover = model.FailoverNone
				s.vm("br0", 1)
			},
			why: map[int]model.Code{0: model.CodeVeto}, text: map[int]string{0: "<teaming type='persistent'/>"},
		},
		{
			name: "a bond by rule is a pair", want: "vm0:pf0/0",
			rules: model.Rules{VMs: []model.VMRule{{Match: "vm0", Failover: model.FailoverBond}}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 9).NICs[0].Failover = model.FailoverNone },
		},
		{
			name: "no free port", want: "", why: map[int]model.Code{0: model.CodeVeto}, text: map[int]string{0: "pcie-root-port"},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 9).NICs[0].FreePort = model.No },
		},
		{
			name: "guest not up yet", want: "", why: map[int]model.Code{0: model.CodeVeto},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 9).Ready = model.No },
		},
		{
			name: "a holder with a broken virtio path is not robbed", want: "vm0:pf0/0",
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0).vm("br0", 1).NICs[0].LinkUp = model.No
				s.give(&s.VMs[0], pf0(0))
				s.vm("br0", 9)
			},
			why: map[int]model.Code{0: model.CodeVeto}, text: map[int]string{0: "virtio path is broken"},
		},
		{
			name: "paused and migrating holders keep theirs, others are passed over", want: "vm0:pf0/0 vm2:pf0/1",
			world: func(s *scene) {
				s.pf("pf0", "br0", 2, 0).vm("br0", 1).State = model.VMPaused
				s.give(&s.VMs[0], pf0(0))
				s.vm("br0", 9).State = model.VMMigrating
				s.vm("br0", 2)
			},
		},
		{
			name: "what others attached stays theirs", want: "vm1:pf0/1",
			world: func(s *scene) {
				s.pf("pf0", "br0", 2, 0)
				s.give(s.vm("br0", 9), pf0(0))
				s.VMs[0].NICs[0].VFOwner, s.PFs[0].VFs[0].Owner = model.OwnerForeign, model.OwnerForeign
				s.vm("br0", 1)
			},
			why: map[int]model.Code{0: model.CodeForeign},
		},
		{
			name: "a link that is down carries nobody", want: "", why: map[int]model.Code{0: model.CodeNoVF},
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0).PFs[0].LinkUp = false
				s.give(s.vm("br0", 9), pf0(0))
			},
			text: map[int]string{0: "the link of pf0 is down"},
		},
		{
			name: "a PF that is a backup of its bond carries nobody", want: "", why: map[int]model.Code{0: model.CodeNoVF},
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0).PFs[0].Uplink = model.Uplink{Switch: "br0", Port: "bond0", Why: "pf0 is a backup", Remedy: "use pf1"}
				s.give(s.vm("br0", 9), pf0(0))
			},
			text: map[int]string{0: "pf0 is a backup; use pf1"},
		},
		{
			name: "drain", rules: model.Rules{Drain: true}, want: "", why: map[int]model.Code{0: model.CodeDrain},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0); s.give(s.vm("br0", 9), pf0(0)) },
		},
		{
			name: "a move under way is not reversed", want: "vm0:pf0/0",
			hints: Hints{NICs: map[model.NICID]Hint{{VM: "00000000-0000-4000-8000-000000000000", NIC: "ua-net0"}: {
				VF:   pf0(0),
				Code: model.CodeMoving,
			}}},
			world: func(s *scene) { s.pf("pf0", "br0", 1, 0).vm("br0", 1); s.vm("br0", 9) },
			why:   map[int]model.Code{0: model.CodeMoving, 1: model.CodeOutranked},
		},
		{
			name: "a VF that failed is not given out", want: "vm0:pf0/1",
			hints: Hints{BadVFs: map[model.VFID]time.Time{pf0(0): start.Add(time.Minute)}},
			world: func(s *scene) { s.pf("pf0", "br0", 2, 0).vm("br0", 1) },
		},
		{
			name: "absurd figures count as unknown", want: "vm1:pf0/0",
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0).vm("br0", -5)
				s.vm("br0", 1)
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.world(s)
			got := decider(t, policyOf(c.rules)).Decide(start, &s.Snapshot, &c.hints)
			if said(s, got) != c.want {
				t.Errorf("assigned %q, want %q", said(s, got), c.want)
			}
			for i, code := range c.why {
				if got.Reasons[i].Code != code {
					t.Errorf("vm%d: reason %q (%s), want %q", i, got.Reasons[i].Code, got.Reasons[i], code)
				}
			}
			for i, text := range c.text {
				if !strings.Contains(got.Reasons[i].String(), text) {
					t.Errorf("vm%d: %q does not say %q", i, got.Reasons[i], text)
				}
			}
		})
	}
}

func policyOf(r model.Rules) model.Rules {
	r.Policy, r.Interval = "activity", time.Minute
	return r
}

func TestLinkMustSettle(t *testing.T) {
	s := newScene().pf("pf0", "br0", 1, 0)
	s.vm("br0", 9)
	d := decider(t, model.Rules{})
	at := func(sec int, up bool) string {
		s.PFs[0].LinkUp = up
		return said(s, d.Decide(start.Add(time.Duration(sec)*time.Second), &s.Snapshot, &Hints{}))
	}
	got := []string{at(0, true), at(1, false), at(2, true), at(5, true), at(6, false), at(7, true), at(11, true), at(12, true)}
	want := []string{"vm0:pf0/0", "", "", "", "", "", "", "vm0:pf0/0"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("look %d: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestUnknownPolicyNamesTheKnownOnes(t *testing.T) {
	_, err := New(model.Rules{Policy: "activty"})
	if err == nil || !strings.Contains(err.Error(), "activity") {
		t.Errorf("error %v", err)
	}
}

func TestBetweenRoundsTheVerdictStands(t *testing.T) {
	s := newScene().pf("pf0", "br0", 1, 0)
	s.vm("br0", 9)
	s.vm("br0", 5)
	d := decider(t, model.Rules{})
	look := func(sec int) string {
		return said(s, d.Decide(start.Add(time.Duration(sec)*time.Second), &s.Snapshot, &Hints{}))
	}
	if got := look(0); got != "vm0:pf0/0" {
		t.Fatalf("first round: %q", got)
	}
	s.VMs[0].NICs[0].Virtio.RxPPS = 1
	if got := look(59); got != "vm0:pf0/0" {
		t.Errorf("within the interval: %q", got)
	}
	// In 59 of the 60 seconds since the round vm0 had 9 packets/s: the mean decides.
	if got := look(60); got != "vm1:pf0/0" {
		t.Errorf("second round: %q", got)
	}
}

// After a start the load of a VF is unknown for a while: its holder must not lose it to the first VM on virtio that sends a packet.
func TestHolderOfUnknownLoadIsNotRobbedAtOnce(t *testing.T) {
	s := newScene().pf("pf0", "br0", 1, 0)
	s.give(s.vm("br0", 9), model.VFID{PF: "pf0"})
	s.VMs[0].NICs[0].VFPath.Known = false
	s.vm("br0", 5)
	d := decider(t, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	for sec := range 120 {
		got := said(s, d.Decide(start.Add(time.Duration(sec)*time.Second), &s.Snapshot, &Hints{}))
		if want := "vm0:pf0/0"; sec < 60 && got != want {
			t.Fatalf("after %d s: %q, want %q", sec, got, want)
		} else if want := "vm1:pf0/0"; sec > 65 && got != want {
			t.Fatalf("after %d s: %q, want %q: nobody keeps a VF for ever unseen", sec, got, want)
		}
	}
}
