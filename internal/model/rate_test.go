package model

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"10Gbit":          {Bits: 1e10},
		"500mbit":         {Bits: 5e8},
		"1bit":            {Bits: 1},
		"1.5Tbit":         {Bits: 1.5e12},
		"200kpps":         {Packets: 2e5},
		"2Mpps 10Gbit":    {Bits: 1e10, Packets: 2e6},
		" 64kbit  100pps": {Bits: 64000, Packets: 100},
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: have %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", " ", "10", "Gbit", "-1Gbit", "1e3Gbit", "10 Gbit", "1Gbit/s", "1GiB", "0.1bit", "99999999Tbit", "1Xbit",
		"1Gbit 1Gbit", "1,5Gbit",
	} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q passes as %+v", text, r)
		}
	}
}

func TestRatePrintsAsItReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Rate{Bits: rapid.Uint64Range(0, MaxRate).Draw(t, "bits"), Packets: rapid.Uint64Range(0, MaxRate).Draw(t, "packets")}
		if want.IsZero() {
			return
		}
		if got, err := ParseRate(want.String()); err != nil || got != want {
			t.Fatalf("%q reads as %+v, %v", want, got, err)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	f.Add("10Gbit 200kpps")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		again, err := ParseRate(r.String())
		if err != nil || again != r {
			t.Errorf("%q reads as %+v, prints as %q, reads as %+v (%v)", s, r, r, again, err)
		}
	})
}
