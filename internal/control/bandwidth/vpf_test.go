package bandwidth

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// vpfRig is a rig whose last VM has a virtual PF and an ordinary NIC, and whose senders respect the limits in force.
type vpfRig struct {
	*rig
	wants   map[model.NICID]float64 // bits/s
	carries float64                 // what pf0 does
}

// functionOf is number vf of the rig's virtual PF; -1: the PF itself.
func functionOf(vm, vf int) model.NICID {
	return model.NICID{VM: nicOf(vm).VM, NIC: model.VPFAlias("vpf0", vf)}
}

// newVPFRig returns a rig with that many ordinary VMs, and one with a virtual PF of that many VFs.
func newVPFRig(t testing.TB, vms, vfs int) *vpfRig {
	r := &vpfRig{newRig(t, vms+1), map[model.NICID]float64{}, 10e9}
	r.useAllocator("waterfill")
	v := r.vm(vms)
	for vf := -1; vf < vfs; vf++ {
		v.NICs = append(v.NICs, model.NIC{
			Alias: model.VPFAlias("vpf0", vf), Network: "br0", VirtualPF: "vpf0", Function: vf + 1,
			Carrier: model.Yes,
		})
	}
	return r
}

// function is a function of the virtual PF in the Snapshot.
func (r *vpfRig) function(vf int) *model.NIC {
	v := &r.world.Snapshot.VMs[len(r.world.Snapshot.VMs)-1]
	return v.FindNIC(model.VPFAlias("vpf0", vf))
}

// node is the VM with the virtual PF.
func (r *vpfRig) node() int { return len(r.world.Snapshot.VMs) - 1 }

// whole gives the virtual PF an SLA.
func (r *vpfRig) whole(s model.SLA) {
	r.world.Rules.VMs = append(r.world.Rules.VMs, model.VMRule{
		Match: fmt.Sprintf("vm%d", r.node()), SLANIC: model.VPFAlias("vpf0", -1),
		SLA: s,
	})
}

// may returns what a NIC may send by the limits in force.
func (r *vpfRig) may(id model.NICID) float64 {
	l := r.stand[model.LimitKey{VM: id.VM, NIC: id.NIC, Path: model.PathVirtio, Dir: model.Tx}]
	if b := l.InForce().Bits; b > 0 {
		return float64(b)
	}
	return math.Inf(1)
}

// pass advances a period in which all send what they want and may, as far as the link carries it.
func (r *vpfRig) pass() {
	var ids []model.NICID
	var most, ones []float64
	for i := range r.world.Snapshot.VMs {
		for k := range r.vm(i).NICs {
			id := model.NICID{VM: r.vm(i).ID, NIC: r.vm(i).NICs[k].Alias}
			ids, most, ones = append(ids, id), append(most, min(r.wants[id], r.may(id))), append(ones, 1)
		}
	}
	for i, bits := range simpleFill(r.carries, most, ones) {
		r.send(ids[i], model.PathVirtio, bits)
	}
	r.tick()
}

func (r *vpfRig) passes(d time.Duration) {
	for range int(d / period) {
		r.pass()
	}
}

// sent returns what a NIC sent in the last period, and what all functions sent together.
func (r *vpfRig) sent(id model.NICID) float64 { return float64(r.rates[id][0].Bits) }

func (r *vpfRig) together() (sum float64) {
	for id := range r.rates {
		if r.isFunction(id) {
			sum += r.sent(id)
		}
	}
	return sum
}

func (r *vpfRig) isFunction(id model.NICID) bool {
	_, _, ok := model.ParseVPFAlias(id.NIC)
	return ok
}

func about(t testing.TB, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.04*want+leastBits {
		t.Errorf("%s: %s, want %s", what, bits(got), bits(want))
	}
}

