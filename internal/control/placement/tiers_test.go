package placement

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// tierWorld is a host with constant loads that applies Targets at once.
type tierWorld struct {
	*scene
	d     *Decider
	hints Hints
}

// decide advances a second and returns the rates of the held VFs, in bits/s.
func (w *tierWorld) decide() map[model.VFID]uint64 {
	w.Time = w.Time.Add(time.Second)
	target := w.d.Decide(w.Time, &w.Snapshot, &w.hints)
	for i := range w.VMs {
		w.VMs[i].NICs[0].VF, w.VMs[i].NICs[0].VFOwner = model.NoVF, model.OwnerFree
	}
	for i := range w.PFs {
		for j := range w.PFs[i].VFs {
			w.PFs[i].VFs[j].Owner, w.PFs[i].VFs[j].Holder = model.OwnerFree, ""
		}
	}
	rates := map[model.VFID]uint64{}
	for _, a := range target.Assign {
		w.give(w.FindVM(a.VM), a.VF)
		rates[a.VF] = 0
		for _, l := range target.Limits {
			if l.VM == a.VM {
				rates[a.VF] = l.Bits
			}
		}
	}
	return rates
}

// TestTiersFitEachLink: at every tick the tiers of a PF's VF holders, pinned ones included, fit its link, differ in size if the step
// permits, and stay while moves are under way.
func TestTiersFitEachLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := model.Params{
			"vf0_mbit":   float64(rapid.IntRange(1, 4000).Draw(t, "vf0")),
			"delta_mbit": float64(rapid.IntRange(0, 4000).Draw(t, "delta")),
		}
		rules := model.Rules{Policy: "vnraf", Interval: 3 * time.Second, Params: params}
		w := &tierWorld{scene: newScene(), hints: Hints{NICs: map[model.NICID]Hint{}}}
		speeds := map[string]uint64{"pf0": 10e9, "pf1": 25e9, "pf2": 1e9}
		for i := range 3 {
			name := fmt.Sprintf("pf%d", i)
			w.pf(name, "br0", rapid.IntRange(1, 5).Draw(t, "vfs"), i)
			w.PFs[i].Speed = speeds[name]
		}
		// No two loads are equal: which of two equal ones has a VF could depend on the last digit of a mean.
		for _, n := range rapid.Permutation([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).Draw(t,
			"loads")[:rapid.IntRange(1, 12).Draw(t, "vms")] {
			vm := w.vm("br0", 1000)
			vm.NICs[0].Virtio.TxBytes = 1e4 * math.Pow(1.15, n)
			if rapid.IntRange(0, 4).Draw(t, "pin") == 0 {
				rules.VMs = append(rules.VMs, model.VMRule{Match: vm.Name, Pin: true})
			}
		}
		d, err := New(rules)
		if err != nil {
			t.Fatal(err)
		}
		w.d = d
		var last map[model.VFID]uint64
		for tick := range 15 {
			clear(w.hints.NICs)
			if moving := w.VMs[rapid.IntRange(0, len(w.VMs)-1).Draw(t, "moving")]; tick > 5 && moving.NICs[0].VF != model.NoVF {
				w.hints.NICs[model.NICID{VM: moving.ID, NIC: moving.NICs[0].Alias}] = Hint{VF: moving.NICs[0].VF, Code: model.CodeMoving}
			}
			rates := w.decide()
			for i := range w.PFs {
				pf, n := w.PFs[i].Name, float64(len(w.PFs[i].VFs))
				step := min(params["delta_mbit"], (float64(speeds[pf])/1e6-n*params["vf0_mbit"])/(n*(n-1)/2))
				sum, sizes, held := uint64(0), map[uint64]bool{}, 0
				for vf, rate := range rates {
					if vf.PF != pf {
						continue
					}
					if rate == 0 {
						t.Fatalf("tick %d: %s is held and has no tier", tick, vf)
					}
					sum, held, sizes[rate] = sum+rate, held+1, true
				}
				if sum > speeds[pf] {
					t.Fatalf("tick %d: the tiers of %s add up to %d Mbit/s", tick, pf, sum/1e6)
				}
				if step >= 1 && len(sizes) < held {
					t.Fatalf("tick %d: %d tiers of %s have %d sizes, though a step of %g Mbit/s fits", tick, held, pf, len(sizes), step)
				}
			}
			if tick > 6 && !maps.Equal(rates, last) {
				t.Fatalf("tick %d: tiers %v became %v while loads stood still", tick, last, rates)
			}
			last = rates
		}
	})
}

