package bandwidth

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

const giga = 1_000_000_000

// ask returns a NIC of a VM on pf0, whose link carries 10 Gbit/s.
func ask(vm string, guarantee model.Rate, more ...func(*Asked)) Asked {
	a := Asked{
		ID: model.NICID{VM: model.VMID(vm), NIC: "n0"}, VMName: vm, PF: "pf0", Speed: 10 * giga,
		SLA: model.SLA{Guarantee: guarantee, Source: vm + ".yaml:1:1"},
	}
	for _, m := range more {
		m(&a)
	}
	return a
}

func class(priority int) func(*Asked) { return func(a *Asked) { a.SLA.Priority = priority } }

func TestAdmit(t *testing.T) {
	gb := func(n uint64) model.Rate { return model.Rate{Bits: n * giga} }
	pps := func(n uint64) model.Rate { return model.Rate{Packets: n} }
	on := func(pf string, speed uint64) func(*Asked) { return func(a *Asked) { a.PF, a.Speed = pf, speed } }
	limit := func(r model.Rate) func(*Asked) { return func(a *Asked) { a.SLA.Limit = r } }
	onVF := func(a *Asked) { a.OnVF = true }
	for _, tc := range []struct {
		name  string
		asked []Asked
		host  uint64
		want  []model.Rate
		text  []string
	}{
		{"enough", []Asked{ask("a", gb(9)), ask("b", gb(1))}, 0, []model.Rate{gb(9), gb(1)}, nil},
		{
			"lower class first",
			[]Asked{ask("a", gb(9), class(1)), ask("b", gb(4))},
			0,
			[]model.Rate{gb(9), gb(1)},
			[]string{"pf0: more is guaranteed than its link carries: asked 9 + 4 Gbit/s, link 10 Gbit/s; b keeps 1.000 of 4 Gbit/s; lower a " +
				"guarantee where it comes from: a: a.yaml:1:1; b: b.yaml:1:1 (a file: change it, then `sluice reload`)"},
		},
		{
			"in proportion within a class",
			[]Asked{ask("a", gb(8)), ask("b", gb(8)), ask("c", gb(4), class(-1))},
			0,
			[]model.Rate{gb(5), gb(5), {}},
			[]string{"pf0: more is guaranteed than its link carries: asked 8 + 8 + 4 Gbit/s, link 10 Gbit/s; a keeps 5.000 of 8 Gbit/s, b keeps " +
				"5.000 of 8 Gbit/s, c keeps 0.000 of 4 Gbit/s; lower a guarantee where it comes from: a: a.yaml:1:1; b: b.yaml:1:1; c: c.yaml:1:1 " +
				"(a file: change it, then `sluice reload`)"},
		},
		{"each link by itself", []Asked{ask("a", gb(9)), ask("b", gb(9), on("pf1", 10*giga))}, 0, []model.Rate{gb(9), gb(9)}, nil},
		{"unknown speed", []Asked{ask("a", gb(9), on("pf0", 0)), ask("b", gb(9), on("pf0", 0))}, 0, []model.Rate{gb(9), gb(9)}, nil},
		{
			"above its link",
			[]Asked{ask("a", gb(40))},
			0,
			[]model.Rate{gb(10)},
			[]string{"a: NIC n0 of a: it is guaranteed 40Gbit, but the link of pf0 carries 10Gbit (a.yaml:1:1); lower the guarantee"},
		},
		{
			"above its limit",
			[]Asked{ask("a", gb(4), limit(gb(2)))},
			0,
			[]model.Rate{gb(2)},
			[]string{"a: NIC n0 of a: its guarantee of 4Gbit is above its limit of 2Gbit, and the limit applies (a.yaml:1:1); lower the " +
				"guarantee or raise the limit"},
		},
		{
			"no way out",
			[]Asked{ask("a", gb(4), on("", 0))},
			0,
			[]model.Rate{gb(4)},
			[]string{"a: NIC n0 of a: it is guaranteed 4Gbit, but no PF connects its network: nothing keeps others from using that bandwidth " +
				"(a.yaml:1:1); put a PF, or the bond of one, into its bridge"},
		},
		{
			"packets, on VFs for nothing",
			[]Asked{ask("a", pps(600_000), class(1)), ask("b", pps(300_000)), ask("c", pps(900_000), onVF)},
			800_000,
			[]model.Rate{pps(600_000), pps(200_000), pps(900_000)},
			[]string{": more is guaranteed in packets on virtio than the host carries: asked 600 + 300 kpps, host 800 kpps; b keeps 200.000 of " +
				"300 kpps; lower a guarantee where it comes from: a: a.yaml:1:1; b: b.yaml:1:1 (a file: change it, then `sluice reload`)"},
		},
		{
			"packets of a VM with two NICs count once",
			[]Asked{ask("a", pps(600_000)), ask("a", pps(600_000)), ask("b", pps(200_000))},
			800_000,
			[]model.Rate{pps(600_000), pps(600_000), pps(200_000)},
			nil,
		},
	} {
		have := Admit(tc.asked, tc.host)
		if diff := cmp.Diff(tc.want, have.Promised); diff != "" {
			t.Errorf("%s: promised\n%s", tc.name, diff)
		}
		var text []string
		for _, p := range have.Problems {
			text = append(text, p.Subject+": "+p.Text+"; "+p.Remedy)
		}
		if diff := cmp.Diff(tc.text, text); diff != "" {
			t.Errorf("%s: problems\n%s", tc.name, diff)
		}
	}
}

