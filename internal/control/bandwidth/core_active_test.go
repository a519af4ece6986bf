package bandwidth

import (
	"fmt"
	"math"
	"testing"
	"time"

	"sluice/internal/model"
)

// fill makes VMs send all they can for so long: the link of pf0 is shared by their flows, one for the first VM and four more for each
// further one, as far as limits and the weights of a tree allow it.
func (r *rig) fill(vms int, d time.Duration) {
	for range int(d / period) {
		sum, rates := 0.0, make([]float64, vms)
		for i := range rates {
			rates[i] = 10e9
			if l := r.stand[key(i, r.path(i), model.Tx)]; l.Bits > 0 {
				rates[i] = float64(l.Bits)
			}
			sum += min(rates[i], 10e9*float64(1+4*i))
		}
		for i := range rates {
			part := min(1, 10e9/sum)
			r.send(nicOf(i), r.path(i), min(rates[i], 10e9*float64(1+4*i))*part)
		}
		r.tick()
	}
}

// path is the path that a VM's first NIC sends on.
func (r *rig) path(i int) model.Path {
	if r.vm(i).NICs[0].VF != model.NoVF {
		return model.PathVF
	}
	return model.PathVirtio
}

// Weights without any guarantee, and allocators that always divide, give senders that want everything their shares, on either path.
func TestSharesWithoutGuarantees(t *testing.T) {
	for _, c := range []struct {
		allocator string
		weights   [3]float64
		want      [3]float64 // of the link; 0: no limit
	}{
		{"waterfill", [3]float64{5, 2, 1}, [3]float64{5. / 8, 2. / 8, 1. / 8}},
		{"waterfill", [3]float64{0, 2, 0}, [3]float64{1. / 4, 2. / 4, 1. / 4}},
		{"waterfill", [3]float64{2, 2, 2}, [3]float64{}},
		{"waterfill", [3]float64{0, 1, 0}, [3]float64{}},
		{"weighted", [3]float64{5, 2, 1}, [3]float64{5. / 8, 2. / 8, 1. / 8}},
		{"weighted", [3]float64{}, [3]float64{1. / 3, 1. / 3, 1. / 3}},
		{"equal", [3]float64{}, [3]float64{13. / 40, 13. / 40, 13. / 40}},
		{"equal", [3]float64{5, 2, 1}, [3]float64{13. / 40, 13. / 40, 13. / 40}},
		{"daqs", [3]float64{5, 2, 1}, [3]float64{}},
		{"dbavm", [3]float64{5, 2, 1}, [3]float64{}},
		{"none", [3]float64{5, 2, 1}, [3]float64{}},
	} {
		r := newRig(t, 3)
		r.useAllocator(c.allocator)
		for i, w := range c.weights {
			r.rule(i, model.SLA{Weight: w})
		}
		r.plug(1, 0)
		r.follow()
		r.fill(3, 10*time.Second)
		for i, want := range c.want {
			if got := float64(r.stand[key(i, r.path(i), model.Tx)].Bits) / 10e9; math.Abs(got-want) > 0.01 {
				t.Errorf("%s, weights %v: vm%d may send %.3f of the link, want %.3f", c.allocator, c.weights, i, got, want)
			}
		}
		if nothing := c.want == [3]float64{}; nothing != r.c.Quiet() || nothing != (len(r.stand) == 0) {
			t.Errorf("%s, weights %v: quiet %v with limits %+v", c.allocator, c.weights, r.c.Quiet(), r.stand)
		}
	}
}

