package placement

import "testing"

// lower counts how often a VM of lower priority takes the VF of one of higher priority, if the first VMs have priority, and for how
// many seconds the learned style leads.
func lower(t *testing.T, vms, first, slots, seconds int, load func(second, i int) float64) (taken, learns int) {
	b := adaptiveBench(t, vms, nil)
	for i := range first {
		b.cands[i].Priority = 1
	}
	held := make([]bool, vms)
	for s := range seconds {
		b.run(1, slots, func(_, i int, c *Candidate) { c.PPS = load(s, i) })
		lost, got := -1, 2
		for i, c := range b.cands {
			switch {
			case held[i] && !c.Holds:
				lost = max(lost, c.Priority)
			case !held[i] && c.Holds:
				got = min(got, c.Priority)
			}
			held[i] = c.Holds
		}
		if lost > got {
			taken++
		}
		if b.p.(*adaptive).Leader == learned {
			learns++
		}
	}
	return taken, learns
}

// TestPriorityOutlastsBursts: a VM of higher priority whose burst does not end keeps its VF, however much more others would send.
func TestPriorityOutlastsBursts(t *testing.T) {
	taken, learns := lower(t, 10, 1, 3, 25000, func(s, i int) float64 {
		switch {
		case i == 0 && (s > 1000 || s%100 < 50):
			return 60e3
		case i > 0 && (s+17*i)%120 < 50:
			return 600e3
		}
		return 1e3
	})
	if taken > 0 || learns < 20000 {
		t.Errorf("VMs of lower priority took its VF %d times, want never; the learned style led %d s of 25000, want 20000", taken, learns)
	}
}

// TestLearnsBesidePriority: the learned style also leads if all VFs go to VMs of higher priority, and its prices exclude the
// priority.
func TestLearnsBesidePriority(t *testing.T) {
	for _, first := range []int{3, 5, 8} {
		taken, learns := lower(t, 20, first, 4, 5000, func(s, i int) float64 {
			switch {
			case i >= 16:
				return 50e3 + 100*float64(i)
			case (s+17*i)%(120+7*i) < 50:
				return 300e3
			}
			return 1e3
		})
		if taken > 0 || learns < 3000 {
			t.Errorf("%d with priority for 4 VFs: others took one %d times, want never; the learned style led %d s of 5000, want 3000", first, taken,
				learns)
		}
	}
}