func TestAdmissionGetsWorse(t *testing.T) {
	sum := func(bits ...uint64) *Admission {
		var asked []Asked
		for i, b := range bits {
			asked = append(asked, ask(fmt.Sprint(i), model.Rate{Bits: b * giga}))
		}
		a := Admit(asked, 0)
		return &a
	}
	for _, tc := range []struct {
		before, after *Admission
		worse         bool
	}{
		{sum(5), sum(5, 5), false},
		{sum(5), sum(5, 6), true},
		{sum(9, 6), sum(9, 4), false}, // still too much, but less
		{sum(9, 6), sum(9, 7), true},
	} {
		if why := tc.after.Worse(tc.before); (why != "") != tc.worse || tc.worse && !strings.Contains(why, "link 10 Gbit/s") {
			t.Errorf("%v after %v: %q", tc.after.Over, tc.before.Over, why)
		}
	}
}

// Compared with the same rule in plain floats, for one link: classes from the highest down, each scaled to what is left. Invariants:
// no more than there is, nothing left while somebody lacks something, nothing for a class while a higher one lacks something.
func TestAdmitAgainstPouring(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var asked []Asked
		speed := uint64(1 + r.IntN(20))
		for i := range r.IntN(8) {
			asked = append(asked, ask(fmt.Sprint(i), model.Rate{Bits: uint64(r.IntN(12)) * giga}, class(r.IntN(3)),
				func(a *Asked) { a.Speed = speed * giga }))
		}
		have := Admit(asked, 0)
		want := pour(asked, float64(speed*giga))
		for i := range asked {
			if d := float64(have.Promised[i].Bits) - want[i]; d > 1 || d < -1 {
				t.Fatalf("link %d: NIC %d of %+v is promised %d, want %.0f", speed, i, asked, have.Promised[i].Bits, want[i])
			}
		}
		invariants(t, asked, have.Promised, speed*giga)
	}
}

func invariants(t *testing.T, asked []Asked, promised []model.Rate, link uint64) {
	t.Helper()
	sum, all := uint64(0), uint64(0)
	for i := range asked {
		most := min(asked[i].SLA.Guarantee.Bits, link)
		sum, all = sum+promised[i].Bits, all+most
		for k := range asked {
			if promised[i].Bits < most-min(most, 1) && asked[k].SLA.Priority < asked[i].SLA.Priority && promised[k].Bits > 0 {
				t.Fatalf("%+v: %d lacks while %d, of a lower class, has %v", asked, i, k, promised[k])
			}
		}
	}
	if sum > link || sum+uint64(len(asked)) < min(all, link) {
		t.Fatalf("%+v: %d promised of %d asked, link %d", asked, sum, all, link)
	}
}

