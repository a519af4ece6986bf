package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func chosen(t *testing.T, f listFlags, g grid) (names []string) {
	t.Helper()
	choose, err := f.chooser(g.head)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range choose(g) {
		names = append(names, g.rows[i][0])
	}
	return names
}

func TestChooser(t *testing.T) {
	g := grid{head: []string{"VM", "PATH", "RATE"}, rows: [][]string{
		{"a1", "pf0/1", "900"}, {"b", "virtio", "1.5k"}, {"a2", "pf1/0", "?"}, {"c", "virtio", "2Gbit 5kpps"}, {"d", "", "80k (x)"},
	}}
	for _, c := range []struct {
		f    listFlags
		want string
	}{
		{listFlags{}, "a1 b a2 c d"},
		{listFlags{filter: []string{"vm=a*"}}, "a1 a2"},
		{listFlags{filter: []string{"path=pf*", "VM!=A2"}}, "a1"},
		{listFlags{filter: []string{"path=-"}}, "d"},
		{listFlags{filter: []string{"rate=?"}}, "a2"},
		{listFlags{filter: []string{"vm=[a"}}, ""},
		{listFlags{sort: "rate"}, "c d b a1 a2"},
		{listFlags{sort: "-rate"}, "a2 a1 b d c"},
		{listFlags{sort: "path"}, "d a1 a2 b c"},
	} {
		if got := strings.Join(chosen(t, c.f, g), " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
	for _, f := range []listFlags{{sort: "x"}, {filter: []string{"x=1"}}, {filter: []string{"vm"}}} {
		if _, err := f.chooser(g.head); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

// A grid is drawn in the columns there are, whatever stands in it, as far as columns can be left out; nothing that fits is left out.
func TestGridFits(t *testing.T) {
	cell := rapid.StringMatching(`[a-zé]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		g := grid{head: []string{"VM", "PATH", "RATE", "REASON"}, drop: []string{"RATE", "PATH"}}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			g.rows = append(g.rows, rapid.SliceOfN(cell, len(g.head), len(g.head)).Draw(t, "row"))
		}
		most := rapid.IntRange(1, 60).Draw(t, "most")
		drawn := func(g grid) (wide int) {
			var b strings.Builder
			table(&b, strings.Join(g.head, " "), g.rows)
			for line := range strings.Lines(b.String()) {
				wide = max(wide, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
			}
			return wide
		}
		got := g.fit(most)
		if n := drawn(got); n != got.width() || n > most && len(got.drop) > 0 {
			t.Errorf("%d columns, taken for %d, of %d: %v", n, got.width(), most, got.head)
		}
		if len(got.head) < len(g.head) {
			more := g.without(slices.Concat(g.drop[:len(g.head)-len(got.head)-1])...)
			if drawn(more) <= most {
				t.Errorf("%v fits %d, but %v is drawn", more.head, most, got.head)
			}
		}
	})
}
