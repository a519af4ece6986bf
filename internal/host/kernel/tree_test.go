package kernel

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// memFiles is a pseudo-file system in memory: path to content, or to "-> target" for a
// link. after, if set, runs after each operation, as a kernel that changes things
// meanwhile; onWrite, if set, is the kernel's reaction to a write.
type memFiles struct {
	files   map[string]string
	after   func(op, path string)
	onWrite func(path, data string) error
	writes  []string
}

// parseTree reads lines "path = content" and "path -> target"; a path that is a directory
// without content ends with "/".
func parseTree(text string) *memFiles {
	m := &memFiles{files: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch name, value, isFile := strings.Cut(line, " = "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case isFile:
			m.files["/"+name] = value
		case strings.Contains(line, " -> "):
			name, target, _ := strings.Cut(line, " -> ")
			m.files["/"+name] = "-> " + target
		default:
			m.files["/"+strings.TrimSuffix(line, "/")+"/."] = ""
		}
	}
	return m
}

func (m *memFiles) tree() tree { return tree{root: "/", fs: m} }

func (m *memFiles) done(op, path string) {
	if m.after != nil {
		m.after(op, path)
	}
}

func notExist(op, path string) error { return &fs.PathError{Op: op, Path: path, Err: unix.ENOENT} }

// ReadFile implements files. "!EINVAL" as content is an error, as drivers give.
func (m *memFiles) ReadFile(path string) ([]byte, error) {
	defer m.done("read", path)
	v, ok := m.files[path]
	switch {
	case !ok || strings.HasPrefix(v, "-> "):
		return nil, notExist("read", path)
	case v == "!EINVAL":
		return nil, unix.EINVAL
	}
	return []byte(v + "\n"), nil
}

// Readlink implements files.
func (m *memFiles) Readlink(path string) (string, error) {
	defer m.done("readlink", path)
	if to, ok := strings.CutPrefix(m.files[path], "-> "); ok {
		return to, nil
	}
	if names, _ := m.names(path); len(names) > 0 || m.files[path] != "" {
		return "", unix.EINVAL
	}
	return "", notExist("readlink", path)
}

// ReadDir implements files.
func (m *memFiles) ReadDir(path string) ([]string, error) {
	defer m.done("readdir", path)
	names, ok := m.names(path)
	if !ok {
		return nil, notExist("open", path)
	}
	return names, nil
}

func (m *memFiles) names(dir string) (names []string, ok bool) {
	for p := range m.files {
		if rest, under := strings.CutPrefix(p, dir+"/"); under {
			ok = true
			if name, _, _ := strings.Cut(rest, "/"); name != "." {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), ok
}

// WriteFile implements files.
func (m *memFiles) WriteFile(path string, data []byte) error {
	defer m.done("write", path)
	if _, ok := m.files[path]; !ok {
		return notExist("write", path)
	}
	m.writes = append(m.writes, fmt.Sprintf("%s %q", path, data))
	if m.onWrite != nil {
		return m.onWrite(path, string(data))
	}
	return nil
}

func (m *memFiles) remove(dir string) {
	for p := range m.files {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			delete(m.files, p)
		}
	}
}

// testdata is in the binary, so that it can be copied to another host and run there.
//
//go:embed testdata
var testdata embed.FS

// golden compares with a file in testdata; with SLUICE_UPDATE=1 it writes that for the
// next run.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("SLUICE_UPDATE") != "" {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := testdata.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("differs from %s:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestRealTree(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/n", []byte("0x10\n"), 0o600))
	must(t, os.WriteFile(dir+"/junk", []byte("many\n"), 0o600))
	must(t, os.Symlink("../../a/0000:01:00.0", dir+"/dev"))
	sys := newTree(dir, "/sys")
	for name, want := range map[string]int{"n": 16, "junk": -7, "none": -7} {
		if got := sys.number(name, -7); got != want {
			t.Errorf("number in %s: %d, want %d", name, got, want)
		}
	}
	if got := sys.target("dev"); got != "0000:01:00.0" {
		t.Errorf("target of a link: %q", got)
	}
	if !sys.exists("n") || !sys.exists("dev") || !sys.exists(".") || sys.exists("none") {
		t.Error("exists is wrong about a file, a dangling link, a directory or nothing")
	}
	if got := sys.list("."); len(got) != 3 {
		t.Errorf("names in the directory: %q", got)
	}
	must(t, sys.write("n", "7"))
	if got, err := sys.text("n"); err != nil || got[0] != '7' {
		t.Errorf("after writing: %q, %v", got, err)
	}
	if err := sys.write("none", "7"); err == nil || sys.exists("none") {
		t.Error("a write made a file")
	}
}
