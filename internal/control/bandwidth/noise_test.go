package bandwidth

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// TestNoiseIsNotSetAside: for an application below its guarantee whose readings fluctuate by 3 % from period to period, the mean is
// reserved and not each peak: queues absorb the excess of single periods. Seen on real TCP, where writes of 16 KB make as much of
// periods of 40 ms, and 4 % of the link lay idle.
func TestNoiseIsNotSetAside(t *testing.T) {
	const link, sends = 100e6, 46e6
	w := &waterfill{}
	senders := []Sender{
		{ID: model.NICID{VM: "a"}, SLA: model.SLA{Guarantee: model.Rate{Bits: link / 2}}, Known: true},
		{ID: model.NICID{VM: "b"}, Known: true},
	}
	out := []Allowance{Unlimited, Unlimited}
	now := time.Unix(1e9, 0)
	sum, ticks := 0.0, 0
	for i := range 700 { // the first seconds have trials: it sends less than it is guaranteed
		senders[0].Bits = sends * []float64{1.03, .97, 1.03, .99, .98}[i%5]
		senders[1].Bits = min(out[1].Bits, link-senders[0].Bits)
		now = now.Add(40 * time.Millisecond)
		w.Allocate(now, Link{Speed: link, Packets: Unlimited.Packets, Period: 40 * time.Millisecond}, senders, out)
		if i >= 200 {
			sum += out[1].Bits
			ticks++
		}
	}
	if left := sum / float64(ticks); left < .98*link-sends {
		t.Errorf("the other may send %.1f Mbit/s beside %.0f, want no more than 2 %% of the link idle", left/1e6, sends/1e6)
	}
}
