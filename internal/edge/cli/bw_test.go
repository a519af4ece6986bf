package cli

import (
	"testing"

	"sluice/api/v1"
)

// A link of which a part cannot be shared out carries that part all the same.
func TestLinkTextHasAllThatItCarries(t *testing.T) {
	l := api.Link{PF: "pf2", Sent: 10e9, Capacity: 7.34e9, Carries: api.Capacity{Bits: 10e9, Why: "10Gbit, its driver's speed"}}
	if have, want := linkText(l), "pf2: sends 10Gbit of 10Gbit, nothing guaranteed; capacity 10Gbit, its driver's speed"; have != want {
		t.Errorf("%q, want %q", have, want)
	}
}