// TestTiersByNeed: on each PF a VM that needs more has no smaller tier, and each has the smallest that fits it.
func TestTiersByNeed(t *testing.T) {
	w := &tierWorld{scene: newScene().pf("pf0", "br0", 4, 0)}
	w.PFs[0].Speed = 10e9
	for _, mbit := range []float64{100, 900, 300} {
		w.vm("br0", 1000).NICs[0].Virtio.TxBytes = mbit * 1e6 / 8
	}
	w.d = decider(t, model.Rules{
		Policy: "vnraf", Interval: 3 * time.Second, Params: model.Params{"vf0_mbit": 1000, "delta_mbit": 1000},
		VMs: []model.VMRule{{Match: "vm2", Pin: true}},
	})
	for range 5 {
		w.decide()
	}
	rates := w.decide()
	got := ""
	for i := range w.VMs {
		got += fmt.Sprint(rates[w.VMs[i].NICs[0].VF]/1e6, " ")
	}
	if want := "1000 3000 2000 "; got != want {
		t.Errorf("tiers %s Mbit/s, want %s", got, want)
	}
}

// TestTiersFindTheNeeds: VMs show no more than their tiers let through. If there are tiers that fit all of them, with the margin of a move to
// a smaller one, each comes to have one that does not hold it back, and then no tier changes any more.
func TestTiersFindTheNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const mbit = 1e6
		ts := &tiers{first: float64(rapid.IntRange(1, 900).Draw(t, "first")) * mbit, step: float64(rapid.IntRange(0, 900).Draw(t, "step")) * mbit}
		l := link{speed: 1e9 * float64(rapid.IntRange(1, 10).Draw(t, "gbit")), vfs: rapid.IntRange(1, 6).Draw(t, "vfs")}
		demand := make([]float64, rapid.IntRange(1, l.vfs).Draw(t, "holders"))
		for i := range demand {
			demand[i] = rapid.Float64Range(0, 3000).Draw(t, "demand") * mbit
		}
		var last []uint64
		for round := range 4*l.vfs + 4 {
			l.holders = l.holders[:0]
			for i, d := range demand {
				if last != nil {
					d = min(d, float64(last[i]))
				}
				l.holders = append(l.holders, holder{id: model.NICID{VM: model.VMID(fmt.Sprint(i))}, load: d})
			}
			ts.caps(time.Unix(int64(round), 0), []link{l})
			rates := make([]uint64, len(demand))
			for i := range demand {
				rates[i] = l.holders[i].rate
			}
			sizes, enough := ts.sizes(&l), slices.Sorted(slices.Values(demand))
			for _, d := range enough { // simple: the smallest need takes the smallest tier that fits, and so on
				n := slices.IndexFunc(sizes, func(size uint64) bool { return fits(tierMargin*d, size) })
				if n < 0 {
					return // nothing is claimed
				}
				sizes = sizes[n+1:]
			}
			if round > 4*l.vfs {
				for i, d := range demand {
					if float64(rates[i]) < d {
						t.Fatalf("round %d: demands %.0f have tiers %d", round, demand, rates)
					}
				}
				if !slices.Equal(rates, last) {
					t.Fatalf("round %d: tiers %d became %d", round, last, rates)
				}
			}
			last = rates
		}
	})
}

// TestTiersShowNeedsBehindThem: a VM whose small tier hides that it needs most gets the largest tier all the same.
func TestTiersShowNeedsBehindThem(t *testing.T) {
	const mbit = 1e6
	big, small := model.NICID{VM: "big"}, model.NICID{VM: "small"}
	ts := &tiers{first: 1000 * mbit, step: 1000 * mbit, Held: map[model.NICID]heldTier{big: {Tier: 1000 * mbit}, small: {Tier: 2000 * mbit}}}
	l := link{speed: 10e9, vfs: 2}
	for round := range 5 {
		l.holders = []holder{
			{id: big, load: min(3000*mbit, float64(ts.Held[big].Tier))}, {id: small, load: min(1500*mbit, float64(ts.Held[small].Tier))},
		}
		ts.caps(time.Unix(int64(round), 0), []link{l})
	}
	if ts.Held[big].Tier != 2000*mbit || ts.Held[small].Tier != 1000*mbit {
		t.Errorf("tiers %+v", ts.Held)
	}
}
