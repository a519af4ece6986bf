package bandwidth

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"sluice/internal/model"
)

// silent withholds the answers of enforcers, as slow ones would.
func (r *rig) silent(ticks int) (batches [][]Order) {
	for range ticks {
		batches = append(batches, r.decide())
	}
	return batches
}

// asked counts the batches that contain a Limit.
func asked(batches [][]Order, key model.LimitKey) (n int) {
	for _, b := range batches {
		if slices.ContainsFunc(b, func(o Order) bool { return o.LimitKey == key }) {
			n++
		}
	}
	return n
}

// Reductions are applied before raises, so that no part of a link is assigned twice in between.
func TestLimitsAreLoweredBeforeOthersAreRaised(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: gbit(2)})
	r.rule(1, model.SLA{Guarantee: gbit(4)})
	r.follow()
	r.run(time.Second)
	r.world.Rules.VMs[0].SLA.Guarantee, r.world.Rules.VMs[1].SLA.Guarantee = gbit(4), gbit(2)
	r.follow()
	if b := r.tick(); len(b) != 2 || b[0].VM != vm(1) || b[1].VM != vm(0) {
		t.Errorf("applied in this order: %+v, want vm1, which loses, before vm0", b)
	}
}

// The Core waits longer than a minute for an answer from a guest, and 20 s for one from the kernel.
func TestPatience(t *testing.T) {
	r := newRig(t, 2)
	r.named["vf tx"] = "guest-htb"
	r.rule(0, model.SLA{Guarantee: gbit(4), Limit: gbit(6)})
	r.plug(0, 0)
	r.follow()
	seconds := func(n int) int { return int(time.Duration(n) * time.Second / period) }
	b := r.silent(seconds(65))
	if guest, tap := asked(b, key(0, model.PathVF, model.Tx)), asked(b, key(0, model.PathVirtio, model.Tx)); guest != 1 || tap < 3 || tap > 4 {
		t.Errorf("within 65 s without an answer the guest is asked %d times, want once, and for its tap %d times, want 4 at most", guest, tap)
	}
	if n := asked(r.silent(seconds(10)), key(0, model.PathVF, model.Tx)); n != 1 {
		t.Errorf("after 70 s the guest is asked %d times, want once more", n)
	}
}

// If the enforcer for a Limit changes, the Limit is applied at once, whether it is in force or failed with the previous one.
func TestAnotherEnforcerIsAskedAtOnce(t *testing.T) {
	for _, fail := range []error{nil, errors.New("no TCX")} {
		r := newRig(t, 1)
		r.rule(0, model.SLA{Limit: gbit(2)})
		r.fail = func(model.Limit) error { return fail }
		r.follow()
		r.tick()
		if b := r.tick(); len(b) > 0 {
			t.Fatalf("failed: %v: asked again: %+v", fail, b)
		}
		r.named["virtio tx"] = "another"
		r.follow()
		if b := r.tick(); len(b) != 1 || b[0].Contract != gbit(2) || r.c.By(b[0].LimitKey) != "another" {
			t.Errorf("failed with the first: %v: the second is asked for %+v", fail, b)
		}
	}
}

// The result of the previous enforcer says nothing about the present one.
func TestLateAnswerOfAnotherEnforcer(t *testing.T) {
	r := newRig(t, 1)
	r.rule(0, model.SLA{Limit: gbit(2)})
	r.follow()
	late := r.decide()
	r.named["virtio tx"] = "another"
	r.follow()
	r.apply(late)
	if b := r.tick(); len(b) != 1 || b[0].Contract != gbit(2) {
		t.Errorf("after the answer of the first enforcer the second is asked for %+v", b)
	}
}

// A late answer to an earlier attempt is ignored: something else may have been ordered since.
func TestAnswerToAnEarlierQuestion(t *testing.T) {
	r := newRig(t, 1)
	r.rule(0, model.SLA{Limit: gbit(2)})
	r.follow()
	late := r.decide()
	r.silent(int(pendingMost/period) - 2)
	r.world.Rules.VMs[0].SLA.Limit = gbit(3)
	r.follow()
	again := slices.Concat(r.silent(5)...)
	if len(again) != 1 || again[0].Contract != gbit(3) {
		t.Fatalf("without an answer it is asked for %+v", again)
	}
	r.c.Applied(r.now, late, LimitsOf(late), nil)
	if l := r.c.View().NICs[0].Enforcer; len(l) > 0 {
		t.Errorf("takes %+v to stand", l)
	}
	r.apply(again)
	if l := r.c.View().NICs[0].Enforcer; len(l) != 1 || l[0].Contract != gbit(3) {
		t.Errorf("takes %+v to stand, want 3 Gbit/s", l)
	}
}

