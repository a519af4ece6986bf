package observe

import (
	"math"
	"testing"
	"time"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// flooded is a host on which a VM was busy on virtio for 13 s and then got a VF of a NIC without counters per VF; port says whether its
// port has counters.
func flooded(t *testing.T, f *fakeWorld, s *Source, port bool) {
	t.Helper()
	if port {
		f.set(func() { f.ports["pf0"] = netdev.Counters{} })
	}
	for range 13 {
		f.tapMoves(1, 50_000, 50_000)
		snapshot(t, s)
		time.Sleep(time.Second)
	}
	f.set(func() { f.attach(1, addr(0)) })
}

// A claim that neither port nor interrupts support is believed only for the time that the VM's traffic on virtio has earned; a supported
// one is believed far longer, and is marked as corroborated.
func TestClaimIsHeldAgainstPortAndInterrupts(t *testing.T) {
	for _, c := range []struct {
		name        string
		real        bool
		least, most int
		proof       model.Proof
	}{
		{"a lie", false, 8, 40, model.ProofGuest},
		{"the truth", true, 600, 600, model.ProofCorroborated},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, g := guestWorld()
			f.dom(1).Hostdevs = nil
			run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
				flooded(t, f, s, true)
				// Another VF shows that the host handles VF interrupts itself.
				f.addVM(2, "br0")
				f.set(func() { f.attach(2, addr(1)) })
				believed, proof := 0, model.ProofNone
				for i := range 600 {
					got := seconds(t, s, 1, func() {
						f.set(func() {
							g.vf.moves(50_000)
							f.interrupts[addr(1)] += 1000
							if c.real {
								p := f.ports["pf0"]
								p.RxPackets, p.TxPackets = p.RxPackets+50_000, p.TxPackets+50_000
								f.ports["pf0"], f.interrupts[addr(0)] = p, f.interrupts[addr(0)]+8000
							}
						})
					})
					if got.RxPPS > 25_000 {
						believed++
					}
					if i == 10 {
						proof = got.Proof
					}
				}
				if believed < c.least || believed > c.most || proof != c.proof {
					t.Errorf("believed for %d s of 600 (%s), want %d to %d (%s)", believed, proof, c.least, c.most, c.proof)
				}
			})
		})
	}
}

// The PF's own traffic leaves no room for claims.
func TestPortRoomIsWithoutThePFsOwn(t *testing.T) {
	f, _ := guestWorld()
	f.ports["pf0"] = netdev.Counters{}
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		var snap *model.Snapshot
		for range 3 {
			f.set(func() {
				f.ports["pf0"] = netdev.Counters{RxPackets: f.ports["pf0"].RxPackets + 9000}
				f.link("pf0").Counters.RxPackets += 7000
			})
			time.Sleep(time.Second)
			snap = snapshot(t, s)
		}
		if got := s.portRate(t.Context(), snap.FindPF("pf0")); !got.Known || math.Abs(got.Rate-2000) > 1 {
			t.Errorf("got %+v, want 2000 packets/s", got)
		}
	})
}

// The interrupts of a few VFs are read at a time, round robin.
func TestInterruptsAreReadInTurn(t *testing.T) {
	f := crowd(40)
	f.pfs[0].Caps, f.pfs[1].Caps = mute, mute
	s := New(f, f.uplinks(), f, nil, Options{Pool: Pool{"pf0": {All: true}, "pf1": {All: true}}})
	defer s.Close()
	for range 10 {
		snapshot(t, s)
	}
	for i := range 40 {
		if n := f.count("interrupts " + string(f.pfs[i/32].VFs[i%32].Address)); n != 2 {
			t.Errorf("VF %d: read %d times in 10 Snapshots, want 2", i, n)
		}
	}
}
