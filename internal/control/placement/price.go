package placement

import "slices"

// between sorts scores in descending order and returns the mean of the n-th and the next: the price at which n VFs are taken.
// Without competition it is 0.
func between(scores []float64, n int) float64 {
	slices.Sort(scores)
	slices.Reverse(scores)
	if n >= len(scores) || n <= 0 {
		return 0
	}
	return (scores[n-1] + scores[n]) / 2
}

// median is that of the nonzero scores, which must be in descending order.
func median(scores []float64) float64 {
	n := 0
	for n < len(scores) && scores[n] > 0 {
		n++
	}
	if n == 0 {
		return 0
	}
	return scores[n/2]
}