// This is also so if the same Limit was ordered again, from whichever enforcer: the new result is still to come.
func TestAnswerToTheSameQuestionAskedBefore(t *testing.T) {
	for name, again := range map[string]func(*rig) [][]Order{
		"of the same enforcer": func(r *rig) [][]Order { return r.silent(int(pendingMost/period) + 1) },
		"of another enforcer": func(r *rig) [][]Order {
			r.silent(int(pendingMost/period) - 2)
			r.named["vf tx"] = "another"
			r.follow()
			return r.silent(4)
		},
		"for another VF": func(r *rig) [][]Order {
			r.plug(0, 1)
			r.follow()
			return r.silent(1)
		},
		"for a VM that came back": func(r *rig) [][]Order {
			vms := r.world.Snapshot.VMs
			r.world.Snapshot.VMs = nil
			r.follow()
			r.world.Snapshot.VMs = vms
			r.follow()
			return r.silent(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.rule(0, model.SLA{Limit: gbit(2)})
			r.plug(0, 0)
			r.follow()
			ofVF := func(batches [][]Order) []Order {
				return slices.DeleteFunc(slices.Concat(batches...), func(o Order) bool { return o.Path != model.PathVF })
			}
			late := ofVF(r.silent(1))
			then := ofVF(again(r))
			if len(late) != 1 || len(then) != 1 || then[0].Limit != late[0].Limit {
				t.Fatalf("asked for %+v, then for %+v", late, then)
			}
			s := &r.nic(0).limits[slot(model.PathVF, model.Tx)]
			r.c.Applied(r.now, late, nil, errors.New("too late"))
			r.c.Applied(r.now, late, LimitsOf(late), nil)
			if s.inForce() || s.failed() || !s.Pending(r.now) {
				t.Errorf("the earlier answer counts: %+v", s)
			}
			r.c.Applied(r.now, then, nil, errors.New("no such device"))
			if s.inForce() || !s.failed() {
				t.Errorf("the later answer does not count: %+v", s)
			}
		})
	}
}

// While a VF's rate is being set, what a Snapshot shows may be older, and is ignored.
func TestSnapshotWhileARateIsBeingSet(t *testing.T) {
	r := newRig(t, 1)
	r.rule(0, model.SLA{Limit: gbit(2)})
	r.plug(0, 0)
	r.follow()
	batch := r.decide()
	r.world.Snapshot.PFs[0].VFs[0].MaxTxRate = 1e9
	r.follow()
	if l := r.c.View().NICs[0].Enforcer; len(l) > 0 {
		t.Errorf("before the answer takes %+v to stand", l)
	}
	r.apply(batch)
	if b := r.tick(); len(b) > 0 {
		t.Errorf("after the answer asks for %+v", b)
	}
}

// A rate that somebody else set on a VF is corrected once, even if it is close. Only the wanted rate may change a little without being
// applied.
func TestRateOfSomebodyElseIsPutRight(t *testing.T) {
	r := newRig(t, 1)
	r.world.Tiers = []model.Limit{{LimitKey: key(0, model.PathVF, model.Tx), Rate: gbit(1)}}
	r.plug(0, 0)
	r.follow()
	r.tick()
	vf := &r.world.Snapshot.PFs[0].VFs[0]
	if vf.MaxTxRate != 1e9 {
		t.Fatalf("the VF has %d bit/s, want its tier", vf.MaxTxRate)
	}
	r.now = r.now.Add(period)
	r.follow()
	if b := r.tick(); len(b) > 0 {
		t.Errorf("what stands as it was applied is applied again: %+v", b)
	}
	for _, other := range []uint64{999e6, 999_600_000, 1001e6} {
		vf.MaxTxRate = other
		for range 2 { // the second Snapshot shows no change
			r.now = r.now.Add(period)
			r.follow()
		}
		b := slices.Concat(r.tick(), r.tick())
		r.follow()
		if b = slices.Concat(b, r.tick()); len(b) != 1 || vf.MaxTxRate != 1e9 {
			t.Errorf("of %d bit/s that somebody else set %d remain, after %+v; want the rate applied once", other, vf.MaxTxRate, b)
		}
	}
}

