// Package version reports what a program was built from.
package version

import "runtime/debug"

// Or returns the version set by the linker, else the module's version, else the commit.
func Or(linked string) string {
	info, ok := debug.ReadBuildInfo()
	if linked != "" || !ok {
		return linked
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	text, dirty := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text = "devel-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return text + dirty
}
