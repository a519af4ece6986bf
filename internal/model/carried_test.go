package model

import "testing"

// A link that is down carries nothing, and no link carries more than its driver's speed.
func TestCarried(t *testing.T) {
	v := &View{Snapshot: &Snapshot{PFs: []PF{{Name: "up", LinkUp: true}, {Name: "down"}}}}
	for name, c := range map[string]struct {
		link LinkState
		want float64
	}{
		"up":            {LinkState{PF: "up", Speed: 40e9, Carried: 27.5e9}, 27.5e9},
		"down":          {LinkState{PF: "down", Speed: 40e9, Carried: 27.5e9}, 0},
		"too much":      {LinkState{PF: "up", Speed: 40e9, Carried: 44.9e9}, 40e9},
		"configured":    {LinkState{PF: "up", Speed: 9e9, Carries: Capacity{Bits: 9e9, Speed: 10e9}, Carried: 9.5e9}, 9.5e9},
		"unknown":       {LinkState{PF: "gone", Carried: 1e9}, 1e9},
		"unknown speed": {LinkState{PF: "up", Carried: 44.9e9}, 44.9e9},
	} {
		if got := v.Carried(&c.link); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
	if got := (&View{}).Carried(&LinkState{Carried: 1}); got != 1 {
		t.Errorf("before the first Snapshot: %g", got)
	}
}
