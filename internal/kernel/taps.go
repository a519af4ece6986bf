package kernel

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// taps are the policies of taps. The kernel keeps them: a map and a program for each
// direction, pinned in the BPF file system. What this process has open of them is remembered, so that
// a renewal takes no more than a few stores to shared memory; whether it is still
// there is asked each time. Calls for one tap come one after the other (see locks).
type taps struct {
	pins  pins
	lease time.Duration
	log   *slog.Logger
	warn  sync.Once

	mu    sync.Mutex
	open  map[string]*policedTap
	local *localMACs // nil: not needed yet
}

func newTaps(p pins, lease time.Duration, log *slog.Logger) *taps {
	return &taps{pins: p, lease: lease, log: log, open: map[string]*policedTap{}}
}

// policedTap is what this process has open of a tap's policy.
type policedTap struct {
	index int // of the tap
	table *ebpf.Map
	mem   *policyMemory
	links [2]link.Link // by direction; nil: none
}

func (t *policedTap) Close() error {
	err := errors.Join(t.mem.Close(), t.table.Close())
	for _, l := range t.links {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// intact says whether each program that was attached still is.
func (t *policedTap) intact() bool {
	if t.index == 0 { // not even when it was adopted
		return false
	}
	for _, l := range t.links {
		if l != nil && attachedTo(l) != t.index {
			return false
		}
	}
	return true
}

func (s *taps) update(tap string, edit func(*TapPolicy), ask tapQuestions) (TapPolicy, error) {
	t, err := s.find(tap, ask)
	if err != nil {
		return TapPolicy{}, err
	}
	policy := TapPolicy{Tap: tap}
	if t != nil {
		policy = t.mem.read(tap, monotonic())
	}
	shaper := policy.Shaper
	edit(&policy)
	if policy.wants() == [2]bool{} {
		return TapPolicy{Tap: tap}, s.remove(tap)
	}
	if t == nil {
		if t, err = s.create(tap, ask); err != nil {
			return TapPolicy{}, err
		}
	}
	if policy.Shaper != 0 {
		if err := s.mayShape(tap, t, policy.Shaper != shaper, ask); err != nil {
			return TapPolicy{}, errors.Join(err, s.removeUnused(tap, t))
		}
	}
	t.mem.write(policy, monotonic(), s.lease) // first: no frame passes a program that has no limit yet
	if err := s.attach(tap, t, policy.wants()); err != nil {
		return TapPolicy{}, errors.Join(err, s.removeUnused(tap, t))
	}
	now := t.mem.read(tap, monotonic())
	now.Index, now.Detached = t.index, model.No
	return now, nil
}

// removeUnused removes a policy that no program is attached for.
func (s *taps) removeUnused(tap string, t *policedTap) error {
	if t.links != [2]link.Link{} {
		return nil
	}
	return s.remove(tap)
}

// mayShape says why frames may not go to a shaper, where there was none yet, and takes off a
// program of ours that others have come behind, for attach to put it behind them.
func (s *taps) mayShape(tap string, t *policedTap, fresh bool, ask tapQuestions) error {
	if fresh {
		if err := ask.noFilters(t.index); err != nil {
			return err
		}
	}
	l := t.links[dirTx]
	if l == nil {
		return nil
	}
	info, err := l.Info()
	if err != nil {
		return err
	}
	all, err := link.QueryPrograms(link.QueryOptions{Target: t.index, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return err
	}
	if n := len(all.Programs); n > 0 && all.Programs[n-1].ID == info.Program {
		return nil
	}
	return s.takeOff(tap, t, dirTx)
}

// find returns what stands on the tap, nil if there is nothing. What is left of a tap of that
// name that has gone is removed.
func (s *taps) find(tap string, ask tapQuestions) (*policedTap, error) {
	t := s.opened(tap)
	if t == nil {
		var err error
		if t, err = s.adopt(tap); t == nil || err != nil {
			return nil, err
		}
	}
	if t.intact() {
		return t, nil
	}
	index, err := ask.index()
	if err != nil || index != t.index || s.pins.ready() == nil && !s.pins.has(tapPin(tap, pinMap)) {
		// The tap has gone, and another may have its name; or another process has removed all.
		return nil, errors.Join(err, s.remove(tap))
	}
	// Somebody has taken a program off.
	for dir, l := range t.links {
		if l != nil && attachedTo(l) != index {
			if err := s.takeOff(tap, t, dir); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (s *taps) opened(tap string) *policedTap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[tap]
}

func (s *taps) remember(tap string, t *policedTap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[tap] = t
}

func (s *taps) create(tap string, ask tapQuestions) (*policedTap, error) {
	index, err := ask.index()
	if err != nil {
		return nil, err
	}
	table, err := newPolicyMap()
	if err != nil {
		return nil, err
	}
	mem, err := openPolicyMemory(table)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	t := &policedTap{index: index, table: table, mem: mem}
	s.remember(tap, t)
	s.pin(table, tapPin(tap, pinMap))
	return t, nil
}

// pin keeps something beyond this process if that can be.
func (s *taps) pin(what interface{ Pin(path string) error }, name string) {
	if err := s.pins.add(what, name); err != nil {
		s.warn.Do(func() {
			s.log.Warn("limits of taps end with this process: then nothing keeps guests to their contracts", "error", err)
		})
	}
}

// attach brings the programs to the tap that are wanted, and takes off those that are not.
func (s *taps) attach(tap string, t *policedTap, wanted [2]bool) error {
	for dir, want := range wanted {
		l := t.links[dir]
		switch {
		case want == (l != nil):
		case want:
			if err := s.attachOne(tap, t, dir); err != nil {
				return err
			}
		default:
			if err := s.takeOff(tap, t, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeOff detaches the program of one direction.
func (s *taps) takeOff(tap string, t *policedTap, dir int) error {
	l := t.links[dir]
	s.link(t, dir, nil)
	return errors.Join(detach(l), l.Close(), s.pins.remove(tapPin(tap, dirNames[dir])))
}

// attachOne attaches the program of one direction. Behind all others at ingress: what goes
// to a shaper is not seen by those behind. Before mirrors at egress: what is dropped is not copied.
func (s *taps) attachOne(tap string, t *policedTap, dir int) error {
	prog, err := s.program(t, dir)
	if err != nil {
		return err
	}
	defer prog.Close() // the link holds it
	options := link.TCXOptions{Interface: t.index, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()}
	if dir == dirRx {
		options.Attach, options.Anchor = ebpf.AttachTCXEgress, link.Head()
	}
	l, err := attachTCX(options)
	if err != nil {
		return err
	}
	s.link(t, dir, l)
	s.pin(l, tapPin(tap, dirNames[dir]))
	return nil
}

// link remembers what is attached: list may be looking.
func (s *taps) link(t *policedTap, dir int, l link.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.links[dir] = l
}

func (s *taps) program(t *policedTap, dir int) (*ebpf.Program, error) {
	local, err := s.localMACs()
	if err != nil {
		return nil, err
	}
	return policer{dir: dir, policy: t.table, local: local.table}.load()
}

// adopt opens what an earlier process pinned, and puts this version's programs in the
// place of those that are attached; nil if there is nothing, or nothing of use.
func (s *taps) adopt(tap string) (*policedTap, error) {
	t, err := s.load(tap)
	if errors.Is(err, errLayout) {
		return nil, s.remove(tap)
	}
	if t == nil || err != nil {
		return nil, err
	}
	for dir, l := range t.links {
		if l == nil {
			continue
		}
		prog, err := s.program(t, dir)
		if err == nil {
			err = errors.Join(l.Update(prog), prog.Close())
		}
		if err != nil && !errors.Is(err, unix.ENOLINK) { // the tap has gone: find sees that
			return nil, errors.Join(err, t.Close())
		}
	}
	s.remember(tap, t)
	return t, nil
}

// load opens what is pinned of a tap's policy, nil if there is nothing.
func (s *taps) load(tap string) (*policedTap, error) {
	if !s.pins.has(tapPin(tap, pinMap)) {
		return nil, nil
	}
	table, err := ebpf.LoadPinnedMap(s.pins.path(tapPin(tap, pinMap)), nil)
	if err != nil {
		return nil, err
	}
	mem, err := openPolicyMemory(table)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	t := &policedTap{table: table, mem: mem}
	for dir := range t.links {
		l, err := link.LoadPinnedLink(s.pins.path(tapPin(tap, dirNames[dir])), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.links[dir] = l
		t.index = max(t.index, attachedTo(l))
	}
	return t, nil
}

// remove takes off what stands, the map last: as long as its pin is there, the next process
// sees that there is something to remove.
func (s *taps) remove(tap string) (err error) {
	s.mu.Lock()
	t := s.open[tap]
	delete(s.open, tap)
	s.mu.Unlock()
	if t != nil {
		for _, l := range t.links {
			if l != nil {
				err = errors.Join(err, detach(l))
			}
		}
		err = errors.Join(err, t.Close())
	}
	for _, name := range dirNames {
		err = errors.Join(err, s.pins.remove(tapPin(tap, name)))
	}
	if err != nil {
		return err
	}
	return s.pins.unpin(tapPin(tap, pinMap))
}

// detach takes a program off, though it is pinned or another process has it open.
func detach(l link.Link) error {
	if err := l.Detach(); err != nil && !errors.Is(err, unix.ENOLINK) {
		return err
	}
	return nil
}

func (s *taps) list() ([]TapPolicy, error) {
	found := map[string]TapPolicy{}
	s.mu.Lock()
	for tap, t := range s.open {
		found[tap] = t.standing(tap)
	}
	s.mu.Unlock()
	names, err := s.pins.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		tap, _, ok := parseTapPin(name)
		if _, seen := found[tap]; ok && !seen {
			found[tap] = s.standing(tap)
		}
	}
	all := make([]TapPolicy, 0, len(found))
	for _, t := range found {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b TapPolicy) int { return cmp.Compare(a.Tap, b.Tap) })
	return all, nil
}

// standing says what is pinned for a tap.
func (s *taps) standing(tap string) TapPolicy {
	t, err := s.load(tap)
	switch {
	case err != nil && !errors.Is(err, errLayout):
		return TapPolicy{Tap: tap} // Detached is Unknown
	case t == nil: // programs without a map, or of another version: nothing that works
		return TapPolicy{Tap: tap, Detached: model.Yes}
	}
	defer t.Close()
	return t.standing(tap)
}

func (t *policedTap) standing(tap string) TapPolicy {
	p := t.mem.read(tap, monotonic())
	p.Index = t.index
	p.Detached = model.TriOf(!t.intact())
	return p
}

// drop closes what is open; what is pinned stays.
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

// Pins of a tap are TAP_tx, TAP_rx and TAP_map.
const pinMap = "map"

var dirNames = [2]string{dirTx: "tx", dirRx: "rx"}

func tapPin(tap, what string) string { return escape(tap) + "_" + what }

// parseTapPin reads such a name.
func parseTapPin(name string) (tap, what string, ok bool) {
	text, what, _ := strings.Cut(name, "_")
	tap, ok = unescape(text)
	ok = ok && tap != "" && (what == pinMap || slices.Contains(dirNames[:], what))
	return tap, what, ok && tapPin(tap, what) == name
}
