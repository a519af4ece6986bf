package scenario

import "testing"

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{100, 3, 2}, 3}, {[]float64{8, 100, 2, 6}, 7}} {
		if got := median(c.list); got != c.want {
			t.Errorf("of %v: %v, want %v", c.list, got, c.want)
		}
	}
}