// The functions of a virtual PF share what it has as NICs share a link.
func TestSharesInsideAVirtualPF(t *testing.T) {
	for _, c := range []struct {
		allocator string
		weights   [3]float64 // of the PF itself and its VFs
		want      [3]float64 // of the link; 0: no limit
	}{
		{"waterfill", [3]float64{0, 3, 0}, [3]float64{.2, .6, .2}},
		{"waterfill", [3]float64{2, 2, 2}, [3]float64{}},
		{"weighted", [3]float64{0, 3, 0}, [3]float64{.2, .6, .2}},
		{"equal", [3]float64{0, 3, 0}, [3]float64{13. / 40, 13. / 40, 13. / 40}},
		{"daqs", [3]float64{0, 3, 0}, [3]float64{}},
	} {
		r := newVPFRig(t, 0, 2)
		r.useAllocator(c.allocator)
		for i, w := range c.weights {
			r.function(i - 1).Share.Weight = w
			r.wants[functionOf(0, i-1)] = 10e9
		}
		r.follow()
		r.passes(10 * time.Second)
		for i, want := range c.want {
			got := 0.0
			if may := r.may(functionOf(0, i-1)); !math.IsInf(may, 1) {
				got = may / 10e9
			}
			if math.Abs(got-want) > 0.01 {
				t.Errorf("%s, weights %v: function %d may send %.3f of the link, want %.3f", c.allocator, c.weights, i, got, want)
			}
		}
	}
}

// The tree of taps has their weights, and all taps together have their part beside the VFs.
func TestWeightsInATree(t *testing.T) {
	r := newRig(t, 4)
	r.useAllocator("waterfill")
	r.named["virtio tx"] = "htb"
	for i, w := range []float64{5, 1, 0, 0.5} {
		r.rule(i, model.SLA{Weight: w})
	}
	r.plug(1, 0)
	r.follow()
	for range 50 {
		root := float64(r.stand[rootKey("pf0")].Bits)
		vf := min(10e9, float64(r.stand[key(1, model.PathVF, model.Tx)].Bits))
		if vf == 0 || root == 0 {
			root, vf = 5e9, 5e9
		}
		scale := min(1, 10e9/(root+vf))
		r.send(nicOf(1), model.PathVF, vf*scale)
		for i, part := range map[int]float64{0: 5 / 6.5, 2: 1 / 6.5, 3: .5 / 6.5} {
			r.send(nicOf(i), model.PathVirtio, root*scale*part)
		}
		r.tick()
	}
	if vf := float64(r.stand[key(1, model.PathVF, model.Tx)].Bits) / 10e9; math.Abs(vf-1/7.5) > 0.01 {
		t.Errorf("the VF may send %.3f of the link beside taps of weight 6.5", vf)
	}
	if root := float64(r.stand[rootKey("pf0")].Bits) / 10e9; math.Abs(root-6.5/7.5) > 0.01 {
		t.Errorf("the taps together may send %.3f of the link", root)
	}
	for i, want := range map[int]float64{0: 5, 3: 0.5} {
		if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Weight != want || !l.IsZero() {
			t.Errorf("vm%d's class: %+v, want weight %v", i, l, want)
		}
	}
	r.world.Rules.VMs = nil
	r.follow()
	r.run(time.Second)
	if len(r.stand) > 0 || !r.c.Quiet() {
		t.Errorf("without weights: quiet %v, %+v", r.c.Quiet(), r.stand)
	}
}

