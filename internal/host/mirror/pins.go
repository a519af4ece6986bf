package mirror

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// pinsOf lists the pins of one tap and MAC.
func pinsOf(p bpf.Pins, key mirrorKey) (of []string, err error) {
	names, err := p.Names()
	for _, name := range names {
		if d, ok := parsePin(name); ok && d.key() == key {
			of = append(of, name)
		}
	}
	return of, err
}

// adoptPin puts a program into a pinned link and renames the pin accordingly. It returns false if the link is not attached to the
// tap with that index, but was to an earlier tap of the same name.
func adoptPin(p bpf.Pins, name string, d DualPath, tap int, prog *ebpf.Program) (bool, error) {
	l, err := link.LoadPinnedLink(p.Path(name), nil)
	if err != nil {
		return false, err
	}
	defer l.Close()
	if bpf.AttachedTo(l) != tap {
		return false, nil
	}
	err = l.Update(prog)
	if errors.Is(err, unix.ENOLINK) { // the tap has just gone
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, l.Pin(p.Path(pinName(d)))
}

func listPins(p bpf.Pins) ([]Mirror, error) {
	names, err := p.Names()
	if err != nil {
		return nil, err
	}
	var all []Mirror
	for _, name := range names {
		d, ok := parsePin(name)
		if !ok {
			continue // not ours
		}
		l, err := link.LoadPinnedLink(p.Path(name), nil)
		switch {
		case errors.Is(err, fs.ErrNotExist): // closed meanwhile
		case err != nil:
			all = append(all, Mirror{d, model.Unknown})
		default:
			all = append(all, Mirror{d, bpf.Detached(l)})
			_ = l.Close()
		}
	}
	return all, nil
}

// pinName is TAP_MAC_PF_VLAN, the fields of DualPath that identify a mirror, followed by the representor if there is one, and by
// the mode unless that is Copy. The file system allows no dots, and interface names may contain underscores, so everything but
// letters, digits and hyphens is written as %XX.
func pinName(d DualPath) string {
	part := []string{bpf.Escape(d.Tap), d.MAC.Hex(), bpf.Escape(d.PF), strconv.Itoa(d.VLAN)}
	switch {
	case d.Mode != Copy && d.Representor:
		part = append(part, bpf.Escape(d.Port), string(d.Mode))
	case d.Mode != Copy:
		part = append(part, "", string(d.Mode))
	case d.Representor:
		part = append(part, bpf.Escape(d.Port))
	}
	return strings.Join(part, "_")
}

// parsePin is the inverse of pinName.
func parsePin(name string) (d DualPath, ok bool) {
	part := strings.Split(name, "_")
	if len(part) < 4 || len(part) > 6 {
		return d, false
	}
	var tapOK, pfOK bool
	portOK := true
	d.Tap, tapOK = bpf.Unescape(part[0])
	d.PF, pfOK = bpf.Unescape(part[2])
	var err, verr error
	d.MAC, err = bpf.ParseHex(part[1])
	d.VLAN, verr = strconv.Atoi(part[3])
	if d.Representor = len(part) > 4 && part[4] != ""; d.Representor {
		d.Port, portOK = bpf.Unescape(part[4])
	}
	if len(part) == 6 {
		d.Mode = Mode(part[5])
		portOK = portOK && (d.Mode == Both || d.Mode.redirects() || d.Mode.onePort() && d.Representor)
	}
	ok = tapOK && pfOK && portOK && errors.Join(err, verr) == nil
	return d, ok && pinName(d) == name
}
