package scenario

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFileTimes compares the times with a sum, for each file alone, of what is carried from its start.
func TestFileTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const sample = 5 * time.Second
		rates := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 10, 250}), 40, 120).Draw(t, "bytes per second")
		size := rapid.Float64Range(1, 5000).Draw(t, "size")
		var f files
		var got []float64
		for i, r := range rates {
			got = append(got, f.tick(time.Duration(i)*sample, sample, r, size)...)
		}
		var want []float64
		for start := 0; start < len(rates); start += int(fileEvery / sample) {
			left := size
			for i := start; i < len(rates); i++ {
				if carried := rates[i] * sample.Seconds(); carried < left {
					left -= carried
					continue
				}
				want = append(want, float64(i-start)*sample.Seconds()+left/rates[i])
				break
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d files end, want %d", len(got), len(want))
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6 {
				t.Fatalf("file %d took %v s, want %v", i, got[i], want[i])
			}
		}
	})
}
