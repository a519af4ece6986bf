package scenario

import (
	"cmp"
	"math"
	"slices"
)

// sharer is a VM in the ideal share of a link.
type sharer struct {
	want, size float64 // bits/s on the wire, and bits of a packet
	guarantee  float64
	most       float64 // its SLA's limit; +Inf: none
	weight     float64
	priority   int
	virtio     bool

	promised, share float64 // bits/s: what it is to have of its guarantee, and in all
}

// ideal shares a link, and the packets/s that the host carries on virtio, as somebody would who knows what
// everybody wants: guarantees first, by class where they are too much, then the rest by weight, max-min.
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

// divide sets share of what there is, of which a sharer takes 1/unit for each bit, and lowers promised
// to what of it can be kept.
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

// level shares a capacity in proportion to weights, nobody above its cap: it looks for the level at
// which all of it is taken.
func level(list []*sharer, capacity float64, of func(*sharer) (weight, most float64)) []float64 {
	out, sum, high := make([]float64, len(list)), 0.0, 0.0
	for _, s := range list {
		w, most := of(s)
		if most > 0 && w > 0 {
			sum, high = sum+most, max(high, most/w)
		}
	}
	low := 0.0
	if sum <= capacity {
		low = high
	}
	taken := func(at float64) (t float64) {
		for i, s := range list {
			w, most := of(s)
			out[i] = max(0, min(most, w*at))
			t += out[i]
		}
		return t
	}
	for range 60 {
		mid := (low + high) / 2
		if taken(mid) > capacity {
			high = mid
		} else {
			low = mid
		}
		if high-low <= 1e-9*math.Abs(high) {
			break
		}
	}
	taken(low)
	return out
}
