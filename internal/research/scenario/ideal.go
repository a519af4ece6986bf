package scenario

import (
	"cmp"
	"slices"

	"sluice/internal/research/sim"
)

// sharer is a VM in the ideal share of a link.
type sharer struct {
	want, size float64 // bits/s on the wire, and bits of a packet
	guarantee  float64
	most       float64 // its SLA's limit; +Inf: none
	weight     float64
	priority   int
	virtio     bool

	promised, share float64 // bits/s: its guarantee as far as asked for, and its whole share
}

// ideal shares a link and the host's packets/s on virtio with knowledge of all demands: guarantees first, by class if they exceed
// capacity, then the rest max-min fairly by weight.
func ideal(list []*sharer, capacity, packets float64) {
	for _, s := range list {
		s.most = min(s.most, s.want)
		s.promised = min(s.most, s.guarantee)
	}
	if packets > 0 {
		var virtio []*sharer
		for _, s := range list {
			if s.virtio && s.size > 0 {
				virtio = append(virtio, s)
			}
		}
		divide(virtio, packets, func(s *sharer) float64 { return s.size })
		for _, s := range virtio {
			s.most, s.promised = min(s.most, s.share), min(s.promised, s.share)
		}
	}
	divide(list, capacity, func(*sharer) float64 { return 1 })
}

// divide sets each share of a capacity, of which a bit takes 1/unit, and lowers promised to what can be kept.
func divide(list []*sharer, capacity float64, unit func(*sharer) float64) {
	byClass := slices.Clone(list)
	slices.SortStableFunc(byClass, func(a, b *sharer) int { return cmp.Compare(b.priority, a.priority) })
	for len(byClass) > 0 {
		n := 1
		for n < len(byClass) && byClass[n].priority == byClass[0].priority {
			n++
		}
		class := byClass[:n]
		got := level(class, capacity, func(s *sharer) (float64, float64) { return s.guarantee, s.promised / unit(s) })
		for i, s := range class {
			s.promised, s.share = got[i]*unit(s), got[i]*unit(s)
			capacity -= got[i]
		}
		byClass = byClass[n:]
	}
	got := level(list, max(0, capacity), func(s *sharer) (float64, float64) { return s.weight, (s.most - s.share) / unit(s) })
	for i, s := range list {
		s.share += got[i] * unit(s)
	}
}

// level shares a capacity max-min fairly in proportion to weights, each up to its most.
func level(list []*sharer, capacity float64, of func(*sharer) (weight, most float64)) []float64 {
	weight, want, out := make([]float64, len(list)), make([]float64, len(list)), make([]float64, len(list))
	for i, s := range list {
		weight[i], want[i] = of(s)
	}
	var f sim.MaxMin
	f.Share(capacity, want, weight, out)
	return out
}
