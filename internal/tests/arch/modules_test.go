package arch

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// ARCHITECTURE.md gives the reason for every direct dependency, and for nothing else.
func TestDependenciesAreExplained(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, table, _ := strings.Cut(read("../../../ARCHITECTURE.md"), "\n## What it is built on\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(line, "/") {
			for name := range strings.SplitSeq(cells[1], ",") {
				named[strings.TrimSpace(name)] = true
			}
		}
	}
	major := regexp.MustCompile(`/v\d+$`)
	for line := range strings.Lines(read("../../../go.mod")) {
		f := strings.Fields(line)
		if len(f) != 2 || !strings.Contains(f[0], "/") {
			continue // an indirect dependency
		}
		name := major.ReplaceAllString(strings.TrimPrefix(f[0], "github.com/"), "")
		if !named[name] {
			t.Errorf("ARCHITECTURE.md does not say what %s is for", f[0])
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("ARCHITECTURE.md gives a reason for %s, which go.mod does not need", name)
	}
}
