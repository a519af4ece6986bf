package bandwidth

import (
	"cmp"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

func TestParts(t *testing.T) {
	for _, test := range []struct{ sent, want []float64 }{
		{[]float64{5e8}, []float64{1}},
		{[]float64{0}, []float64{1}},
		{[]float64{3e9, 1e9}, []float64{3. / 4, 1. / 4}},
		{[]float64{0, 0, 0}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{[]float64{7e8, 0}, []float64{20. / 21, 1. / 21}},
		{[]float64{0, 6e8, 4e8, 1e6}, []float64{1. / 22, 12. / 22, 8. / 22, 1. / 22}},
	} {
		got := append([]float64(nil), test.sent...)
		toParts(got)
		for i := range got {
			if math.Abs(got[i]-test.want[i]) > 1e-4 {
				t.Errorf("%v: parts %v, want %v", test.sent, got, test.want)
				break
			}
		}
	}
}

// The parts are those that exact arithmetic gives, and add up to the whole.
func TestPartsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.Int64Range(0, 400e9), 1, 8).Draw(t, "sent")
		sum, counted := big.NewRat(1, 1), new(big.Rat)
		got := make([]float64, len(sent))
		for i, x := range sent {
			sum.Add(sum, big.NewRat(x, 1))
			got[i] = float64(x)
		}
		want := make([]*big.Rat, len(sent))
		for i, x := range sent {
			want[i] = new(big.Rat).Quo(sum, big.NewRat(20, 1))
			if r := big.NewRat(x, 1); r.Cmp(want[i]) > 0 {
				want[i] = r
			}
			counted.Add(counted, want[i])
		}
		toParts(got)
		whole := 0.0
		for i := range got {
			exact, _ := want[i].Quo(want[i], counted).Float64()
			if math.Abs(got[i]-exact) > 1e-12 {
				t.Fatalf("%d of %v: part %v, want %v", i, sent, got[i], exact)
			}
			whole += got[i]
		}
		if math.Abs(whole-1) > 1e-12 {
			t.Fatalf("%v: parts %v add up to %v", sent, got, whole)
		}
	})
}

// twoLinks returns a host whose first VM has a NIC behind each of two PFs, and a limit and a guarantee in packets/s.
func twoLinks(t *testing.T, allocator string) (r *rig, a, b *nic) {
	r = newRig(t, 1)
	s := r.world.Snapshot
	s.PFs = append(s.PFs, model.PF{Name: "pf1", Network: "br1", LinkUp: true, Speed: 10e9})
	r.vm(0).NICs = append(r.vm(0).NICs, model.NIC{Alias: "n1", Network: "br1"})
	r.rule(0, model.SLA{Limit: model.Rate{Packets: 60_000}, Guarantee: model.Rate{Packets: 6_000}})
	r.useAllocator(allocator)
	r.follow()
	return r, r.nic(0), r.c.byID[model.NICID{VM: vm(0), NIC: "n1"}]
}

// A VM's packets/s go to the NICs through which it sends, whatever link these use.
func TestPacketsAreDividedByWhatIsSent(t *testing.T) {
	big, little := model.Rate{Bits: 300e6, Packets: 25_000}, model.Rate{Bits: 20e6, Packets: 25_000}
	for _, test := range []struct {
		allocator string
		sent      [2]model.Rate
		want      [2]float64 // parts of 60,000
	}{
		{"waterfill", [2]model.Rate{}, [2]float64{1. / 2, 1. / 2}},
		{"dbavm", [2]model.Rate{}, [2]float64{1. / 2, 1. / 2}},
		{"waterfill", [2]model.Rate{big, little}, [2]float64{1. / 2, 1. / 2}},
		{"dbavm", [2]model.Rate{big, little}, [2]float64{15. / 16, 1. / 16}},
		{"waterfill", [2]model.Rate{{}, little}, [2]float64{1. / 21, 20. / 21}},
		{"dbavm", [2]model.Rate{{}, little}, [2]float64{1. / 21, 20. / 21}},
		{"none", [2]model.Rate{{}, little}, [2]float64{1. / 21, 20. / 21}},
	} {
		r, a, b := twoLinks(t, test.allocator)
		r.rates[a.id], r.rates[b.id] = [2]model.Rate{test.sent[0]}, [2]model.Rate{test.sent[1]}
		r.run(10 * time.Second)
		for i, n := range []*nic{a, b} {
			limit, guarantee := float64(n.own.Limit.Packets), float64(n.own.Guarantee.Packets)
			if math.Abs(limit-60_000*test.want[i]) > 60 || math.Abs(guarantee-6_000*test.want[i]) > 6 {
				t.Errorf("%s, sent %v: %s has %v of the 60,000 packets/s and is guaranteed %v of 6,000, want %.4f of each", test.allocator,
					test.sent, n.id, limit, guarantee, test.want[i])
			}
			if l := r.stand[model.LimitKey{VM: vm(0), NIC: n.id.NIC, Path: model.PathVirtio, Dir: model.Tx}]; l.Contract.Packets != n.own.Limit.Packets {
				t.Errorf("%s: %v is enforced for %s", test.allocator, l.Contract, n.id)
			}
		}
	}
}

// The paper's own VMs (section V) have one interface each, and with it all of their packets/s.
func TestDBAVMPublishedPackets(t *testing.T) {
	r := newRig(t, 3)
	limits := []uint64{20_000, 60_000, 60_000}
	for i, bits := range []float64{150e6, 700e6, 150e6} {
		r.rule(i, model.SLA{Guarantee: model.Rate{Bits: uint64(bits)}, Limit: model.Rate{Bits: uint64(bits), Packets: limits[i]}})
		r.send(nicOf(i), model.PathVirtio, bits)
	}
	r.world.Snapshot.PFs[0].Speed = 1e9
	r.useAllocator("dbavm")
	r.follow()
	r.run(2 * time.Second)
	for i, want := range limits {
		if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.InForce().Packets != want {
			t.Errorf("VM%d: %v in force, want %d packets/s", i+1, l.InForce(), want)
		}
	}
}

// Divided by bits, the packets/s go to the NIC with the larger packets if both send all that they may: each period it has more of the
// bits. By packets, both keep what they had.
func TestDivisionByBitsFavoursLargePackets(t *testing.T) {
	for allocator, want := range map[string]float64{"dbavm": 1. / 21, "waterfill": 1. / 2} {
		r, a, b := twoLinks(t, allocator)
		for range 50 {
			for n, size := range map[*nic]float64{a: 1538, b: 84} {
				l := r.stand[model.LimitKey{VM: vm(0), NIC: n.id.NIC, Path: model.PathVirtio, Dir: model.Tx}]
				p := float64(cmp.Or(l.InForce().Packets, 60_000))
				r.rates[n.id] = [2]model.Rate{{Bits: uint64(8 * size * p), Packets: uint64(p)}}
			}
			r.tick()
		}
		if got := float64(b.own.Limit.Packets) / 60_000; math.Abs(got-want) > 0.01 {
			t.Errorf("%s: the NIC with packets of 64 bytes has %.3f of the packets/s, want %.3f", allocator, got, want)
		}
	}
}
