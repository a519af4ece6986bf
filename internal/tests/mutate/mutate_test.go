package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMutants(t *testing.T) {
	src := []byte(`package p

var outside = 1 + 2

func f(a, b int) (c int, ok bool) {
	if a < b && ok {
		c = b
		c += a
	}
	defer f(a, b)
	for {
		c++
		break
	}
	c, _ = f(7, b)
	_ = a
	return c, true
}
`)
	got, err := mutants("p.go", src)
	if err != nil {
		t.Fatal(err)
	}
	var whats []string
	for _, m := range got {
		whats = append(whats, m.What)
		if bytes.Equal(m.apply(src), src) {
			t.Errorf("%s changes nothing", m.What)
		}
	}
	want := []string{
		"if a < b && ok: turned round", "a < b && ok: || for &&", "a < b: <= for <", "c = b: left out",
		"c += a: -= for +=", "c += a: left out", "defer f(a, b): left out", "c++: -- for ++", "c++: left out",
		"break: continue for break", "c, _ = f(7, b): left out", "7: one more", "true: false",
	}
	if !slices.Equal(whats, want) {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(whats, "\n"), strings.Join(want, "\n"))
	}
	if text := string(got[10].apply(src)); !strings.Contains(text, "\t_, _ = f(7, b)\n") {
		t.Error(text)
	}
}

// The tests of this package notice all changes but one.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.21\n",
		"m.go":   "package m\n\nfunc Max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestMax(t *testing.T) {\n\tif Max(1, 2) != 2 || Max(2, 1) != 2 " +
			"{\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	r := runner{dir: dir, out: &out}
	s, err := r.run(t.Context(), ".", []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	if s.all != 2 || s.killed != 1 || len(s.survived) != 1 || s.survived[0].What != "a > b: >= for >" {
		t.Errorf("%+v\n%s", s, out.String())
	}
	if !strings.Contains(out.String(), "survived  m.go:4  a > b: >= for >") || !strings.Contains(out.String(), "score 50.0 %") {
		t.Error(out.String())
	}
}