// A virtual PF gets what its VM is guaranteed, whatever others send, and divides it by guarantee and weight.
func TestVirtualPFDividesItsGuarantee(t *testing.T) {
	r := newVPFRig(t, 2, 3)
	n := r.node()
	r.whole(model.SLA{Guarantee: gbit(4)})
	r.function(0).Share = model.SLA{Guarantee: gbit(2)}
	r.function(1).Share = model.SLA{Weight: 3}
	r.follow()
	for i := range 2 { // two that take all there is
		r.wants[nicOf(i)] = 10e9
	}
	for vf := range 3 {
		r.wants[functionOf(n, vf)] = 10e9
	}
	r.passes(4 * time.Second)
	// Besides the 4 Gbit/s, 6 are left for four NICs of equal weight; the virtual PF is one, as is its VM's ordinary NIC, which is
	// silent.
	about(t, "all functions", r.together(), 6e9)
	about(t, "vf0", r.sent(functionOf(n, 0)), 2e9+4e9/5)
	about(t, "vf1", r.sent(functionOf(n, 1)), 3*4e9/5)
	about(t, "vf2", r.sent(functionOf(n, 2)), 4e9/5)
	f := r.c.link("pf0")
	if len(f.senders) != 4 || f.senders[3].ID != functionOf(n, -1) || f.senders[3].SLA.Guarantee != gbit(4) {
		t.Errorf("the link's senders: %+v", f.senders)
	}
	r.wants[functionOf(n, 1)] = 0 // what one leaves is its siblings'
	r.passes(2 * time.Second)
	about(t, "vf0 without vf1", r.sent(functionOf(n, 0)), 4e9)
	about(t, "vf2 without vf1", r.sent(functionOf(n, 2)), 2e9)
}

// A limit applies to all functions together, whichever of them sends, even if nothing else is promised on the link.
func TestLimitOfAVirtualPF(t *testing.T) {
	r := newVPFRig(t, 1, 4)
	n := r.node()
	r.whole(model.SLA{Limit: gbit(2)})
	r.function(3).Carrier = model.No
	r.follow()
	r.passes(time.Second)
	for _, k := range []int{1, 2, 3} {
		for vf := range 3 {
			r.wants[functionOf(n, vf)] = 0
			if vf < k {
				r.wants[functionOf(n, vf)] = 10e9
			}
		}
		r.passes(2 * time.Second)
		if got := r.together(); got > 2e9*1.001 || got < 0.95*2e9 {
			t.Errorf("%d send %s of the 2 Gbit/s that all may", k, bits(got))
		}
	}
	if l, limited := r.stand[key(0, model.PathVirtio, model.Tx)]; limited {
		t.Errorf("the VM beside it is limited: %+v", l)
	}
	// While no daemon runs, contracts are in force, whether it was stopped or killed.
	check := func(when string) {
		t.Helper()
		sum := uint64(0)
		for vf := -1; vf < 3; vf++ {
			l := r.stand[model.LimitKey{VM: vm(n), NIC: model.VPFAlias("vpf0", vf), Path: model.PathVirtio, Dir: model.Tx}]
			if l.Contract.Bits != 500e6 {
				t.Errorf("%s, vf%d has a contract of %v, want a fourth of the 2 Gbit/s", when, vf, l.Contract)
			}
			sum += l.Contract.Bits
		}
		if sum > 2e9 {
			t.Errorf("%s, contracts of %d bits/s together", when, sum)
		}
		if l := r.stand[model.LimitKey{
			VM: vm(n), NIC: model.VPFAlias("vpf0", 3), Path: model.PathVirtio,
			Dir: model.Tx,
		}]; l.Contract.Bits != leastBits {
			t.Errorf("%s, a VF without a carrier has a contract of %v", when, l.Contract)
		}
	}
	check("killed")
	r.apply(r.c.Lift(false))
	check("stopped")
	if l := r.stand[model.LimitKey{VM: vm(n), NIC: model.VPFAlias("vpf0", 0), Path: model.PathVirtio, Dir: model.Tx}]; !l.IsZero() {
		t.Errorf("after a stop vf0 is allowed %v beside its contract", l.Rate)
	}
}

