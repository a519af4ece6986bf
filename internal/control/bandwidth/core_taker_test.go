package bandwidth

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// foreign gives a VM's first NIC a VF that somebody else attached and its guest uses.
func (r *rig) foreign(i, vf int) {
	r.plug(i, vf)
	r.world.Snapshot.PFs[0].VFs[vf].Owner, r.vm(i).NICs[0].VFOwner = model.OwnerForeign, model.OwnerForeign
}

// Sluice limits no VF that somebody else attached, whatever could limit it.
func TestForeignVFsAreNotLimited(t *testing.T) {
	for _, by := range []string{"max_tx_rate", "guest-htb", ""} {
		r := newRig(t, 2)
		r.named["vf tx"] = by
		r.rule(0, model.SLA{Guarantee: gbit(6)})
		r.foreign(1, 0)
		r.follow()
		r.send(nicOf(1), model.PathVF, 7e9)
		r.run(2 * time.Second)
		if n := r.c.View().NICs[1]; n.Code != model.BandwidthNotEnforced || len(r.stand) == 0 || r.stand[key(1, model.PathVF, model.Tx)].Bits > 0 {
			t.Errorf("%s: %s: %s; in force %+v", by, n.Code, n.Why, r.stand)
		}
	}
}

// shortRig has vm0, which lacks 3 of the 6 Gbit/s that it is promised, beside vm1, whose VF somebody else attached.
func shortRig(t *testing.T) *rig {
	r := newRig(t, 4)
	r.rule(0, model.SLA{Guarantee: gbit(6)})
	r.foreign(1, 0)
	r.follow()
	r.send(nicOf(0), model.PathVirtio, 6e9)
	r.run(time.Second)
	r.send(nicOf(0), model.PathVirtio, 3e9)
	r.send(nicOf(1), model.PathVF, 7e9)
	r.run(time.Second)
	if n := r.c.View().NICs[0]; n.Short < 2.5e9 {
		t.Fatalf("it is short of %d", n.Short)
	}
	return r
}

// Nothing is short where nothing is promised, or whose link is not known.
func TestShortageEndsWithThePromise(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"the rule is removed": func(r *rig) { r.world.Rules = model.Rules{} },
		"its link is unknown": func(r *rig) { r.vm(0).NICs[0].Network = "br9" },
	} {
		r := shortRig(t)
		end(r)
		r.follow()
		r.run(time.Second)
		if n := r.c.View().NICs[0]; n.Short > 0 || n.ShortFor > 0 {
			t.Errorf("%s: promised %s, and short of %d", name, n.Promised, n.Short)
		}
	}
}
