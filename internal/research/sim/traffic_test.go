package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

const gbit = 1e9

// sends is a Load of so many bits/s on the wire, in full frames.
type sends struct{ bits float64 }

func (s *sends) At(time.Time) (float64, float64, float64) {
	const frame = 1514
	pps := s.bits / 8 / (frame + Overhead)
	return pps, pps * frame, 0
}

// newShared makes a world of VMs that want to send so many bits/s each through one link of 10 Gbit/s.
func newShared(t *testing.T, tr *Traffic, wants ...float64) (*Engine, []*NIC) {
	t.Helper()
	w := &World{Now: epoch, Timing: PaperTiming}
	w.AddPF("pf0", "br0", 4, 0)
	var nics []*NIC
	for i, x := range wants {
		nics = append(nics, w.AddVM(i, string(rune('a'+i)), "br0", &sends{x}).NICs[0])
	}
	w.StartTraffic(tr)
	return &Engine{World: w, Sample: time.Second}, nics
}

func pass(t *testing.T, e *Engine, d time.Duration) {
	t.Helper()
	if err := e.Run(context.Background(), e.World.Now.Add(d)); err != nil {
		t.Fatal(err)
	}
}

func wantRates(t *testing.T, what string, nics []*NIC, want ...float64) {
	t.Helper()
	for i, n := range nics {
		if math.Abs(n.Sending()-want[i]) > 1e-6*want[i]+1 {
			t.Errorf("%s: %s sends %.4g bits/s, want %.4g", what, n, n.Sending(), want[i])
		}
	}
}

func apply(t *testing.T, e *Engine, enforcer int, limits ...model.Limit) {
	t.Helper()
	if _, err := e.World.Enforcers()[enforcer].Apply(context.Background(), nil, limits); err != nil {
		t.Fatal(err)
	}
}

func txKey(n *NIC, p model.Path) model.LimitKey {
	return model.LimitKey{VM: n.VM.ID, NIC: n.Alias, Path: p, Dir: model.Tx}
}

// Indices of the enforcers in World.Enforcers.
const (
	useVF = iota
	useGuest
	useTree
	usePolice
)

// A full link is shared by flows; a NIC that wants less than its share gets all of it; and the link's real capacity counts, not its speed.
func TestLinkIsSharedByFlows(t *testing.T) {
	e, nics := newShared(t, &Traffic{}, 8*gbit, 8*gbit, 1*gbit)
	nics[1].Flows = 5
	pass(t, e, time.Second)
	wantRates(t, "one flow against five", nics, 1.5*gbit, 7.5*gbit, 1*gbit)
	e.World.PFs()[0].Carries = 7 * gbit
	pass(t, e, time.Second)
	wantRates(t, "on a link that carries less", nics, 1*gbit, 5*gbit, 1*gbit)
	e.World.PFs()[0].LinkUp = false
	pass(t, e, time.Second)
	wantRates(t, "without link", nics, 0, 0, 0)
}

// The host's packet rate limits only NICs on virtio.
func TestHostCarriesSoManyPackets(t *testing.T) {
	e, nics := newShared(t, &Traffic{Packets: 100e3}, 5*gbit, 5*gbit)
	frame := 8.0 * (1514 + Overhead)
	pass(t, e, time.Second)
	wantRates(t, "both on virtio", nics, 50e3*frame, 50e3*frame)
	e.World.Give(nics[0].VM, model.VFID{PF: "pf0", Index: 0})
	pass(t, e, time.Second)
	wantRates(t, "one on a VF", nics, 5*gbit, 100e3*frame)
}

// packetsOf is a Load of so many packets/s of a size.
type packetsOf struct{ pps, size float64 }

func (p packetsOf) At(time.Time) (float64, float64, float64) { return p.pps, p.pps * p.size, 0 }

// Neither the link nor the host ever carries more than it can, whatever is sent, and all that is wanted if it can.
func TestNoMoreThanIsCarried(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.Float64Range(20e3, 2e6).Draw(rt, "packets/s of the host")
		tr := &Traffic{Packets: most}
		e, nics := newShared(t, tr, make([]float64, rapid.IntRange(1, 5).Draw(rt, "NICs"))...)
		for _, n := range nics {
			n.VM.Load = packetsOf{rapid.Float64Range(0, 1e6).Draw(rt, "packets/s"), float64(rapid.IntRange(64, 1500).Draw(rt, "size"))}
			n.Blast, n.Flows = rapid.Bool().Draw(rt, "blast"), float64(rapid.IntRange(1, 5).Draw(rt, "flows"))
		}
		e.World.share()
		var bits, packets, wanted, wantedPackets float64
		for _, n := range nics {
			bits, wanted = bits+n.Sending(), wanted+n.Wants()
			if n.size > 0 {
				packets, wantedPackets = packets+n.Sending()/n.size, wantedPackets+n.Wants()/n.size
			}
		}
		switch {
		case bits > 10*gbit*(1+1e-9) || packets > most*(1+1e-9):
			rt.Errorf("%v bits/s, %v packets/s of %v", bits, packets, most)
		case wanted <= 10*gbit && wantedPackets <= most && bits < wanted*(1-1e-9):
			rt.Errorf("%v bits/s of %v that are wanted and can be carried", bits, wanted)
		}
	})
}

