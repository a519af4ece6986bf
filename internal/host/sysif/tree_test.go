package sysif

import (
	"os"
	"testing"
)

func TestRealTree(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/n", []byte("0x10\n"), 0o600))
	must(t, os.WriteFile(dir+"/junk", []byte("many\n"), 0o600))
	must(t, os.Symlink("../../a/0000:01:00.0", dir+"/dev"))
	sys := NewTree(dir, "/sys")
	for name, want := range map[string]int{"n": 16, "junk": -7, "none": -7} {
		if got := sys.Number(name, -7); got != want {
			t.Errorf("number in %s: %d, want %d", name, got, want)
		}
	}
	if got := sys.Target("dev"); got != "0000:01:00.0" {
		t.Errorf("target of a link: %q", got)
	}
	if !sys.Exists("n") || !sys.Exists("dev") || !sys.Exists(".") || sys.Exists("none") {
		t.Error("exists is wrong about a file, a dangling link, a directory or nothing")
	}
	if got := sys.List("."); len(got) != 3 {
		t.Errorf("names in the directory: %q", got)
	}
	must(t, sys.Write("n", "7"))
	if got, err := sys.Text("n"); err != nil || got[0] != '7' {
		t.Errorf("after writing: %q, %v", got, err)
	}
	if err := sys.Write("none", "7"); err == nil || sys.Exists("none") {
		t.Error("a write made a file")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
