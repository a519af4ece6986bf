package bandwidth

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/model"
)

// pessimist is an Allocator that takes the link to carry less than its speed.
type pessimist struct {
	tenth
	part float64 // of the speed
}

func (p *pessimist) Capacity() float64 { return p.part * p.link.Speed }

// What a link is taken to carry names its source; the allocator's estimate replaces it only where it is lower. What a sender that cannot be
// limited takes is no estimate.
func TestCarries(t *testing.T) {
	t.Cleanup(func() { delete(kinds, "pessimist") })
	measured := model.Capacity{Bits: 9.4e9, Speed: 10e9, Source: model.CapacityQualified, Detail: "untagged"}
	for _, c := range []struct {
		name         string
		part         float64
		uncontrolled bool
		want         model.CapacitySource
		bits         uint64
	}{
		{"not observed", 0, false, model.CapacityQualified, 9.4e9},
		{"as measured", 1, false, model.CapacityQualified, 9.4e9},
		{"less", 0.9, false, model.CapacityInferred, 0.9 * 9.4e9},
		{"as measured, a part of it uncontrolled", 1, true, model.CapacityQualified, 9.4e9},
		{"less, a part of it uncontrolled", 0.9, true, model.CapacityInferred, 3e9 + 0.9*6.4e9},
	} {
		r := newRig(t, 2)
		kinds["pessimist"] = kind{model.AllocatorInfo{Bits: true}, func() Allocator { return &pessimist{part: c.part} }}
		r.c, _ = NewCore(Options{Mode: model.ModeEnforce, Allocator: "pessimist", Period: period})
		r.world.Snapshot.PFs[0].Carry(9.4e9, model.CapacityQualified, "untagged")
		r.rule(0, model.SLA{Guarantee: gbit(1)})
		r.follow()
		if c.uncontrolled {
			r.send(nicOf(1), model.PathVirtio, 3e9)
			r.fail = func(l model.Limit) error {
				if l.VM == vm(1) {
					return errors.New("no such tap")
				}
				return nil
			}
		}
		r.run(5 * time.Second)
		l := &r.c.View().Links[0]
		if l.Speed != 9.4e9 || l.Carries.Source != c.want || l.Carries.Speed != 10e9 ||
			c.want == model.CapacityQualified && l.Carries != measured {
			t.Errorf("%s: speed %d, carries %v", c.name, l.Speed, l.Carries)
		}
		if d := float64(l.Carries.Bits) - float64(c.bits); d < -0.02*9.4e9 || d > 0.02*9.4e9 {
			t.Errorf("%s: carries %v, want %d", c.name, l.Carries, c.bits)
		}
	}
}