func pour(asked []Asked, link float64) []float64 {
	out := make([]float64, len(asked))
	for p := 2; p >= 0; p-- {
		sum := 0.0
		for i := range asked {
			if asked[i].SLA.Priority == p {
				out[i] = min(float64(asked[i].SLA.Guarantee.Bits), float64(asked[i].Speed))
				sum += out[i]
			}
		}
		level := 1.0
		if sum > link {
			level = link / sum
		}
		for i := range asked {
			if asked[i].SLA.Priority == p {
				out[i] *= level
			}
		}
		link = max(0, link-sum*level)
	}
	return out
}

// All VMs count except stopped ones, each on the link that it sends through.
func TestWhoIsAdmitted(t *testing.T) {
	snap := &model.Snapshot{
		PFs: []model.PF{
			{Name: "pf0", Network: "br0", Uplink: model.Uplink{Switch: "br0"}, LinkUp: true, Managed: true, Speed: 10 * giga},
			{
				Name: "pf1", Network: "br1", Uplink: model.Uplink{Switch: "br1"}, LinkUp: true, Managed: true, Speed: 25 * giga,
				VFs: []model.VF{{ID: model.VFID{PF: "pf1"}, InGuest: model.No}},
			},
		},
		VMs: []model.VM{
			{ID: "a", Name: "a", State: model.VMRunning, NICs: []model.NIC{
				{Alias: "n0", Network: "br0"},
				{Alias: "n1", Network: "br1", VF: model.VFID{PF: "pf1"}},
			}},
			{ID: "b", Name: "b", State: model.VMPaused, NICs: []model.NIC{{Alias: "n0", Network: "elsewhere"}}},
			{ID: "c", Name: "c", State: model.VMStopped, NICs: []model.NIC{{Alias: "n0", Network: "br0"}}},
			{ID: "d", Name: "d", State: model.VMMigrating, NICs: []model.NIC{{Alias: "n0", Network: "br0", VF: model.VFID{PF: "pf1"}}}},
		},
	}
	snap.VMs[0].NICs[0].VF, snap.VMs[1].NICs[0].VF = model.NoVF, model.NoVF
	var have []string
	for _, a := range AskedOf(snap, &model.Rules{}) {
		have = append(have, fmt.Sprint(a.VMName, " ", a.ID.NIC, " ", a.PF, " ", a.Speed/giga, " ", a.OnVF))
	}
	want := []string{"a n0 pf0 10 false", "a n1 pf1 25 false", "b n0  0 false", "d n0 pf1 25 false"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	snap.PFs[1].VFs[0].InGuest = model.Yes
	if all := AskedOf(snap, &model.Rules{}); !all[1].OnVF || all[0].OnVF {
		t.Errorf("a guest that uses its VF: %+v", all)
	}
}

func TestRulesThatAreWrong(t *testing.T) {
	const id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	gb := func(n uint64, at string) model.SLA {
		return model.SLA{Guarantee: model.Rate{Bits: n * giga}, Source: at}
	}
	vm := model.VM{ID: id, Name: "db", State: model.VMRunning, NICs: []model.NIC{{Alias: "n0", VF: model.NoVF}, {Alias: "n1", VF: model.NoVF}}}
	byName, byID := model.VMRule{Match: "db", SLA: gb(2, "a:1:1")}, model.VMRule{Match: id, SLA: gb(4, "a:2:1")}
	same, single, hand := byID, byID, byID
	same.SLA.Guarantee, single.SLANIC, hand.ByHand = byName.SLA.Guarantee, "n1", true
	const clash = "the rules at a:1:1 and a:2:1 disagree about its SLA: the first applies; merge the two rules in sluice.yaml"
	const stray = `there is no class "gld", which its SLA names; add it to classes in sluice.yaml, or correct the name`
	for _, tc := range []struct {
		name  string
		rules model.Rules
		want  []string
	}{
		{
			"by name and by UUID",
			model.Rules{VMs: []model.VMRule{byName, byID}},
			[]string{"db: NIC n0 of db: " + clash, "db: NIC n1 of db: " + clash},
		},
		{"of one NIC", model.Rules{VMs: []model.VMRule{byName, single}}, []string{"db: NIC n1 of db: " + clash}},
		{"alike", model.Rules{VMs: []model.VMRule{byName, same}}, nil},
		{"a pattern before", model.Rules{VMs: []model.VMRule{{Match: "d*", SLA: gb(9, "x")}, byID}}, nil},
		{"set at run time", model.Rules{VMs: []model.VMRule{hand, byName}}, nil},
		{
			"a class of nobody",
			model.Rules{VMs: []model.VMRule{{Match: "db", Class: "gld"}}, Classes: []model.Class{{Name: "gold"}}},
			[]string{"db: NIC n0 of db: " + stray, "db: NIC n1 of db: " + stray},
		},
		{"any class where there are none", model.Rules{VMs: []model.VMRule{{Match: "db", Class: "gld"}}}, nil},
	} {
		var have []string
		for _, a := range AskedOf(&model.Snapshot{VMs: []model.VM{vm}}, &tc.rules) {
			for _, p := range Admit([]Asked{a}, 0).Problems {
				if !p.Info {
					have = append(have, p.Subject+": "+p.Text+"; "+p.Remedy)
				}
			}
		}
		if diff := cmp.Diff(tc.want, have); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// The controller promises what admission control allows, by class, and shows why. A promise assumes that all use their guarantees;
// the allocator, which sees who does, gets the whole guarantees.
func TestCorePromisesWhatIsAdmitted(t *testing.T) {
	r := newRig(t, 2)
	r.world.Rules.Classes = []model.Class{{Name: "gold", Priority: 1}}
	r.rule(0, model.SLA{Guarantee: model.Rate{Bits: 9 * giga}, Class: "gold"})
	r.rule(1, model.SLA{Guarantee: model.Rate{Bits: 4 * giga}})
	r.follow()
	r.tick()
	v := r.c.View()
	if a, b := v.NICs[0], v.NICs[1]; a.Promised.Bits != 9*giga || b.Promised.Bits != giga || b.SLA.Guarantee.Bits != 4*giga {
		t.Errorf("promised %v of %v and %v of %v", a.Promised, a.SLA.Guarantee, b.Promised, b.SLA.Guarantee)
	}
	if !v.Links[0].Over || v.Links[0].Guaranteed.Bits != 13*giga || len(v.Problems) != 1 ||
		!strings.Contains(v.Problems[0].Text, "asked 9 + 4 Gbit/s, link 10 Gbit/s") {
		t.Errorf("link %+v, problems %v", v.Links[0], v.Problems)
	}
	for i, want := range []uint64{9 * giga, 4 * giga} {
		if have := r.c.links[0].senders[i].SLA.Guarantee.Bits; have != want {
			t.Errorf("the allocator is told of %d for vm%d, want %d", have, i, want)
		}
	}
}

// On an overcommitted link, a lower class gets what a higher one does not use.
func TestOvercommittedLinkIsNotLeftIdle(t *testing.T) {
	r := newRig(t, 3)
	r.useAllocator("waterfill")
	r.world.Rules.Classes = []model.Class{{Name: "gold", Priority: 1}}
	r.rule(0, model.SLA{Guarantee: model.Rate{Bits: 9 * giga}, Class: "gold"})
	r.rule(1, model.SLA{Guarantee: model.Rate{Bits: 4 * giga}})
	r.rule(2, model.SLA{Weight: 9})
	r.follow()
	for range 50 { // gold asks for 2 Gbit/s, the other for more than its 4, and best effort for all there is
		r.send(nicOf(0), model.PathVirtio, 2*giga)
		r.send(nicOf(1), model.PathVirtio, min(6*giga, r.nic(1).allow.Bits))
		r.send(nicOf(2), model.PathVirtio, min(9*giga, r.nic(2).allow.Bits))
		r.tick()
	}
	if got := r.nic(1).allow.Bits; got < 4*giga {
		t.Errorf("the lower class is allowed %s of the 4 Gbit/s that the higher one does not ask for", bits(got))
	}
}
