package tap

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// adopt opens what an earlier process pinned, and replaces the attached programs with this version's. It returns nil if there is
// nothing usable.
func (s *taps) adopt(tap string) (*policedTap, error) {
	t, err := s.load(tap)
	if errors.Is(err, errLayout) {
		return nil, s.remove(tap)
	}
	if t == nil || err != nil {
		return nil, err
	}
	for dir, l := range t.links {
		if l == nil || t.port != nil && t.port.foreign {
			continue
		}
		prog, err := s.program(t, dir)
		if err == nil {
			err = errors.Join(l.Update(prog), prog.Close())
		}
		if err != nil && !errors.Is(err, unix.ENOLINK) { // ENOLINK: the tap has gone, which find handles
			return nil, errors.Join(err, t.Close())
		}
	}
	s.remember(tap, t)
	return t, nil
}

// load opens the pinned policy of a tap, nil if there is none.
func (s *taps) load(tap string) (*policedTap, error) {
	if !s.pins.Has(tapPin(tap, pinMap)) {
		return nil, nil
	}
	table, err := ebpf.LoadPinnedMap(s.pins.Path(tapPin(tap, pinMap)), nil)
	if err != nil {
		return nil, err
	}
	mem, err := openPolicyMemory(table)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	t := &policedTap{table: table, mem: mem}
	for dir := range t.links {
		l, err := link.LoadPinnedLink(s.pins.Path(tapPin(tap, dirNames[dir])), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.links[dir] = l
		t.index = max(t.index, bpf.AttachedTo(l))
	}
	if t.port, err = t.readPort(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (s *taps) list() ([]Policy, error) {
	all, seen := []Policy{}, map[string]bool{}
	add := func(p Policy, onlyPort bool) {
		seen[p.Tap] = true
		if !onlyPort {
			all = append(all, p)
		}
	}
	s.mu.Lock()
	for tap, t := range s.open {
		add(t.policy(tap))
	}
	s.mu.Unlock()
	names, err := s.pinned()
	if err != nil {
		return nil, err
	}
	for _, tap := range names {
		if !seen[tap] {
			add(s.pinnedPolicy(tap))
		}
	}
	slices.SortFunc(all, func(a, b Policy) int { return cmp.Compare(a.Tap, b.Tap) })
	return all, nil
}

// pinnedPolicy reads the pinned policy of a tap. onlyPort is set if the tap has none and is only a switch port.
func (s *taps) pinnedPolicy(tap string) (p Policy, onlyPort bool) {
	t, err := s.load(tap)
	switch {
	case err != nil && !errors.Is(err, errLayout):
		return Policy{Tap: tap}, false // Detached is Unknown
	case t == nil: // programs without a map, or a map of another version: nothing that works
		return Policy{Tap: tap, Detached: model.Yes}, false
	}
	defer t.Close()
	return t.policy(tap)
}

// policy is pinnedPolicy for an open tap.
func (t *policedTap) policy(tap string) (p Policy, onlyPort bool) {
	p = t.mem.read(tap, monotonic())
	p.Index = t.index
	p.Detached = model.TriOf(!t.intact())
	return p, t.port != nil && p.wants() == [2]bool{}
}

// pinned lists the taps for which something is pinned.
func (s *taps) pinned() (taps []string, err error) {
	names, err := s.pins.Names()
	for _, name := range names {
		if tap, _, ok := parseTapPin(name); ok && !slices.Contains(taps, tap) {
			taps = append(taps, tap)
		}
	}
	return taps, err
}

// drop closes what is open; pinned objects stay.
func (s *taps) drop() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tap, t := range s.open {
		err = errors.Join(err, t.Close())
		delete(s.open, tap)
	}
	if s.local != nil {
		err = errors.Join(err, s.local.table.Close())
		s.local = nil
	}
	return err
}

// The pins of a tap are TAP_tx, TAP_rx and TAP_map.
const pinMap = "map"

var dirNames = [2]string{dirTx: "tx", dirRx: "rx"}

func tapPin(tap, what string) string { return bpf.Escape(tap) + "_" + what }

// parseTapPin is the inverse of tapPin.
func parseTapPin(name string) (tap, what string, ok bool) {
	text, what, _ := strings.Cut(name, "_")
	tap, ok = bpf.Unescape(text)
	ok = ok && tap != "" && (what == pinMap || slices.Contains(dirNames[:], what))
	return tap, what, ok && tapPin(tap, what) == name
}