// Limits of an earlier run are adopted only if this one has not set any yet.
func TestAdoptLeavesWhatWasSet(t *testing.T) {
	r := newRig(t, 1)
	r.rule(0, model.SLA{Limit: gbit(2)})
	r.follow()
	r.tick()
	r.c.Adopt(r.now, []model.Limit{{LimitKey: key(0, model.PathVirtio, model.Tx), Contract: gbit(5)}}) // read before that
	if b := r.tick(); len(b) > 0 {
		t.Errorf("what stands is applied again: %+v", b)
	}
}

// A Limit that was not answered yet may be in force, so it is lifted at the end of the run.
func TestLiftOfWhatIsBeingApplied(t *testing.T) {
	r := newRig(t, 1)
	r.rule(0, model.SLA{Limit: gbit(2)})
	r.follow()
	r.silent(1)
	if b := r.c.Lift(true); len(b) != 1 || b[0].LimitKey != key(0, model.PathVirtio, model.Tx) || !b[0].Lifts() {
		t.Errorf("lifts %+v", b)
	}
}

// The placement policy's limit for a VF applies to the NIC only on a VF.
func TestTierCountsOnTheVFAlone(t *testing.T) {
	for _, onVF := range []bool{false, true} {
		r := newRig(t, 2)
		r.rule(1, model.SLA{Guarantee: gbit(1)})
		r.world.Tiers = []model.Limit{{LimitKey: key(0, model.PathVF, model.Tx), Rate: gbit(3)}}
		want := uint64(0)
		if onVF {
			r.plug(0, 0)
			want = 3e9
		}
		r.follow()
		r.tick()
		if got := r.c.link("pf0").alloc.(*tenth).senders[0].SLA.Limit.Bits; got != want {
			t.Errorf("on a VF: %v: the Allocator sees a limit of %d, want %d", onVF, got, want)
		}
	}
}

// However much of the host's packets/s the VMs behind one PF send, those behind another get an equal share.
func TestEachLinkHasItsPartOfTheHostsPackets(t *testing.T) {
	r := newRig(t, 2)
	if err := r.c.SetOptions(Options{Mode: model.ModeEnforce, Allocator: "tenth", Period: period, Packets: 100_000}); err != nil {
		t.Fatal(err)
	}
	s := r.world.Snapshot
	s.PFs = append(s.PFs, model.PF{Name: "pf1", Network: "br1", LinkUp: true, Speed: 10e9})
	r.vm(1).NICs[0].Network = "br1"
	r.rule(0, model.SLA{Guarantee: gbit(1)})
	r.rule(1, model.SLA{Guarantee: gbit(1)})
	r.follow()
	for _, test := range []struct{ others, want float64 }{{20_000, 80_000}, {90_000, 50_000}} {
		r.rates[nicOf(1)] = [2]model.Rate{{Bits: uint64(test.others * 1000), Packets: uint64(test.others)}}
		r.run(time.Second)
		if got := r.c.link("pf0").alloc.(*tenth).link.Packets; math.Abs(got-test.want) > 1000 {
			t.Errorf("of 100,000 packets/s, of which those behind pf1 send %.0f, %.0f are for those behind pf0, want %.0f", test.others, got,
				test.want)
		}
	}
}

// A guarantee in bits/s holds for packets of 512 bytes and more: flooding the host with smaller ones gains none.
func TestGuaranteeInBitsCountsForLargePackets(t *testing.T) {
	const small, flood = 8 * (64 + wireBytes), 1e6
	h := newHost(40 * unit)
	h.link.Packets = 100e3
	h.add(200e6/unit, 0, 1, nil) // 49 kpps of 512 bytes, 284 kpps of 64
	h.add(0, 0, 1, func(s *model.SLA) { s.Guarantee.Packets = 1000 })
	for range 50 {
		h.now = h.now.Add(h.link.Period)
		for i := range h.senders {
			p := min(flood, h.out[i].Packets)
			h.senders[i].Packets, h.senders[i].Bits, h.senders[i].Known = p, p*small, true
		}
		h.w.Allocate(h.now, h.link, h.senders, h.out)
	}
	if got := h.out[0].Packets; got < 49e3 || got > 80e3 {
		t.Errorf("with a guarantee of 200 Mbit/s a flood of small packets may send %.0f of 100,000 packets/s, want those of 512 bytes and "+
			"its part of the rest", got)
	}
}