// A VF that gets a carrier is included as soon as its counters move, before a Snapshot shows the carrier.
func TestCarrierComes(t *testing.T) {
	r := newVPFRig(t, 0, 2)
	n := r.node()
	r.whole(model.SLA{Limit: gbit(2)})
	r.function(1).Carrier = model.No
	r.follow()
	r.wants[functionOf(n, 0)] = 10e9
	r.passes(2 * time.Second)
	about(t, "vf0 alone", r.sent(functionOf(n, 0)), 2e9)
	r.wants[functionOf(n, 1)] = 10e9
	r.pass()
	if got := r.together(); got > 2e9*1.001+leastBits {
		t.Errorf("as the carrier comes %s are sent", bits(got))
	}
	r.passes(2 * time.Second)
	about(t, "vf0 beside vf1", r.sent(functionOf(n, 0)), 1e9)
	about(t, "vf1", r.sent(functionOf(n, 1)), 1e9)
}

// A function may be limited below its virtual PF, and packets/s are limited like bits/s.
func TestLimitsInsideAVirtualPF(t *testing.T) {
	r := newVPFRig(t, 0, 2)
	n := r.node()
	packet := 8.0 * (1514 + wireBytes)
	r.whole(model.SLA{Limit: model.Rate{Bits: 4e9, Packets: 100_000}})
	r.function(0).Share = model.SLA{Limit: model.Rate{Bits: 3e8}}
	r.follow()
	for vf := range 2 {
		r.wants[functionOf(n, vf)] = 10e9
	}
	for range 20 {
		for vf := range 2 { // the policer drops packets too
			l := r.stand[model.LimitKey{VM: vm(n), NIC: model.VPFAlias("vpf0", vf), Path: model.PathVirtio, Dir: model.Tx}]
			if p := l.InForce().Packets; p > 0 {
				r.wants[functionOf(n, vf)] = min(10e9, float64(p)*packet)
			}
		}
		r.pass()
	}
	about(t, "vf0 at its own limit", r.sent(functionOf(n, 0)), 3e8)
	if got := r.together() / packet; got > 100_500 || got < 95_000 {
		t.Errorf("%.0f packets/s of the 100000 that all may send", got)
	}
}

// A virtual PF's receive limit is divided by what its functions receive.
func TestReceiveLimitOfAVirtualPF(t *testing.T) {
	r := newVPFRig(t, 0, 2)
	n := r.node()
	r.whole(model.SLA{Receive: gbit(2)})
	r.follow()
	limit := func(vf int) *model.Limit {
		l := r.stand[model.LimitKey{VM: vm(n), NIC: model.VPFAlias("vpf0", vf), Path: model.PathVirtio, Dir: model.Rx}]
		return &l
	}
	r.passes(time.Second)
	for range 20 {
		for vf := range 2 {
			got := 1e8
			if vf == 0 {
				got = float64(limit(0).InForce().Bits)
			}
			r.count[functionOf(n, vf)][0].RxBytes += uint64(got / 8 * period.Seconds())
		}
		r.pass()
	}
	if got := limit(0).InForce().Bits; got < 1.6e9 || got > 2e9 {
		t.Errorf("the one that receives may receive %d", got)
	}
	if got := limit(0).Contract.Bits; got < 666e6 || got > 667e6 {
		t.Errorf("its contract is %d, want a third of 2 Gbit/s", got)
	}
}

// The published allocators know no bound but a link's; the sum is respected all the same.
func TestEveryAllocatorKeepsToTheLimit(t *testing.T) {
	for _, name := range Names() {
		r := newVPFRig(t, 1, 3)
		n := r.node()
		r.useAllocator(name)
		r.whole(model.SLA{Limit: gbit(3), Guarantee: gbit(1)})
		r.function(0).Share = model.SLA{Guarantee: gbit(1)}
		r.follow()
		for vf := range 3 {
			r.wants[functionOf(n, vf)] = 10e9
		}
		r.passes(4 * time.Second)
		keeps := name != "equal" && name != "weighted" && name != "tenth" // guarantees
		if got := r.together(); got > 3e9*1.001 || got < 0.99e9 || keeps && got < 2e9 {
			t.Errorf("%s: functions send %s of the 3 Gbit/s that they may", name, bits(got))
		}
		if got := r.sent(functionOf(n, 0)); keeps && got < 0.99e9 {
			t.Errorf("%s: vf0 sends %s of the 1 Gbit/s that it is guaranteed", name, bits(got))
		}
	}
}