// A NIC that follows its limit sends a part of it while it has no load, and all of it otherwise; without one, a part of the link.
func TestNICFollowsItsLimit(t *testing.T) {
	e, nics := newShared(t, &Traffic{}, 0)
	load := nics[0].VM.Load.(*sends)
	nics[0].LimitShare = .5
	pass(t, e, time.Second)
	wantRates(t, "without a limit", nics, 5*gbit)
	apply(t, e, usePolice, model.Limit{LimitKey: txKey(nics[0], model.PathVirtio), Rate: model.Rate{Bits: 2 * gbit}})
	pass(t, e, time.Second)
	wantRates(t, "with a limit", nics, 1*gbit)
	if nics[0].Wants() != 1*gbit {
		t.Errorf("it wants %v bits/s", nics[0].Wants())
	}
	load.bits = 8 * gbit
	pass(t, e, time.Second)
	wantRates(t, "with a load", nics, 2*gbit)
}

// An allowance ends with its lease; the contract, and the limit of a VF, remain.
func TestLeasesEnd(t *testing.T) {
	e, nics := newShared(t, &Traffic{}, 4*gbit, 4*gbit)
	e.World.Give(nics[1].VM, model.VFID{PF: "pf0", Index: 0})
	police := model.Limit{LimitKey: txKey(nics[0], model.PathVirtio), Rate: model.Rate{Bits: 1 * gbit}, Contract: model.Rate{Bits: 3 * gbit}}
	apply(t, e, usePolice, police)
	apply(t, e, useVF, model.Limit{LimitKey: txKey(nics[1], model.PathVF), Rate: model.Rate{Bits: 2 * gbit}})
	pass(t, e, model.LimitLease-time.Second)
	wantRates(t, "within the lease", nics, 1*gbit, 2*gbit)
	apply(t, e, usePolice, police)
	pass(t, e, model.LimitLease-time.Second)
	wantRates(t, "renewed", nics, 1*gbit, 2*gbit)
	pass(t, e, 2*time.Second)
	wantRates(t, "after it", nics, 3*gbit, 2*gbit)
	apply(t, e, usePolice, model.Limit{LimitKey: police.LimitKey})
	pass(t, e, time.Second)
	wantRates(t, "lifted", nics, 4*gbit, 2*gbit)
}

// A tree serves guarantees first, then the rest by weight, whatever the flows, and shares by itself what its root allows.
func TestTreeKeepsGuarantees(t *testing.T) {
	e, nics := newShared(t, &Traffic{Tree: true}, 8*gbit, 8*gbit)
	nics[1].Flows = 5
	apply(t, e, useTree,
		model.Limit{LimitKey: model.LimitKey{PF: "pf0", Path: model.PathVirtio, Dir: model.Tx}, Rate: model.Rate{Bits: 8 * gbit}},
		model.Limit{LimitKey: txKey(nics[0], model.PathVirtio), Guarantee: 6 * gbit},
		model.Limit{LimitKey: txKey(nics[1], model.PathVirtio), Weight: 9})
	pass(t, e, time.Second)
	wantRates(t, "in the tree", nics, 6.2*gbit, 1.8*gbit)
}

// A guest's own limiter applies on both paths, unless the guest lies, and ends with a reboot.
func TestGuestLimitsBothPaths(t *testing.T) {
	e, nics := newShared(t, &Traffic{}, 4*gbit)
	nics[0].VM.InGuest = true
	apply(t, e, useGuest, model.Limit{LimitKey: txKey(nics[0], model.PathVF), Rate: model.Rate{Bits: 1 * gbit}})
	pass(t, e, time.Second)
	wantRates(t, "on virtio", nics, 1*gbit)
	e.World.Give(nics[0].VM, model.VFID{PF: "pf0", Index: 0})
	pass(t, e, time.Second)
	wantRates(t, "on its VF", nics, 1*gbit)
	nics[0].VM.Lies = true
	pass(t, e, time.Second)
	wantRates(t, "when it lies", nics, 4*gbit)
	nics[0].VM.Lies = false
	e.World.Reboot(nics[0].VM)
	pass(t, e, 5*time.Second)
	wantRates(t, "after a reboot", nics, 4*gbit)
}

// Counters show what was sent on each path, with the noise that is asked for.
func TestReadingsCount(t *testing.T) {
	e, nics := newShared(t, &Traffic{Noise: 0.1, Rand: rand.New(rand.NewPCG(1, 2))}, 4*gbit)
	rate := func(path int) float64 {
		before := e.World.Readings()[path]
		pass(t, e, time.Second)
		after := e.World.Readings()[path]
		return 8 * (float64(after.TxBytes-before.TxBytes) + Overhead*float64(after.TxPackets-before.TxPackets))
	}
	sum, dev := 0.0, 0.0
	for range 100 {
		x := rate(0) / (4 * gbit)
		sum, dev = sum+x/100, dev+(x-1)*(x-1)/100
	}
	if math.Abs(sum-1) > 0.05 || dev < 0.05*0.05 || dev > 0.2*0.2 {
		t.Errorf("mean %v of what is sent, deviation %v", sum, math.Sqrt(dev))
	}
	e.World.Give(nics[0].VM, model.VFID{PF: "pf0", Index: 0})
	if x := rate(0); x != 0 {
		t.Errorf("its tap counts %v bits/s while it has a VF", x)
	}
	if x := rate(1) / (4 * gbit); math.Abs(x-1) > 0.5 {
		t.Errorf("its VF counts %v of what it sends", x)
	}
}
