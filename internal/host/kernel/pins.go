package kernel

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// pins are what is pinned in the BPF file system: in a directory of their owner's, each
// under a name that says what it is about, see pinName and tapPin. There is no other record.
type pins struct {
	bpffs string // where the file system is mounted
	dir   string // OWNER/mirrors or OWNER/taps in it
}

func newPins(bpffs, owner, what string) (pins, error) {
	if bpffs == "" {
		bpffs = "/sys/fs/bpf"
	}
	if owner == "" {
		// Taps of two network namespaces may have one name, and their processes one BPF file system.
		ns, err := NetworkNamespace()
		if err != nil {
			return pins{}, err
		}
		owner = fmt.Sprintf("sluice-%d", ns)
	}
	return pins{bpffs: bpffs, dir: filepath.Join(bpffs, owner, what)}, nil
}

// ready says why nothing can be pinned.
func (p pins) ready() error {
	var at unix.Statfs_t
	if err := unix.Statfs(p.bpffs, &at); err != nil {
		return fmt.Errorf("look for the BPF file system at %s: %w", p.bpffs, err)
	}
	if at.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("no BPF file system is mounted at %s; mount one: mount -t bpf bpf %s", p.bpffs, p.bpffs)
	}
	if err := p.trusted(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var errForeign = errors.New("no directory of this user's alone")

// trusted says why nothing in the directory is believed: where the file system lets
// everybody write, as it does unless it is mounted with a mode, somebody else may have made it.
func (p pins) trusted() error {
	for _, dir := range []string{filepath.Dir(p.dir), p.dir} {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &fs.PathError{Op: "look at", Path: dir, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s is %w; remove it: rm -r %s", dir, errForeign, dir)
		}
	}
	return nil
}

// add pins a link or a map.
func (p pins) add(what interface{ Pin(path string) error }, name string) error {
	if err := p.ready(); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(p.dir), p.dir} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := p.trusted(); err != nil { // somebody may have been quicker
		return err
	}
	return what.Pin(p.path(name))
}

func (p pins) path(name string) string { return filepath.Join(p.dir, name) }

// names lists what is pinned; what somebody else may have put there is not.
func (p pins) names() ([]string, error) {
	switch err := p.trusted(); {
	case errors.Is(err, errForeign), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	names, err := osFiles{}.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// has says whether something of that name is pinned, by us.
func (p pins) has(name string) bool {
	if p.trusted() != nil {
		return false
	}
	return unix.Access(p.path(name), unix.F_OK) == nil
}

// pinsOf lists the pins of one tap and MAC.
func pinsOf(p pins, key mirrorKey) (of []string, err error) {
	names, err := p.names()
	for _, name := range names {
		if w, ok := parsePin(name); ok && w.key() == key {
			of = append(of, name)
		}
	}
	return of, err
}

// adoptPin puts a program into a pinned link, and renames it to what it is then. It says no
// if the link is not attached to the tap with that index: to one of the same name before.
func adoptPin(p pins, name string, w Window, tap int, prog *ebpf.Program) (bool, error) {
	l, err := link.LoadPinnedLink(p.path(name), nil)
	if err != nil {
		return false, err
	}
	defer l.Close()
	if attachedTo(l) != tap {
		return false, nil
	}
	err = l.Update(prog)
	if errors.Is(err, unix.ENOLINK) { // the tap went just now
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, l.Pin(p.path(pinName(w)))
}

// remove detaches a link, though another process may have it open, and then removes its
// pin: if it ends in between, the pin tells the next that there is something to remove.
func (p pins) remove(name string) error {
	if !p.has(name) {
		return nil
	}
	l, err := link.LoadPinnedLink(p.path(name), nil)
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

// unpin removes the pin of what is no link: the kernel keeps it as long as somebody else does.
func (p pins) unpin(name string) error {
	if err := p.trusted(); err != nil {
		if errors.Is(err, errForeign) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.Remove(p.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func listPins(p pins) ([]Mirror, error) {
	names, err := p.names()
	if err != nil {
		return nil, err
	}
	var all []Mirror
	for _, name := range names {
		w, ok := parsePin(name)
		if !ok {
			continue // not ours
		}
		l, err := link.LoadPinnedLink(p.path(name), nil)
		switch {
		case errors.Is(err, fs.ErrNotExist): // closed meanwhile
		case err != nil:
			all = append(all, Mirror{w, model.Unknown})
		default:
			all = append(all, Mirror{w, detached(l)})
			_ = l.Close()
		}
	}
	return all, nil
}

// pinName is TAP_MAC_PF_VLAN: of the Window's fields, what tells whose it is. The file system takes no dots, and interface names may have
// underscores: what is neither letter nor digit nor hyphen is written as %XX.
func pinName(w Window) string {
	return strings.Join([]string{escape(w.Tap), w.MAC.Hex(), escape(w.PF), strconv.Itoa(w.VLAN)}, "_")
}

// parsePin reads such a name.
func parsePin(name string) (w Window, ok bool) {
	part := strings.Split(name, "_")
	if len(part) != 4 {
		return w, false
	}
	var tapOK, pfOK bool
	w.Tap, tapOK = unescape(part[0])
	w.PF, pfOK = unescape(part[2])
	var err, verr error
	w.MAC, err = parseHex(part[1])
	w.VLAN, verr = strconv.Atoi(part[3])
	ok = tapOK && pfOK && errors.Join(err, verr) == nil
	return w, ok && pinName(w) == name
}

func escape(s string) string {
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

func unescape(s string) (text string, ok bool) {
	text, err := url.PathUnescape(s)
	return text, err == nil
}

func parseHex(s string) (m model.MAC, err error) {
	b, err := hex.DecodeString(s)
	if err == nil && len(b) != len(m) {
		err = fmt.Errorf("%d bytes, want %d", len(b), len(m))
	}
	copy(m[:], b)
	return m, err
}
