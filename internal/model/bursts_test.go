package model

import "testing"

func TestLasting(t *testing.T) {
	for _, c := range []struct {
		s    float64
		want string
	}{
		{0, "0 s"},
		{1, "1 s"},
		{7.26, "7.3 s"},
		{9.97, "10 s"},
		{48.4, "48 s"},
		{59.4, "59 s"},
		{59.6, "1m"},
		{110, "1m50s"},
		{599.4, "9m59s"},
		{605, "10m"},
		{3600, "1h"},
		{4 * 3600, "4h"},
		{7530, "2h6m"},
		{36600, "10h10m"},
	} {
		if got := Lasting(c.s); got != c.want {
			t.Errorf("%v s: %q, want %q", c.s, got, c.want)
		}
	}
}

func TestBurstsInWords(t *testing.T) {
	b := Bursts{High: 48.2, Low: 109.7, Seen: 20}
	if got, want := b.String(), "last 48 s, 1m50s between them; 20 seen"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
