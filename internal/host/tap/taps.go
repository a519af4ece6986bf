// Package tap enforces limits and the rules of the embedded switch on what guests send and receive through taps. It uses eBPF
// programs (TCX) that outlive the process.
package tap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Taps manages the taps of a network namespace.
type Taps struct {
	k       *sysif.Kernel
	links   *netdev.Devices
	bridges *bridge.Bridges
	taps    *taps
}

// New returns the Taps that pin programs and maps in pins. lease is how long the leased rates of a policy apply after UpdateTap.
func New(k *sysif.Kernel, links *netdev.Devices, bridges *bridge.Bridges, pins bpf.Pins, lease time.Duration) *Taps {
	return &Taps{k: k, links: links, bridges: bridges, taps: &taps{
		links: links, pins: pins, lease: lease, log: k.Log, open: map[string]*policedTap{},
	}}
}

// Close closes what this process has open; pinned objects stay.
func (h *Taps) Close() error { return h.taps.drop() }

// taps manages the policies of taps. The kernel holds them: a map, and a program for each direction, pinned in the BPF file
// system. This process keeps them open, so that renewing a lease takes only a few stores to shared memory, but checks on every
// call that they are still attached. Calls for one tap are serialized (sysif.Kernel.Busy).
type taps struct {
	links *netdev.Devices
	pins  bpf.Pins
	lease time.Duration
	log   *slog.Logger
	warn  sync.Once

	mu    sync.Mutex
	open  map[string]*policedTap
	local *localMACs // nil: not opened yet
}

// policedTap is what this process has open for the policy of a tap.
type policedTap struct {
	index int // of the tap
	table *ebpf.Map
	mem   policyMemory
	links [2]link.Link // by direction; nil: none
	port  *switchPort  // that the programs were compiled from, nil: none; see taps.refresh
}

// attached reports which directions have a program.
func (t *policedTap) attached() (has [2]bool) {
	for dir, l := range t.links {
		has[dir] = l != nil
	}
	return has
}

