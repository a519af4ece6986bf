package bandwidth

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// lyingRig has vm0, which is promised 6 Gbit/s, and vm1 on a VF that the host cannot count, limited only in its guest.
func lyingRig(t *testing.T) *rig {
	r := newRig(t, 3)
	r.named["vf tx"] = "guest-htb"
	r.rule(0, model.SLA{Guarantee: gbit(6)})
	r.plug(1, 0)
	r.left[nicOf(1)] = true
	r.vm(1).NICs[0].VFPath = model.Traffic{Known: true, Proof: model.ProofGuest, TxBytes: 1e6, TxPPS: 1000}
	r.follow()
	r.send(nicOf(0), model.PathVirtio, 6e9)
	r.port = 6.2e9
	r.run(5 * time.Second)
	return r
}

// A guest that reports little traffic, while others lack what they are promised and much more leaves the port than is counted, is
// detected within four seconds. A NIC that itself lacks what it is promised is not suspected.
func TestPortTellsOfAGuestThatLies(t *testing.T) {
	r := lyingRig(t)
	if c := r.c.Contained(); len(c) > 0 {
		t.Fatalf("contained before anything happened: %+v", c)
	}
	r.send(nicOf(0), model.PathVirtio, 4e9)
	r.port = 9.9e9
	r.run(2 * time.Second)
	if c := r.c.Contained(); len(c) > 0 {
		t.Fatalf("contained before its guest could have said it: %+v", c)
	}
	r.run(2 * time.Second)
	c := r.c.Contained()
	if len(c) != 1 || c[0].NIC != nicOf(1) || !strings.Contains(c[0].Why, "pf0") {
		t.Fatalf("contained %+v", c)
	}
	if _, wait := r.c.Plug(nicOf(1)); wait == "" {
		t.Error("it may be given a VF again at once")
	}
	if n := r.c.View().NICs[1]; n.Code != model.BandwidthContained {
		t.Errorf("%+v", n)
	}
	r.now = r.now.Add(containFor)
	r.tick()
	if c := r.c.Contained(); len(c) > 0 {
		t.Errorf("for ever: %+v", c)
	}
}

// A NIC that is promised more than it gets, and whose VF is not counted, is not taken for the one that squeezes the others.
func TestTheShortOneIsNotSuspected(t *testing.T) {
	r := newRig(t, 2)
	r.named["vf tx"] = "guest-htb"
	r.rule(1, model.SLA{Guarantee: gbit(6)})
	r.plug(1, 0)
	r.left[nicOf(1)] = true
	says := func(bits float64) {
		r.vm(1).NICs[0].VFPath = model.Traffic{Known: true, Proof: model.ProofGuest, TxBytes: bits / 8, TxPPS: 1000}
		r.follow()
	}
	says(6e9)
	r.send(nicOf(0), model.PathVirtio, 3e9)
	r.port = 9e9
	r.run(5 * time.Second)
	says(3e9)
	r.port = 9.9e9
	r.run(10 * time.Second)
	if c := r.c.Contained(); len(c) > 0 {
		t.Errorf("%+v", c)
	}
}

// Traffic of the host itself through the PF does not incriminate a VM, nor does a full link if nothing leaves it uncounted.
func TestNobodyIsAccusedOfWhatTheHostSends(t *testing.T) {
	r := lyingRig(t)
	r.port = 8.5e9 // a backup of the host, while all have what they are promised
	r.run(20 * time.Second)
	r.send(nicOf(0), model.PathVirtio, 5e9)
	r.port = 7.5e9
	r.run(5 * time.Second)
	if c := r.c.Contained(); len(c) > 0 {
		t.Errorf("%+v", c)
	}
}

// A VF that the host counts is compared with its limit, except for bursts and recently lowered limits.
func TestVFBeyondItsLimitIsFoundOut(t *testing.T) {
	r := newRig(t, 2)
	r.named["vf tx"] = "guest-htb"
	r.rule(1, model.SLA{Limit: gbit(4)})
	r.plug(1, 0)
	r.follow()
	r.send(nicOf(1), model.PathVF, 4e9)
	r.run(3 * time.Second)
	r.world.Rules.VMs[0].SLA.Limit = gbit(2)
	r.follow()
	r.run(800 * time.Millisecond)
	r.send(nicOf(1), model.PathVF, 2e9)
	r.run(3 * time.Second)
	for range 10 { // bursts
		r.send(nicOf(1), model.PathVF, 3e9)
		r.run(600 * time.Millisecond)
		r.send(nicOf(1), model.PathVF, 1e9)
		r.run(400 * time.Millisecond)
	}
	if c := r.c.Contained(); len(c) > 0 {
		t.Fatalf("%+v", c)
	}
	r.send(nicOf(1), model.PathVF, 3e9)
	r.run(time.Second + period)
	if c := r.c.Contained(); len(c) != 1 || c[0].NIC != nicOf(1) {
		t.Errorf("a second after it lifted its limit: %+v", c)
	}
}
