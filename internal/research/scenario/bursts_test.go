package scenario_test

import "testing"

// adaptive learns the true lengths of bursts, and gains more from them than a policy that does not learn.
func TestBursts(t *testing.T) {
	r := runFile(t, "bursts.yaml")
	a, other := outcome(t, r, "adaptive"), outcome(t, r, "rentbuy")
	if a.Net < other.Net+8 {
		t.Errorf("adaptive has %.1f %% net, rent-or-buy %.1f: want 8 more", a.Net, other.Net)
	}
	learned := a.Phases[len(a.Phases)-1].Learned
	if len(learned) != 2 {
		t.Fatalf("learned %+v, want the bursts of two groups", learned)
	}
	for _, l := range learned {
		want := map[string][2]float64{"cycle": {48, 110}, "short": {7, 30}}[l.Group]
		if l.Known != 4 || l.Burst < 0.8*want[0] || l.Burst > 1.25*want[0] || l.Between < 0.8*want[1] || l.Between > 1.25*want[1] {
			t.Errorf("of %s it learned %+v, want bursts of %v s, %v s apart", l.Group, l, want[0], want[1])
		}
	}
}
