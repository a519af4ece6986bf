package bpf

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Pins are the pinned objects in a directory of the BPF file system that belongs to their owner. The name of each pin describes
// its object; there is no other record.
type Pins struct {
	BPFFS string // where the file system is mounted
	Dir   string // OWNER/mirrors or OWNER/taps in it
}

// NewPins returns the Pins in OWNER/WHAT of the BPF file system. bpffs is its mount point, "" for the usual one; an empty owner
// means this program in this network namespace.
func NewPins(bpffs, owner, what string) (Pins, error) {
	if bpffs == "" {
		bpffs = "/sys/fs/bpf"
	}
	if owner == "" {
		// Taps of two network namespaces may have the same name, and their processes share one BPF file system.
		ns, err := sysif.NetworkNamespace()
		if err != nil {
			return Pins{}, err
		}
		owner = fmt.Sprintf("sluice-%d", ns)
	}
	return Pins{BPFFS: bpffs, Dir: filepath.Join(bpffs, owner, what)}, nil
}

// Ready returns the reason why nothing can be pinned.
func (p Pins) Ready() error {
	var at unix.Statfs_t
	if err := unix.Statfs(p.BPFFS, &at); err != nil {
		return fmt.Errorf("check the BPF file system at %s: %w", p.BPFFS, err)
	}
	if at.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("no BPF file system is mounted at %s; mount one: mount -t bpf bpf %s", p.BPFFS, p.BPFFS)
	}
	if err := p.trusted(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var errForeign = errors.New("not a directory that only this user can change")

// trusted returns the reason why the directory's content cannot be trusted: if everybody may write to the file system, as by
// default unless it is mounted with a mode, somebody else may have created the directory.
func (p Pins) trusted() error {
	for _, dir := range []string{filepath.Dir(p.Dir), p.Dir} {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: dir, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s is %w; remove it: rm -r %s", dir, errForeign, dir)
		}
	}
	return nil
}

// Add pins a link or a map.
func (p Pins) Add(what interface{ Pin(path string) error }, name string) error {
	if err := p.Ready(); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(p.Dir), p.Dir} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := p.trusted(); err != nil { // somebody may have created one meanwhile
		return err
	}
	return what.Pin(p.Path(name))
}

// Path is the file name of a pin.
func (p Pins) Path(name string) string { return filepath.Join(p.Dir, name) }

// Names lists the pins; it returns none if the directory is not trusted.
func (p Pins) Names() ([]string, error) {
	switch err := p.trusted(); {
	case errors.Is(err, errForeign), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	names, err := sysif.OSFiles{}.ReadDir(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// Has reports whether we pinned something under that name.
func (p Pins) Has(name string) bool {
	if p.trusted() != nil {
		return false
	}
	return unix.Access(p.Path(name), unix.F_OK) == nil
}

// Remove detaches a link, even if another process has it open, and then removes its pin. If the process ends in between, the pin
// tells the next that there is something to remove.
func (p Pins) Remove(name string) error {
	if !p.Has(name) {
		return nil
	}
	l, err := link.LoadPinnedLink(p.Path(name), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Detach(); err != nil && !errors.Is(err, unix.ENOLINK) {
		return err
	}
	return l.Unpin()
}

// Unpin removes the pin of an object other than a link, which the kernel frees with its last reference.
func (p Pins) Unpin(name string) error {
	err := p.trusted()
	if err == nil {
		err = os.Remove(p.Path(name))
	}
	if errors.Is(err, errForeign) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Escape encodes a name for use in a pin's name: everything but letters, digits and hyphens as %XX.
func Escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Unescape is the inverse of Escape.
func Unescape(s string) (text string, ok bool) {
	text, err := url.PathUnescape(s)
	return text, err == nil
}

// ParseHex parses a MAC of 12 hexadecimal digits.
func ParseHex(s string) (m model.MAC, err error) {
	b, err := hex.DecodeString(s)
	if err == nil && len(b) != len(m) {
		err = fmt.Errorf("%d bytes, want %d", len(b), len(m))
	}
	copy(m[:], b)
	return m, err
}
