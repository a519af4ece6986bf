package kernel

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
)

// tree is a directory of pseudo-files: sysfs or procfs.
type tree struct {
	root string
	fs   files
}

func newTree(root, usual string) tree {
	if root == "" {
		root = usual
	}
	return tree{root: root, fs: osFiles{}}
}

// text returns a file's content without white space around it.
func (t tree) text(name string) (string, error) {
	b, err := t.fs.ReadFile(path.Join(t.root, name))
	return strings.TrimSpace(string(b)), err
}

// number returns a file's content as a number, or otherwise if there is no such file or
// it holds none. Base prefixes such as 0x are understood.
func (t tree) number(name string, otherwise int) int {
	s, err := t.text(name)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return otherwise
	}
	return int(n)
}

// target returns the last element of what a link points to, "" if there is no such link.
func (t tree) target(name string) string {
	to, err := t.fs.Readlink(path.Join(t.root, name))
	if err != nil {
		return ""
	}
	return path.Base(to)
}

// list returns the names in a directory, none if it cannot be read.
func (t tree) list(name string) []string {
	names, err := t.fs.ReadDir(path.Join(t.root, name))
	if err != nil {
		return nil
	}
	return names
}

// exists says whether there is anything of that name. What is not a link cannot be read
// as one, but that answer differs from that of what does not exist; and no directory is
// read for it.
func (t tree) exists(name string) bool {
	_, err := t.fs.Readlink(path.Join(t.root, name))
	return !errors.Is(err, os.ErrNotExist)
}

func (t tree) write(name, value string) error {
	return t.fs.WriteFile(path.Join(t.root, name), []byte(value))
}

// files are the file operations that sysfs and procfs need. Tests put a kernel that
// reacts to writes, or changes between reads, in their place.
type files interface {
	ReadFile(path string) ([]byte, error)
	WriteFile(path string, data []byte) error
	Readlink(path string) (string, error)
	ReadDir(path string) ([]string, error)
}

type osFiles struct{}

func (osFiles) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

func (osFiles) Readlink(path string) (string, error) { return os.Readlink(path) }

// WriteFile writes to an existing file in one system call, as sysfs wants it.
func (osFiles) WriteFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// ReadDir returns the names in a directory, unsorted.
func (osFiles) ReadDir(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