// The traffic of functions that cannot be limited is subtracted from what their siblings may send.
func TestFunctionThatNothingLimits(t *testing.T) {
	r := newVPFRig(t, 0, 2)
	n := r.node()
	r.whole(model.SLA{Limit: gbit(2)})
	r.fail = func(l model.Limit) error {
		if l.NIC == model.VPFAlias("vpf0", 1) {
			return fmt.Errorf("no such tap")
		}
		return nil
	}
	r.follow()
	r.wants[functionOf(n, 0)], r.wants[functionOf(n, 1)] = 10e9, 5e8
	r.passes(3 * time.Second)
	about(t, "vf0", r.sent(functionOf(n, 0)), 1.5e9)
}

// For any demands of its functions: once these have lasted for a while, the functions together respect the limit, each gets its
// guarantee, and none gets more than by sharing the limit max-min fairly by weight.
func TestDivisionAgainstPouring(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		vfs := rapid.IntRange(1, 6).Draw(rt, "vfs")
		r := newVPFRig(t, 2, vfs)
		n := r.node()
		limit := rapid.SampledFrom([]float64{0, 1e9, 3e9}).Draw(rt, "limit")
		guarantee := rapid.SampledFrom([]float64{1e9, 3e9}).Draw(rt, "guarantee")
		if limit > 0 {
			guarantee = min(guarantee, limit)
		}
		r.whole(model.SLA{Guarantee: model.Rate{Bits: uint64(guarantee)}, Limit: model.Rate{Bits: uint64(limit)}})
		left := guarantee
		for vf := range vfs {
			g := min(left, rapid.SampledFrom([]float64{0, 0, 3e8, 1e9}).Draw(rt, "inside"))
			left -= g
			s := model.SLA{Guarantee: model.Rate{Bits: uint64(g)}, Weight: rapid.SampledFrom([]float64{0, 1, 4}).Draw(rt, "weight")}
			if rapid.IntRange(0, 3).Draw(rt, "limited") == 0 {
				s.Limit.Bits = uint64(max(g, 5e8))
			}
			r.function(vf).Share = s
		}
		for i := range 2 {
			r.wants[nicOf(i)] = rapid.SampledFrom([]float64{0, 2e9, 10e9}).Draw(rt, "other wants")
		}
		r.follow()
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			for vf := range vfs {
				r.wants[functionOf(n, vf)] = rapid.SampledFrom([]float64{0, 1e8, 8e8, 10e9}).Draw(rt, "wants")
			}
			r.passes(6 * time.Second)
			r.judgeDivision(rt, vfs, limit)
		}
	})
}

func (r *vpfRig) judgeDivision(t *rapid.T, vfs int, limit float64) {
	n := r.node()
	sum := r.together()
	if limit > 0 && sum > limit*1.001 {
		t.Fatalf("functions send %s, and may send %s", bits(sum), bits(limit))
	}
	// By plain code: the total that they send, filled by guarantee first and then by weight.
	var first, want, weight []float64
	firsts := 0.0
	for vf := range vfs {
		s, most := r.function(vf).Share, r.wants[functionOf(n, vf)]
		if s.Limit.Bits > 0 {
			most = min(most, float64(s.Limit.Bits))
		}
		g := min(most, float64(s.Guarantee.Bits))
		if got := r.sent(functionOf(n, vf)); got < 0.95*g-leastBits {
			t.Fatalf("vf%d sends %s, and asks for %s of what it is guaranteed", vf, bits(got), bits(g))
		}
		first, want, weight = append(first, g), append(want, most-g), append(weight, s.Share())
		firsts += g
	}
	for vf, more := range simpleFill(max(0, sum-firsts), want, weight) {
		if got, fair := r.sent(functionOf(n, vf)), first[vf]+more; math.Abs(got-fair) > 0.06*sum+leastBits {
			t.Fatalf("vf%d sends %s, and its fair part of %s is %s", vf, bits(got), bits(sum), bits(fair))
		}
	}
}

