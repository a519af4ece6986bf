package sim

// MaxMin shares an amount max-min fairly, round by round. It is simple because other implementations are checked against it.
type MaxMin struct{ done []bool }

// Share gives each at most its want, in proportion to its weight, until nothing is left or nobody wants more.
func (m *MaxMin) Share(amount float64, want, weight, out []float64) {
	m.done = append(m.done[:0], make([]bool, len(want))...)
	clear(out)
	for {
		sum := 0.0
		for i := range want {
			if !m.done[i] {
				sum += weight[i]
			}
		}
		if sum == 0 {
			return
		}
		level, full := amount/sum, false
		for i := range want {
			if !m.done[i] && want[i] <= level*weight[i] {
				out[i], m.done[i], full = want[i], true, true
				amount -= want[i]
			}
		}
		if full {
			continue
		}
		for i := range want {
			if !m.done[i] {
				out[i] = max(0, level*weight[i])
			}
		}
		return
	}
}
