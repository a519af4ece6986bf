package sim

import (
	"cmp"
	"slices"
)

// scratch shares a capacity among senders in proportion to their weights, each up to its cap.
type scratch struct {
	index            []int
	weight, cap, got []float64
	order            []int
}

func (s *scratch) reset() *scratch {
	s.index, s.weight, s.cap, s.got, s.order = s.index[:0], s.weight[:0], s.cap[:0], s.got[:0], s.order[:0]
	return s
}

func (s *scratch) add(index int, weight, most float64) {
	s.order = append(s.order, len(s.index))
	s.index, s.weight, s.cap, s.got = append(s.index, index), append(s.weight, weight), append(s.cap, most), append(s.got, 0)
}

// share serves those first that need least for their weight; what they leave the rest have.
func (s *scratch) share(capacity float64) {
	sum, all := 0.0, 0.0
	for i, w := range s.weight {
		sum, all = sum+w, all+s.cap[i]
	}
	if all <= capacity {
		copy(s.got, s.cap)
		return
	}
	slices.SortFunc(s.order, func(a, b int) int { return cmp.Compare(s.cap[a]*s.weight[b], s.cap[b]*s.weight[a]) })
	for _, i := range s.order {
		if s.weight[i] > 0 {
			s.got[i] = min(s.cap[i], max(0, capacity)*s.weight[i]/sum)
		}
		capacity, sum = capacity-s.got[i], sum-s.weight[i]
	}
}