// Except within one period, functions never send more than they may together, whatever they demand.
func TestLimitHoldsAtEachChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newVPFRig(t, 0, 3)
		n := r.node()
		r.whole(model.SLA{Limit: gbit(2)})
		r.function(0).Share = model.SLA{Weight: rapid.SampledFrom([]float64{0, 4}).Draw(rt, "weight")}
		r.follow()
		r.passes(time.Second)
		for i := range 60 {
			changes := rapid.IntRange(0, 5).Draw(rt, "change") == 0
			if changes {
				r.wants[functionOf(n, rapid.IntRange(0, 2).Draw(rt, "vf"))] = rapid.SampledFrom([]float64{0, 3e8, 10e9}).Draw(rt, "wants")
			}
			r.pass()
			if got := r.together(); !changes && got > 2e9*1.005 {
				rt.Fatalf("period %d: %s, of the 2 Gbit/s that they may", i, bits(got))
			}
		}
	})
}

// A steady division allocates no memory, whatever the allocator.
func TestDivisionIsFree(t *testing.T) {
	for _, name := range Names() {
		r := newVPFRig(t, 2, 7)
		r.useAllocator(name)
		n := r.node()
		r.whole(model.SLA{Guarantee: gbit(2), Limit: model.Rate{Bits: 4e9, Packets: 1e6}, Receive: gbit(3)})
		r.follow()
		for vf := range 7 {
			r.wants[functionOf(n, vf)] = 10e9
		}
		r.passes(2 * time.Second)
		var read []Reading
		for _, x := range r.count {
			read = append(read, x[0])
		}
		if allocs := testing.AllocsPerRun(100, func() {
			r.now = r.now.Add(period)
			for i := range read {
				read[i].At = r.now
				read[i].TxBytes += 1e7
			}
			r.c.Tick(r.now, read)
		}); allocs > 0 {
			t.Errorf("%s: %.0f allocations in a tick", name, allocs)
		}
	}
}

// Functions are shown under their virtual PF, with sentences that name it.
func TestVirtualPFShows(t *testing.T) {
	r := newVPFRig(t, 1, 3)
	n := r.node()
	r.whole(model.SLA{Guarantee: gbit(2), Limit: gbit(2)})
	r.function(0).Share = model.SLA{Guarantee: gbit(1)}
	r.function(1).Share = model.SLA{Limit: model.Rate{Bits: 2e8}}
	r.function(2).Carrier = model.No
	r.follow()
	for vf := range 2 {
		r.wants[functionOf(n, vf)] = 10e9
	}
	r.passes(3 * time.Second)
	v := r.c.View()
	if len(v.VirtualPFs) != 1 {
		t.Fatalf("virtual PFs: %+v", v.VirtualPFs)
	}
	whole := v.VirtualPFs[0]
	if whole.NICID != functionOf(n, -1) || whole.VirtualPF != "vpf0" || whole.PF != "pf0" || whole.Promised != gbit(2) ||
		whole.Code != model.BandwidthLimit {
		t.Errorf("as a whole: %+v", whole)
	}
	about(t, "shown as sent", whole.Sent.Bits, r.together())
	want := map[string]model.BandwidthCode{
		"ua-vpf-vpf0-vf0": model.BandwidthShare, "ua-vpf-vpf0-vf1": model.BandwidthLimit,
		"ua-vpf-vpf0-vf2": model.BandwidthNoCarrier, "ua-vpf-vpf0-pf": model.BandwidthSpare, "n0": model.BandwidthSpare,
	}
	for _, in := range v.NICs {
		if in.VM != vm(n) {
			continue
		}
		if in.Code != want[in.NIC] || (in.VirtualPF == "vpf0") != (in.NIC != "n0") {
			t.Errorf("%s: %s, %s", in.NIC, in.Code, in.Why)
		}
		if named := strings.Contains(in.Why, "virtual PF vpf0"); named != (in.NIC != "n0" && in.Code != model.BandwidthNoCarrier) {
			t.Errorf("%s: %s", in.NIC, in.Why)
		}
	}
	if l := v.Links[0]; l.Guaranteed != gbit(2) {
		t.Errorf("of the link are guaranteed %v", l.Guaranteed)
	}
}

