package config

import (
	"testing"

	"sluice/internal/model"

	"github.com/google/go-cmp/cmp"
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
		want := Rate{Bits: rapid.Uint64Range(0, model.MaxRate).Draw(t, "bits"), Packets: rapid.Uint64Range(0, model.MaxRate).Draw(t, "packets")}
		if want.IsZero() {
			return
		}
		if got, err := ParseRate(want.String()); err != nil || got != want {
			t.Fatalf("%q reads as %+v, %v", want, got, err)
		}
	})
}

func TestVFSet(t *testing.T) {
	s, err := ParseVFSet("0-3, 6,8-8")
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != "0-3,6,8" {
		t.Errorf("prints %q", s)
	}
	if diff := cmp.Diff(VFSet{Ranges: []VFRange{{0, 3}, {6, 6}, {8, 8}}}, s); diff != "" {
		t.Error(diff)
	}
	all, err := ParseVFSet("all")
	if err != nil || !all.All || all.String() != "all" {
		t.Errorf("all: %+v, %v", all, err)
	}
	for _, bad := range []string{"", ",", "-", "1-", "-1", "3-1", "1,1", "0-5,5", "65535", "a", "1-2-3", "ALL"} {
		if s, err := ParseVFSet(bad); err == nil {
			t.Errorf("%q passes as %+v", bad, s)
		}
	}
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

func FuzzParseVFSet(f *testing.F) {
	f.Add("0-3,6")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVFSet(s)
		if err != nil {
			return
		}
		if again, err := ParseVFSet(v.String()); err != nil || again.String() != v.String() {
			t.Errorf("%q prints as %q, which reads as %q (%v)", s, v, again, err)
		}
	})
}
