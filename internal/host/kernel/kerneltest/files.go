package kerneltest

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
)

// Files is a pseudo-file system in memory: path to content, or to "-> target" for a link. After, if set, runs after each
// operation, to simulate concurrent changes; OnWrite, if set, is the kernel's reaction to a write.
type Files struct {
	Content map[string]string
	After   func(op, path string)
	OnWrite func(path, data string) error
	Writes  []string
}

// ParseTree parses lines "path = content" and "path -> target"; the path of an empty directory ends with "/".
func ParseTree(text string) *Files {
	m := &Files{Content: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch name, value, isFile := strings.Cut(line, " = "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case isFile:
			m.Content["/"+name] = value
		case strings.Contains(line, " -> "):
			name, target, _ := strings.Cut(line, " -> ")
			m.Content["/"+name] = "-> " + target
		default:
			m.Content["/"+strings.TrimSuffix(line, "/")+"/."] = ""
		}
	}
	return m
}

// Tree returns a tree rooted at the files.
func (m *Files) Tree() sysif.Tree { return sysif.Tree{Root: "/", FS: m} }

func (m *Files) done(op, path string) {
	if m.After != nil {
		m.After(op, path)
	}
}

func notExist(op, path string) error { return &fs.PathError{Op: op, Path: path, Err: unix.ENOENT} }

// ReadFile implements sysif.Files. The content "!EINVAL" means that error, which drivers return.
func (m *Files) ReadFile(path string) ([]byte, error) {
	defer m.done("read", path)
	v, ok := m.Content[path]
	switch {
	case !ok || strings.HasPrefix(v, "-> "):
		return nil, notExist("read", path)
	case v == "!EINVAL":
		return nil, unix.EINVAL
	}
	return []byte(v + "\n"), nil
}

// Readlink implements sysif.Files.
func (m *Files) Readlink(path string) (string, error) {
	defer m.done("readlink", path)
	if to, ok := strings.CutPrefix(m.Content[path], "-> "); ok {
		return to, nil
	}
	if names, _ := m.names(path); len(names) > 0 || m.Content[path] != "" {
		return "", unix.EINVAL
	}
	return "", notExist("readlink", path)
}

// ReadDir implements sysif.Files.
func (m *Files) ReadDir(path string) ([]string, error) {
	defer m.done("readdir", path)
	names, ok := m.names(path)
	if !ok {
		return nil, notExist("open", path)
	}
	return names, nil
}

func (m *Files) names(dir string) (names []string, ok bool) {
	for p := range m.Content {
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

// WriteFile implements sysif.Files.
func (m *Files) WriteFile(path string, data []byte) error {
	defer m.done("write", path)
	if _, ok := m.Content[path]; !ok {
		return notExist("write", path)
	}
	m.Writes = append(m.Writes, fmt.Sprintf("%s %q", path, data))
	if m.OnWrite != nil {
		return m.OnWrite(path, string(data))
	}
	return nil
}

// Remove removes a file, or a directory with its content.
func (m *Files) Remove(dir string) {
	for p := range m.Content {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			delete(m.Content, p)
		}
	}
}
