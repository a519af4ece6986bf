package placement

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/model"
)

func lots(t *testing.T, policy string, seed float64, vms, slots int) []bool {
	t.Helper()
	p, err := NewPolicy(model.Rules{Policy: policy, Params: model.Params{"seed": seed}})
	if err != nil {
		t.Fatal(err)
	}
	cands := make([]Candidate, vms)
	for i := range cands {
		cands[i] = Candidate{VM: model.VMID(fmt.Sprintf("%04d", i)), PPS: 1000, Known: true, Weight: 1}
	}
	out := make([]model.Reason, vms)
	p.Select(time.Unix(0, 0), cands, slots, out)
	hold := make([]bool, vms)
	for i, r := range out {
		hold[i] = r.Hold
	}
	return hold
}

func TestNoneGivesNobodyAVF(t *testing.T) {
	for _, h := range lots(t, "none", 0, 10, 4) {
		if h {
			t.Fatal("somebody got one")
		}
	}
}

// Every VM must be drawn as often as its share says, whichever other VMs exist.
func TestRandomDrawsEvenly(t *testing.T) {
	const vms, slots, draws = 20, 5, 4000
	won := make([]int, vms)
	for seed := range draws {
		n := 0
		for i, h := range lots(t, "random", float64(seed), vms, slots) {
			if h {
				won[i]++
				n++
			}
		}
		if n != slots {
			t.Fatalf("%d of %d VFs given out", n, slots)
		}
	}
	for i, n := range won {
		if mean := draws * slots / vms; n < mean*85/100 || n > mean*115/100 {
			t.Errorf("VM %d won %d times, want about %d", i, n, mean)
		}
	}
}
