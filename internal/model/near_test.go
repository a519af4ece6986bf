package model

import (
	"slices"
	"testing"
)

func TestNear(t *testing.T) {
	known := []string{"web-00", "db-01", "db-00", "db-00", "cache"}
	for word, want := range map[string][]string{"db-0": {"db-00", "db-01"}, "CACHE": {"cache"}, "nobody": nil} {
		if have := Near(word, known, 3); !slices.Equal(have, want) {
			t.Errorf("%s: have %q, want %q", word, have, want)
		}
	}
	if have := Near("db-0", known, 1); !slices.Equal(have, []string{"db-00"}) {
		t.Errorf("at most one: %q", have)
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"parllel", "parallel", 1}} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
