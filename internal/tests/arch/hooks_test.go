package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// No program sets rtnl.Driver, by which tests stand between Sluice and the kernel.
func TestOnlyTestsStandForADriver(t *testing.T) {
	sets, inside := regexp.MustCompile(`rtnl\.Driver\s*=[^=]`), regexp.MustCompile(`\bDriver\s*=[^=]`)
	read := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		own := filepath.Base(filepath.Dir(path)) == "rtnl"
		if own || strings.Contains(string(text), `"sluice/internal/base/rtnl"`) {
			read++
		}
		if sets.Match(text) || own && inside.Match(text) {
			t.Errorf("%s sets rtnl.Driver", path)
		}
		return err
	})
	if err != nil || read < 10 {
		t.Errorf("%d files use rtnl, %v", read, err)
	}
}
