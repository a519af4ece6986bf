package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
