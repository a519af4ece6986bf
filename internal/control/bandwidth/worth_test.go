package bandwidth

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// The value of a packet for placement changes no share of a link: limits are bit-identical, while a weight would change them.
func TestWorthChangesNoShare(t *testing.T) {
	limits := func(change func(*model.Rules)) map[model.LimitKey]model.Limit {
		r := newRig(t, 3)
		r.useAllocator("waterfill")
		r.rule(0, model.SLA{Guarantee: gbit(2), Class: "gold"})
		r.rule(1, model.SLA{Limit: gbit(8)})
		r.rule(2, model.SLA{Limit: gbit(9)})
		r.world.Rules.Classes = []model.Class{{Name: "gold"}}
		change(&r.world.Rules)
		r.plug(1, 0)
		r.send(nicOf(0), model.PathVirtio, 1e9)
		r.send(nicOf(1), model.PathVF, 6e9)
		r.send(nicOf(2), model.PathVirtio, 3e9)
		r.follow()
		r.run(5 * time.Second)
		return r.stand
	}
	plain := limits(func(*model.Rules) {})
	worth := limits(func(r *model.Rules) {
		r.VMs[1].Sensitivity, r.VMs[2].Sensitivity, r.Classes[0].Sensitivity = model.SensitivityHigh, model.SensitivityLow, model.SensitivityHigh
		r.Worth = model.Worth{Latency: 10, CPU: true, Cost: model.PacketCost{Packet: 1000, Kilobyte: 500}}
	})
	if d := cmp.Diff(plain, worth); d != "" || len(plain) < 3 {
		t.Errorf("%d limits, and by worth\n%s", len(plain), d)
	}
	weight := limits(func(r *model.Rules) { r.VMs[1].SLA.Weight, r.VMs[2].SLA.Weight = 10, 0.1 })
	if cmp.Equal(plain, weight) {
		t.Error("a weight changes nothing either, so this proves nothing")
	}
}
