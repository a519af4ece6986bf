package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/model"
)

var high = []model.VMRule{{Match: "vm0", Sensitivity: model.SensitivityHigh}}

func TestWorth(t *testing.T) {
	cost := model.PacketCost{Packet: time.Microsecond, Kilobyte: time.Microsecond}
	load := func(s *scene, pps, size float64) {
		s.vm("br0", pps).NICs[0].Virtio.RxBytes = pps * size
	}
	busyOrDear := func(s *scene) {
		s.pf("pf0", "br0", 1, 0)
		load(s, 700, 1400)
		load(s, 1000, 100)
	}
	for _, c := range []struct {
		name   string
		rules  model.Rules
		world  func(*scene)
		policy []string
		want   string
		says   string // of vm0
		never  string // of vm0
	}{
		{
			name: "nothing said: packets count", world: busyOrDear, policy: []string{"adaptive", "activity", "rentbuy"}, want: "vm1",
		},
		{
			name: "high sensitivity", rules: model.Rules{VMs: high}, world: busyOrDear, policy: []string{"adaptive", "activity", "rentbuy"},
			want: "vm0",
			says: "score 2.1k packets/s; worth 3",
		},
		{
			name: "low sensitivity of the other's class", policy: []string{"adaptive", "activity", "rentbuy"}, want: "vm0", world: busyOrDear,
			rules: model.Rules{
				VMs:     []model.VMRule{{Match: "vm1", Class: "batch"}},
				Classes: []model.Class{{Name: "batch", Sensitivity: model.SensitivityLow}},
			},
		},
		{
			name: "high sensitivity for which little is said", rules: model.Rules{VMs: high, Worth: model.Worth{Latency: 1.1}}, world: busyOrDear,
			policy: []string{"adaptive", "activity", "rentbuy"}, want: "vm1",
		},
		{
			name: "sensitivity and weight multiply", policy: []string{"adaptive"}, want: "vm0", world: busyOrDear, says: "worth 1.5",
			rules: model.Rules{VMs: []model.VMRule{{Match: "vm0", Sensitivity: model.SensitivityHigh, Weight: 0.5}}},
		},
		{
			name: "the host's CPU", rules: model.Rules{Worth: model.Worth{CPU: true, Cost: cost}}, world: busyOrDear,
			policy: []string{"adaptive", "activity", "rentbuy"}, want: "vm0", says: "score 1.11k packets/s; worth 1.59",
		},
		{
			name: "the host's CPU, of which nothing is known", rules: model.Rules{Worth: model.Worth{CPU: true}}, world: busyOrDear,
			policy: []string{"adaptive", "activity", "rentbuy"}, want: "vm1",
		},
		{
			name: "sensitivity with a policy that goes by bytes", rules: model.Rules{VMs: high}, policy: []string{"vnraf"}, want: "vm0",
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0)
				load(s, 400, 1000)
				load(s, 1000, 1000)
			},
		},
		{
			name: "the host's CPU is nothing to a policy that goes by bytes", rules: model.Rules{Worth: model.Worth{CPU: true, Cost: cost}},
			policy: []string{"vnraf"}, want: "vm1", never: "worth",
			world: func(s *scene) {
				s.pf("pf0", "br0", 1, 0)
				load(s, 900, 1000)
				load(s, 10000, 100)
			},
		},
		{
			name: "nor to one that goes by time", rules: model.Rules{Worth: model.Worth{CPU: true, Cost: cost}}, world: busyOrDear,
			policy: []string{"fair"}, want: "vm0", never: "worth",
		},
	} {
		for _, policy := range c.policy {
			t.Run(c.name+", "+policy, func(t *testing.T) {
				s := newScene()
				c.world(s)
				c.rules.Policy, c.rules.Interval = policy, time.Second
				d := decider(t, c.rules)
				var got *model.Target
				for range 30 {
					s.Time = s.Time.Add(time.Second)
					got = d.Decide(s.Time, &s.Snapshot, &Hints{})
				}
				if said(s, got) != c.want+":pf0/0" {
					t.Errorf("%q, want %s: %v", said(s, got), c.want, got.Reasons)
				}
				if text := got.Reasons[0].FiguresText(); c.says != "" && !strings.Contains(text, c.says) {
					t.Errorf("%q does not say %q", text, c.says)
				} else if c.never != "" && strings.Contains(text, c.never) {
					t.Errorf("%q speaks of %q", text, c.never)
				}
			})
		}
	}
}

