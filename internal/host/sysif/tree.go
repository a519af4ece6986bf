package sysif

import (
	"cmp"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// Tree is a directory of pseudo-files: sysfs or procfs.
type Tree struct {
	Root string
	FS   Files
}

// NewTree returns the file system mounted at root, or at usual if root is "".
func NewTree(root, usual string) Tree { return Tree{Root: cmp.Or(root, usual), FS: OSFiles{}} }

// Text returns a file's content without surrounding white space.
func (t Tree) Text(name string) (string, error) {
	b, err := t.FS.ReadFile(path.Join(t.Root, name))
	return strings.TrimSpace(string(b)), err
}

// Number returns a file's content as a number, or otherwise if there is no such file or it contains none. It accepts base
// prefixes such as 0x.
func (t Tree) Number(name string, otherwise int) int {
	s, err := t.Text(name)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return otherwise
	}
	return int(n)
}

// Target returns the last element of a symbolic link's target, "" if there is no such link.
func (t Tree) Target(name string) string {
	to, err := t.FS.Readlink(path.Join(t.Root, name))
	if err != nil {
		return ""
	}
	return path.Base(to)
}

// List returns the names in a directory, none if it cannot be read.
func (t Tree) List(name string) []string {
	names, err := t.FS.ReadDir(path.Join(t.Root, name))
	if err != nil {
		return nil
	}
	return names
}

// Exists reports whether a file of that name exists. readlink(2) fails on anything that is not a link, but with a different error
// than for a missing file, and needs no reading of directories.
func (t Tree) Exists(name string) bool {
	_, err := t.FS.Readlink(path.Join(t.Root, name))
	return !errors.Is(err, os.ErrNotExist)
}

// Write writes to an existing file in one system call.
func (t Tree) Write(name, value string) error {
	return t.FS.WriteFile(path.Join(t.Root, name), []byte(value))
}

// Files are the file operations that sysfs and procfs need. Tests replace them to simulate a kernel that reacts to writes or
// changes between reads.
type Files interface {
	ReadFile(path string) ([]byte, error)
	WriteFile(path string, data []byte) error
	Readlink(path string) (string, error)
	ReadDir(path string) ([]string, error)
}

// OSFiles are the host's own files.
type OSFiles struct{}

// ReadFile implements Files.
func (OSFiles) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// Readlink implements Files.
func (OSFiles) Readlink(path string) (string, error) { return os.Readlink(path) }

// WriteFile writes to an existing file in one system call, as sysfs requires.
func (OSFiles) WriteFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// ReadDir returns the names in a directory, unsorted.
func (OSFiles) ReadDir(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Unbind unbinds a device of a bus ("pci") from a driver, "" for none. It is not an error if the device was unbound already.
func Unbind(sys Tree, bus, driver, device string) error {
	if driver == "" {
		return nil
	}
	err := sys.Write(path.Join("bus", bus, "drivers", driver, "unbind"), device)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// PCIDir is the sysfs directory of a PCI function.
func PCIDir(addr model.PCIAddress) string { return "bus/pci/devices/" + string(addr) }

// PCIOf resolves a netdev's device link to its PCI function. The device of a virtio netdev is on the virtio bus, below the
// function.
func PCIOf(sys Tree, link string) model.PCIAddress {
	dev := sys.Target(link)
	if strings.HasPrefix(dev, "virtio") {
		to, err := sys.FS.Readlink(path.Join(sys.Root, "bus/virtio/devices", dev))
		if err != nil {
			return ""
		}
		dev = path.Base(path.Dir(to))
	}
	return model.PCIAddress(dev)
}