// Without a PF behind its bridge, and with more promised inside it than to it, a virtual PF is only divided.
func TestVirtualPFWithoutLink(t *testing.T) {
	r := newVPFRig(t, 0, 2)
	n := r.node()
	r.world.Snapshot.PFs = nil
	r.whole(model.SLA{Guarantee: gbit(1), Limit: gbit(1)})
	r.function(0).Share = model.SLA{Guarantee: gbit(3)}
	r.follow()
	for vf := range 2 {
		r.wants[functionOf(n, vf)] = 10e9
	}
	r.passes(2 * time.Second)
	about(t, "all functions", r.together(), 1e9)
	if in := r.c.View().NICs[2]; in.Promised != gbit(1) || in.Code != model.BandwidthOver {
		t.Errorf("vf0: %+v", in)
	}
}

// Guarantees inside a virtual PF are kept out of its own guarantee, by class and in proportion.
func TestAdmitInside(t *testing.T) {
	r := newVPFRig(t, 1, 4)
	r.world.Rules.Classes = []model.Class{{Name: "gold", Priority: 1}}
	r.whole(model.SLA{Guarantee: gbit(4)})
	for vf, s := range []model.SLA{{Guarantee: gbit(2), Class: "gold"}, {Guarantee: gbit(3)}, {Guarantee: gbit(1)}, {}} {
		r.function(vf).Share = s
	}
	asked := AskedOf(r.world.Snapshot, &r.world.Rules)
	got := Admit(asked, 0)
	for i, want := range []uint64{0, 0, 0, 2e9, 1.5e9, 0.5e9, 0, 4e9} {
		if got.Promised[i].Bits != want {
			t.Errorf("%v is promised %d, want %d", asked[i].ID, got.Promised[i].Bits, want)
		}
	}
	want := "more is guaranteed inside it than it is guaranteed itself: asked 2 + 3 + 1 Gbit/s, virtual PF 4 Gbit/s; vf1 keeps 1.500 of 3 " +
		"Gbit/s, vf2 keeps 0.500 of 1 Gbit/s"
	if len(got.Problems) != 1 || got.Problems[0].Text != want || len(got.Over) != 1 || got.Over[0].PF != "vm1/vpf0" ||
		got.Over[0].Text != strings.Replace(want, "inside it", "inside virtual PF vpf0 of vm1", 1) ||
		!strings.HasSuffix(got.Problems[0].Remedy, "(a function's: `sluice vpf set`)") {
		t.Errorf("problems %+v, over %+v", got.Problems, got.Over)
	}
	r.world.Rules.VMs = nil
	got = Admit(AskedOf(r.world.Snapshot, &r.world.Rules), 0)
	if len(got.Problems) != 1 || !got.Problems[0].Info ||
		!strings.Contains(got.Problems[0].Text, "virtual PF vpf0 of vm1 is guaranteed nothing") || got.Promised[3].Bits != 0 {
		t.Errorf("without a guarantee of its own: %+v", got)
	}
}

