package mirror

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// mirrors are the mirrors of the open dual paths. The kernel keeps them: each is pinned in the BPF file system under a name that
// describes it, so this process remembers only those that could not be pinned. Calls for one tap are serialized
// (sysif.Kernel.Busy).
type mirrors struct {
	pins   bpf.Pins
	attach func(mirror, *ebpf.Program) (link.Link, error)
	log    *slog.Logger
	warn   sync.Once

	mu   sync.Mutex
	held map[mirrorKey]heldMirror // could not be pinned
}

// mirrorKey identifies a mirror: there is one per tap and MAC.
type mirrorKey struct {
	tap string
	mac model.MAC
}

func (d DualPath) key() mirrorKey { return mirrorKey{d.Tap, d.MAC} }

type heldMirror struct {
	dual DualPath
	link link.Link
}

func newMirrors(p bpf.Pins, log *slog.Logger) *mirrors {
	return &mirrors{pins: p, attach: mirror.attach, log: log, held: map[mirrorKey]heldMirror{}}
}

// open creates a mirror. If there is one for the same tap and MAC, it replaces the program in place, so that no frame is lost or
// duplicated.
func (s *mirrors) open(d DualPath, m mirror) error {
	prog, err := m.load()
	if err != nil {
		return err
	}
	defer prog.Close() // the link holds it
	if adopted, err := s.adopt(d, m, prog); adopted || err != nil {
		return err
	}
	l, err := s.attach(m, prog)
	if err != nil {
		return err
	}
	if err := s.pins.Add(l, pinName(d)); err != nil {
		s.warn.Do(func() {
			s.log.Warn("mirrors end with this process: a kill during a move could cut the VM off", "error", err)
		})
		s.hold(heldMirror{d, l})
		return nil
	}
	return l.Close() // the pin holds it
}

// adopt puts the program into an existing mirror for the same tap and MAC. It removes mirrors of an earlier tap of the same name,
// and a second mirror, which only a process killed while creating one can have left.
func (s *mirrors) adopt(d DualPath, m mirror, prog *ebpf.Program) (adopted bool, err error) {
	names, err := pinsOf(s.pins, d.key())
	if err != nil {
		return false, err
	}
	for _, name := range names {
		took := false
		if !adopted {
			if took, err = adoptPin(s.pins, name, d, m.tap, prog); err != nil {
				return false, err
			}
		}
		if adopted = adopted || took; took {
			continue
		}
		if err := s.pins.Remove(name); err != nil {
			return adopted, err
		}
	}
	have, ok := s.heldOf(d.key())
	if !ok {
		return adopted, nil
	}
	if !adopted && bpf.AttachedTo(have.link) == m.tap && have.link.Update(prog) == nil {
		s.hold(heldMirror{d, have.link})
		return true, nil
	}
	return adopted, s.release(d.key())
}

func (s *mirrors) close(tap string, mac model.MAC) error {
	key := mirrorKey{tap, mac}
	err := s.release(key)
	names, lerr := pinsOf(s.pins, key)
	for _, name := range names {
		err = errors.Join(err, s.pins.Remove(name))
	}
	return errors.Join(err, lerr)
}

func (s *mirrors) list() ([]Mirror, error) {
	all, err := listPins(s.pins)
	s.mu.Lock()
	for _, h := range s.held {
		all = append(all, Mirror{h.dual, bpf.Detached(h.link)})
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Mirror) int {
		return cmp.Or(cmp.Compare(a.Tap, b.Tap), slices.Compare(a.MAC[:], b.MAC[:]))
	})
	return all, err
}

func (s *mirrors) hold(h heldMirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[h.dual.key()] = h
}

func (s *mirrors) heldOf(key mirrorKey) (heldMirror, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[key]
	return h, ok
}

// release closes a held mirror.
func (s *mirrors) release(key mirrorKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[key]
	delete(s.held, key)
	if !ok {
		return nil
	}
	return h.link.Close()
}

// drop closes the held mirrors; pinned ones stay.
func (s *mirrors) drop() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, h := range s.held {
		err = errors.Join(err, h.link.Close())
		delete(s.held, key)
	}
	return err
}
