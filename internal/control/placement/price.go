package placement

import "slices"

// between sorts scores in falling order and returns the mean of the n-th and the next:
// the price at which n VFs change hands. Without competition it is 0.
func between(scores []float64, n int) float64 {
	slices.Sort(scores)
	slices.Reverse(scores)
	if n >= len(scores) || n <= 0 {
		return 0
	}
	return (scores[n-1] + scores[n]) / 2
}

// median is the middle of those that are not zero, of scores in falling order.
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