func (t *policedTap) Close() error {
	err := errors.Join(t.mem.Close(), t.table.Close(), t.port.Close())
	for _, l := range t.links {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// intact reports whether every program that was attached still is.
func (t *policedTap) intact() bool {
	if t.index == 0 { // no program was attached even at adoption
		return false
	}
	for _, l := range t.links {
		if l != nil && bpf.AttachedTo(l) != t.index {
			return false
		}
	}
	return true
}

func (s *taps) update(ctx context.Context, tap string, edit func(*Policy)) (Policy, error) {
	t, err := s.find(ctx, tap)
	if err != nil {
		return Policy{}, err
	}
	policy := Policy{Tap: tap}
	if t != nil {
		policy = t.mem.read(tap, monotonic())
	}
	shaper := policy.Shaper
	edit(&policy)
	wanted, err := s.wanted(t, policy)
	if err != nil {
		return Policy{}, err
	}
	if wanted == [2]bool{} {
		return Policy{Tap: tap}, s.remove(tap)
	}
	if t == nil {
		if t, err = s.create(ctx, tap); err != nil {
			return Policy{}, err
		}
	}
	if policy.Shaper != 0 {
		if err := s.mayShape(ctx, tap, t, policy.Shaper != shaper); err != nil {
			return Policy{}, errors.Join(err, s.removeUnused(tap, t))
		}
	}
	t.mem.write(policy, monotonic(), s.lease) // before attaching: no frame may pass a program that has no limits yet
	if err := s.attach(tap, t, wanted); err != nil {
		return Policy{}, errors.Join(err, s.removeUnused(tap, t))
	}
	now := t.mem.read(tap, monotonic())
	now.Index, now.Detached = t.index, model.No
	return now, nil
}

// wanted returns the directions that need a program, for the policy or for the switch port on the tap.
func (s *taps) wanted(t *policedTap, policy Policy) ([2]bool, error) {
	if t == nil {
		return policy.wants(), nil
	}
	if wanted := t.wantedFor(policy); wanted == t.attached() {
		return wanted, nil
	}
	err := s.refresh(t) // another process may have created or removed a port
	return t.wantedFor(policy), err
}

func (t *policedTap) wantedFor(policy Policy) [2]bool {
	if t.port != nil {
		return [2]bool{true, true}
	}
	return policy.wants()
}

// removeUnused removes a policy that has no program attached.
func (s *taps) removeUnused(tap string, t *policedTap) error {
	if t.links != [2]link.Link{} {
		return nil
	}
	return s.remove(tap)
}

// find returns the policy of the tap, nil if there is none. It removes the remains of an earlier tap of the same name.
func (s *taps) find(ctx context.Context, tap string) (*policedTap, error) {
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
	dev, err := s.links.Link(ctx, tap)
	if err != nil || dev.Index != t.index || s.pins.Ready() == nil && !s.pins.Has(tapPin(tap, pinMap)) {
		// The tap has gone and another may have its name, or another process has removed everything.
		return nil, errors.Join(err, s.remove(tap))
	}
	// Somebody has detached a program.
	if err := s.refresh(t); err != nil {
		return nil, err
	}
	for dir, l := range t.links {
		if l != nil && bpf.AttachedTo(l) != t.index {
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

func (s *taps) create(ctx context.Context, tap string) (*policedTap, error) {
	dev, err := s.links.Link(ctx, tap)
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
	t := &policedTap{index: dev.Index, table: table, mem: mem}
	s.remember(tap, t)
	s.pin(table, tapPin(tap, pinMap))
	return t, nil
}

// pin keeps an object beyond the end of this process, if it can be pinned.
func (s *taps) pin(what interface{ Pin(path string) error }, name string) {
	if err := s.pins.Add(what, name); err != nil {
		s.warn.Do(func() {
			s.log.Warn("limits of taps end with this process: after that nothing enforces contracts", "error", err)
		})
	}
}

// attach attaches the wanted programs to the tap and detaches the others.
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
	return errors.Join(detach(l), l.Close(), s.pins.Remove(tapPin(tap, dirNames[dir])))
}

// attachOne attaches the program of one direction. At ingress it goes behind all others, because these do not see frames
// redirected to a shaper; on a switch port it goes before them (see mayShape). At egress it goes before mirrors, so that dropped
// frames are not mirrored.
func (s *taps) attachOne(tap string, t *policedTap, dir int) error {
	prog, err := s.program(t, dir)
	if err != nil {
		return err
	}
	defer prog.Close() // the link holds it
	options := link.TCXOptions{Interface: t.index, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()}
	if dir == dirRx {
		options.Attach = ebpf.AttachTCXEgress
	}
	if dir == dirRx || t.port != nil {
		options.Anchor = link.Head()
	}
	l, err := bpf.AttachTCX(options)
	if err != nil {
		return err
	}
	s.link(t, dir, l)
	s.pin(l, tapPin(tap, dirNames[dir]))
	return nil
}

// link records what is attached, under mu because list may be reading.
func (s *taps) link(t *policedTap, dir int, l link.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.links[dir] = l
}

func (s *taps) program(t *policedTap, dir int) (*ebpf.Program, error) {
	if t.port != nil && t.port.foreign {
		return nil, fmt.Errorf("switch port %w: set it again", errLayout)
	}
	local, err := s.localMACs()
	if err != nil {
		return nil, err
	}
	return policer{dir: dir, policy: t.table, local: local.table, port: t.port}.load()
}

// remove removes everything of a tap, and the map last: as long as the map is pinned, the next process sees that there is
// something to remove.
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
		err = errors.Join(err, s.pins.Remove(tapPin(tap, name)))
	}
	if err != nil {
		return err
	}
	return s.pins.Unpin(tapPin(tap, pinMap))
}

// detach detaches a program even if it is pinned or another process has it open.
func detach(l link.Link) error {
	if err := l.Detach(); err != nil && !errors.Is(err, unix.ENOLINK) {
		return err
	}
	return nil
}
