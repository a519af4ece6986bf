package config

import (
	"os"
	"strings"
	"testing"
)

// For any file content, loading terminates, and every error names a file and has a text.
func FuzzLoad(f *testing.F) {
	if data, err := os.ReadFile("../../packaging/sluice.yaml"); err == nil {
		f.Add(string(data), "")
	}
	for _, s := range []string{
		"pfs: [{name: a, vfs: '0-3,6'}]", "vms:\n- match: x\n  guarantee: 1Gbit", "a: &a [*a]", "? ? ?", "- - - -",
		"{[{[", "mode: !!binary x", "<<: *a", "'", "\"\\x", "|\n a", "%YAML 1.2\n---\n", "a: b\n---\nc: d", "\xff\xfe", "params: {a: 1e999}",
	} {
		f.Add(s, "mode: observe")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		if len(one)+len(two) > 1<<14 {
			return // the parser is quadratic in places; Load bounds files, and real ones are small
		}
		c, err := parse([]Document{{"one", []byte(one)}, {"two", []byte(two)}}, Known{}, nil)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v with error %v", c, err)
		}
		for _, e := range Errors(err) {
			if e.Pos.File == "" || e.Text == "" {
				t.Errorf("complaint without place or text: %+v", e)
			}
			if strings.Contains(e.Error(), "parser failed") {
				t.Logf("parser panic: %v", e)
			}
		}
		if c != nil {
			c.Rules()
			c.Warnings()
			if c.Sample <= 0 || c.Moves.Parallel <= 0 || c.Interval < c.Sample {
				t.Errorf("accepted values that cannot work: %+v", c)
			}
		}
	})
}