// A rule for a single function has no effect: its share is set inside the virtual PF.
func TestRuleForAFunction(t *testing.T) {
	r := newVPFRig(t, 0, 1)
	r.rule(0, model.SLA{Guarantee: gbit(1)}) // the VM's, so the virtual PF's as well
	r.world.Rules.VMs = append(r.world.Rules.VMs, model.VMRule{
		Match: "vm0", SLANIC: model.VPFAlias("vpf0", 0),
		SLA: model.SLA{Limit: gbit(1), Source: "sluice.yaml:3:1"},
	})
	r.vm(0).SLAs = []model.NICSLA{{NIC: model.VPFAlias("vpf0", -1), SLA: model.SLA{Weight: 3}}}
	asked := AskedOf(r.world.Snapshot, &r.world.Rules)
	if got := asked[3].SLA; !asked[3].Whole || got.Guarantee != gbit(1) || got.Weight != 3 {
		t.Errorf("as a whole: %+v", got)
	}
	if got := asked[2]; got.SLA.Limit != (model.Rate{}) || len(got.Wrong) != 1 || !strings.Contains(got.Wrong[0].Text, "sluice.yaml:3:1") {
		t.Errorf("vf0: %+v", got)
	}
}

// If taps share a tree, a virtual PF is a sender of its own, and its functions are not part of the tree's total.
func TestVirtualPFBesideATree(t *testing.T) {
	r := newVPFRig(t, 2, 2)
	n := r.node()
	r.named["virtio tx"] = "htb"
	r.whole(model.SLA{Guarantee: gbit(4)})
	r.follow()
	r.wants[nicOf(0)], r.wants[nicOf(1)] = 3e9, 3e9 // the tree is not played here
	for vf := range 2 {
		r.wants[functionOf(n, vf)] = 10e9
	}
	r.passes(3 * time.Second)
	f := r.c.link("pf0")
	if len(f.senders) != 2 || f.senders[0].SLA.Weight != 3 || f.senders[1].ID != functionOf(n, -1) {
		t.Fatalf("senders %+v", f.senders)
	}
	if r.together() < 4e9 {
		t.Errorf("all functions send %s of the 4 Gbit/s that they are promised", bits(r.together()))
	}
	about(t, "tree and virtual PF", float64(r.stand[f.root.key].Bits)+r.c.vpfs[0].allow.Bits, 10e9)
}

// A function that lost its carrier is not short of what it is promised, however much it sent before.
func TestFunctionWithoutACarrierIsNotShort(t *testing.T) {
	r := newVPFRig(t, 1, 2)
	n := r.node()
	r.whole(model.SLA{Guarantee: gbit(4), Limit: gbit(4)})
	r.function(0).Share = model.SLA{Guarantee: gbit(2)}
	r.follow()
	r.wants[nicOf(0)] = 10e9
	r.wants[functionOf(n, 0)], r.wants[functionOf(n, 1)] = 10e9, 10e9
	r.passes(2 * time.Second)
	r.function(0).Carrier, r.wants[functionOf(n, 0)] = model.No, 0
	r.follow()
	r.passes(time.Second)
	for _, in := range r.c.View().NICs {
		if in.NICID == functionOf(n, 0) && (in.Short > 0 || in.Code != model.BandwidthNoCarrier) {
			t.Errorf("short of %d: %s", in.Short, in.Why)
		}
	}
}

// An igb has one NIC for the PF and all its VFs: it has all of the SLA.
func TestVirtualPFOfOneTap(t *testing.T) {
	r := newVPFRig(t, 1, 0)
	r.whole(model.SLA{Guarantee: gbit(1), Limit: gbit(2)})
	r.follow()
	r.wants[nicOf(0)], r.wants[functionOf(r.node(), -1)] = 10e9, 10e9
	r.passes(2 * time.Second)
	about(t, "the one tap", r.sent(functionOf(r.node(), -1)), 2e9)
	k := model.LimitKey{VM: vm(r.node()), NIC: model.VPFAlias("vpf0", -1), Path: model.PathVirtio, Dir: model.Tx}
	if l := r.stand[k]; l.Contract.Bits != 2e9 {
		t.Errorf("its contract is %v", l.Contract)
	}
}