// aWorld draws a host with changing loads, and rules for its VMs.
func aWorld(t *rapid.T) (s *scene, change func()) {
	s = newScene()
	s.pf("pf0", "br0", rapid.IntRange(0, 4).Draw(t, "VFs"), 0)
	rate := rapid.SampledFrom([]float64{0, 1, 900, 1000, 1e5})
	for range rapid.IntRange(1, 8).Draw(t, "VMs") {
		s.vm("br0", 0)
	}
	return s, func() {
		for i := range s.VMs {
			v := &s.VMs[i].NICs[0].Virtio
			v.RxPPS = rate.Draw(t, "rate")
			v.RxBytes = v.RxPPS * rapid.SampledFrom([]float64{64, 512, 1500}).Draw(t, "size")
			v.Known = rapid.IntRange(0, 9).Draw(t, "blind") > 0
		}
	}
}

// sameTargets runs two sets of rules on the same history, applying the decisions of the first.
func sameTargets(t *rapid.T, a, b model.Rules, but func(*model.Reason)) {
	s, change := aWorld(t)
	one, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(1, 40).Draw(t, "samples") {
		change()
		s.Time = s.Time.Add(time.Second)
		x, y := one.Decide(s.Time, &s.Snapshot, &Hints{}), two.Decide(s.Time, &s.Snapshot, &Hints{})
		for i := range x.Reasons {
			but(&x.Reasons[i])
			but(&y.Reasons[i])
		}
		if d := cmp.Diff(x, y); d != "" {
			t.Fatal(d)
		}
		carryOut(s, x)
	}
}

// Without worth nothing changes: whatever the factors are, every packet counts one, and no Reason mentions worth.
func TestNothingSaidNothingChanges(t *testing.T) {
	eachPolicy(t, func(t *rapid.T, plain model.Rules) {
		set := plain
		set.Worth.Latency = rapid.Float64Range(1, 100).Draw(t, "latency")
		set.VMs = []model.VMRule{{Match: "vm*", Sensitivity: model.SensitivityNormal}}
		set.Worth.CPU = rapid.Bool().Draw(t, "CPU without a cost")
		sameTargets(t, plain, set, func(r *model.Reason) {
			if r.Worth != 0 {
				t.Fatalf("%s: worth %v", r.VM, r.Worth)
			}
		})
	})
	rapid.Check(t, func(t *rapid.T) { // and a policy sees the rule's weight and the NIC's load, to the bit
		rule := model.VMRule{Weight: rapid.Float64Range(0.001, 1000).Draw(t, "weight")}
		nic := &model.NIC{Virtio: model.Traffic{
			Known: true, RxPPS: rapid.Float64Range(0, 1e7).Draw(t, "rx"),
			TxPPS: rapid.Float64Range(0, 1e7).Draw(t, "tx"), RxBytes: 1e6,
		}}
		c := candidate(&model.Worth{}, &model.VM{}, &entry{nic: nic, rule: &rule}, &Hints{})
		if pps, bytes, known := nic.Load(); c.PPS != pps || c.Bytes != bytes || c.Known != known || c.Weight != rule.Weight ||
			c.Worth != rule.Weight {
			t.Fatalf("%+v of %+v", c, nic)
		}
	})
}

// A sensitivity has the same effect on placement as an equal weight; policies need not know about it.
func TestSensitivityIsAWeight(t *testing.T) {
	eachPolicy(t, func(t *rapid.T, rules model.Rules) {
		a, b := rules, rules
		a.Worth.Latency = rapid.SampledFrom([]float64{1, 2, 3, 10}).Draw(t, "latency")
		for i := range 4 {
			s := rapid.SampledFrom([]model.Sensitivity{"", model.SensitivityLow, model.SensitivityNormal, model.SensitivityHigh}).Draw(t,
				"sensitivity")
			match := fmt.Sprintf("vm%d", i)
			a.VMs = append(a.VMs, model.VMRule{Match: match, Sensitivity: s})
			b.VMs = append(b.VMs, model.VMRule{Match: match, Weight: a.Worth.OfSensitivity(s)})
		}
		sameTargets(t, a, b, func(*model.Reason) {})
	})
}

// If virtio's cost depends only on the number of packets, or all packets have the same size, CPU changes no decision.
func TestCPUByThePacketChangesNoPlace(t *testing.T) {
	eachPolicy(t, func(t *rapid.T, rules model.Rules) {
		a, b := rules, rules
		b.Worth = model.Worth{CPU: true, Cost: model.PacketCost{Packet: 2 * time.Microsecond}}
		sameTargets(t, a, b, func(*model.Reason) {})
	})
}