// Only beside the law that it follows does the kernel share by itself: by a tree of taps, unless that is off, and by minimum rates of VFs.
// A change lifts the tree and limits each tap.
func TestKernelSharesWhereItFollowsTheLaw(t *testing.T) {
	r := newRig(t, 3)
	r.named["virtio tx"] = "htb"
	r.rule(0, model.SLA{Guarantee: gbit(2)})
	r.rule(1, model.SLA{Guarantee: gbit(3)})
	r.plug(1, 0)
	r.follow()
	for _, c := range []struct {
		allocator          string
		noTree             bool
		tree, kernel, taps bool // has a tree, minimum rates on VFs, limits on single taps
	}{
		{"waterfill", false, true, true, false},
		{"dbavm", false, false, false, true},
		{"waterfill", true, false, true, true},
		{"equal", false, false, false, true},
		{"waterfill", false, true, true, false},
		{"weighted", true, false, false, true},
		{"daqs", false, false, false, false}, // the guarantees are met
		{"none", false, false, false, false},
	} {
		if err := r.c.SetOptions(Options{Mode: model.ModeEnforce, Allocator: c.allocator, Period: period, NoTree: c.noTree}); err != nil {
			t.Fatal(err)
		}
		r.fill(3, 2*time.Second)
		_, tree := r.stand[rootKey("pf0")]
		class, vf := r.stand[key(0, model.PathVirtio, model.Tx)], r.stand[key(1, model.PathVF, model.Tx)]
		if tree != c.tree || class.Guarantee > 0 != c.tree || vf.Guarantee > 0 != c.kernel {
			t.Errorf("%+v: tree %v, tap %+v, VF %+v", c, tree, class, vf)
		}
		if l := r.stand[key(2, model.PathVirtio, model.Tx)]; l.Bits > 0 != c.taps {
			t.Errorf("%+v: the tap without a guarantee: %+v", c, l)
		}
	}
}

// Where the host's packets/s are known, weights divide them too, in a tree and without one.
func TestWeightsDividePackets(t *testing.T) {
	const carries, small = 600e3, 8 * (64 + wireBytes)
	for _, by := range []string{"police", "htb"} {
		r := newRig(t, 2)
		if err := r.c.SetOptions(Options{Mode: model.ModeEnforce, Allocator: "waterfill", Period: period, Packets: carries}); err != nil {
			t.Fatal(err)
		}
		r.named["virtio tx"] = by
		r.rule(0, model.SLA{Weight: 5})
		r.follow()
		for range 50 {
			var packets [2]float64
			for i := range packets {
				packets[i] = carries
				if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Packets > 0 {
					packets[i] = float64(l.Packets)
				}
			}
			part := min(1, carries/(packets[0]+packets[1]))
			for i, x := range packets {
				r.rates[nicOf(i)] = [2]model.Rate{{Bits: uint64(small * x * part), Packets: uint64(x * part)}}
			}
			r.tick()
		}
		for i, want := range []float64{500e3, 100e3} {
			if got := float64(r.stand[key(i, model.PathVirtio, model.Tx)].Packets); math.Abs(got-want) > 0.05*want {
				t.Errorf("%s: vm%d may send %.0f packets/s, want %.0f", by, i, got, want)
			}
		}
	}
}

// Another allocator applies at once, without a new Snapshot.
func TestAnotherAllocatorAtOnce(t *testing.T) {
	r := newRig(t, 2)
	r.follow()
	r.run(time.Second)
	r.useAllocator("equal")
	r.tick()
	for i := range 2 {
		if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Bits != 5e9 {
			t.Errorf("equal: vm%d: %+v, want half of the link", i, l)
		}
	}
	r.useAllocator("waterfill")
	r.tick()
	if len(r.stand) > 0 || !r.c.Quiet() {
		t.Errorf("after equal: quiet %v, %+v", r.c.Quiet(), r.stand)
	}
	if err := r.c.SetOptions(Options{Mode: model.ModeEnforce, Allocator: "equal", Period: period, Off: true}); err != nil {
		t.Fatal(err)
	}
	if b := r.tick(); len(b) > 0 || !r.c.View().Off {
		t.Errorf("off is %v, but: %+v", r.c.View().Off, b)
	}
}

// A link that is to be divided and whose speed is not known is reported.
func TestDividedLinkWithoutSpeed(t *testing.T) {
	for weight, want := range map[float64]int{0: 0, 5: 1} {
		r := newRig(t, 2)
		r.useAllocator("waterfill")
		r.rule(0, model.SLA{Weight: weight})
		r.world.Snapshot.PFs[0].Speed = 0
		r.follow()
		r.tick()
		if p := r.c.View().Problems; len(p) != want {
			t.Errorf("weight %v: %v", weight, fmt.Sprint(p))
		}
	}
}
