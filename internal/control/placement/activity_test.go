package placement

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// TestActivityForgetsTheSilent checks that a holder whose agent died keeps its VF for a minute and a round or two, not forever, and
// regains its old rank once it is counted again.
func TestActivityForgetsTheSilent(t *testing.T) {
	b := newBench(t, model.Rules{Policy: "activity", Interval: 10 * time.Second}, 2)
	load := pps(9000, 5000)
	b.run(20, 1, load)
	b.want("VM1")
	b.cands[0].Known = false
	b.run(60, 1, load)
	b.want("VM1")
	b.run(20, 1, load)
	b.want("VM2")
	b.cands[0].Known = true
	b.run(20, 1, load)
	b.want("VM1")
}
