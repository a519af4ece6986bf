package tap

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cilium/ebpf/link"

	"sluice/internal/model"
)

// setPort makes a tap a switch port, or changes one. The tap may have a policy as well.
func (s *taps) setPort(ctx context.Context, spec model.SwitchPort) (model.SwitchPortState, error) {
	tap := spec.Tap
	t, err := s.find(ctx, tap)
	if err == nil && t == nil {
		t, err = s.create(ctx, tap)
	}
	if err != nil {
		return model.SwitchPortState{}, err
	}
	if now, err := t.portState(tap); err != nil || now.Detached == model.No && sameRules(now.SwitchPort, spec) {
		return now, err
	}
	if err := s.refresh(t); err != nil {
		return model.SwitchPortState{}, err
	}
	port, err := newSwitchPort(spec, t.port)
	if err != nil {
		return model.SwitchPortState{}, errors.Join(err, s.removeUnused(tap, t))
	}
	port.mem.limit(spec.Rules, monotonic())
	if err := s.comeFirst(tap, t); err != nil {
		return model.SwitchPortState{}, errors.Join(err, port.Close())
	}
	if err := errors.Join(s.keep(t, port), s.replace(tap, t, [2]bool{true, true})); err != nil {
		return model.SwitchPortState{}, errors.Join(err, s.removeUnused(tap, t))
	}
	return t.portState(tap)
}

// sameRules compares ports in the encoding in which they are stored.
func sameRules(a, b model.SwitchPort) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && slices.Equal(x, y)
}

// removePort removes the switch port of a tap and keeps what its policy needs.
func (s *taps) removePort(ctx context.Context, tap string) error {
	t, err := s.find(ctx, tap)
	if errors.Is(err, model.ErrGone) {
		return s.remove(tap)
	}
	if t == nil || err != nil {
		return err
	}
	if err := s.refresh(t); t.port == nil || err != nil {
		return err
	}
	policy := t.mem.read(tap, monotonic())
	wanted := policy.wants()
	if wanted == [2]bool{} {
		return s.remove(tap)
	}
	return errors.Join(s.keep(t, nil), s.replace(tap, t, wanted))
}

// removePolicy removes the policy of a tap and keeps what its switch port needs.
func (s *taps) removePolicy(ctx context.Context, tap string) error {
	isPort, err := s.isPort(tap)
	if err != nil {
		return err
	}
	if !isPort {
		return s.remove(tap)
	}
	t, err := s.find(ctx, tap)
	if errors.Is(err, model.ErrGone) {
		return s.remove(tap)
	}
	if t == nil || err != nil {
		return err
	}
	t.mem.write(Policy{}, monotonic(), 0)
	return s.attach(tap, t, [2]bool{true, true}) // re-attaches a program that somebody detached
}

// isPort reports whether the programs of a tap, or of an earlier tap of the same name, implement a switch port.
func (s *taps) isPort(tap string) (bool, error) {
	if t := s.opened(tap); t != nil {
		err := s.refresh(t)
		return t.port != nil, err
	}
	t, err := s.load(tap)
	if t == nil || errors.Is(err, errLayout) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return t.port != nil, t.Close()
}

// refresh reopens the port that the attached programs use, since another process may have changed it. Programs that have lost
// their tap still count. If none is left, t keeps what it knows.
func (s *taps) refresh(t *policedTap) error {
	if t.attached() == [2]bool{} {
		return nil
	}
	port, err := t.readPort()
	if err != nil {
		return err
	}
	return s.keep(t, port)
}

// keep records the port that programs are compiled for, under mu because list may be reading.
func (s *taps) keep(t *policedTap, port *switchPort) error {
	s.mu.Lock()
	old := t.port
	t.port = port
	s.mu.Unlock()
	return old.Close()
}

// readPort opens the port of the first program that has one.
func (t *policedTap) readPort() (*switchPort, error) {
	for _, l := range t.links {
		if l == nil {
			continue
		}
		if p, err := portOfLink(l); p != nil || err != nil {
			return p, err
		}
	}
	return nil, nil
}

// replace swaps the attached programs for ones compiled from the current state of t. No frame passes unchecked in between.
func (s *taps) replace(tap string, t *policedTap, wanted [2]bool) error {
	for dir, l := range t.links {
		if l == nil || !wanted[dir] {
			continue
		}
		prog, err := s.program(t, dir)
		if err == nil {
			err = errors.Join(l.Update(prog), prog.Close())
		}
		if err != nil {
			return err
		}
	}
	return s.attach(tap, t, wanted)
}

// portState returns what the attached programs enforce. Tap is "" if there is no switch port. Detached is unknown if another
// version made the port.
func (t *policedTap) portState(tap string) (now model.SwitchPortState, err error) {
	p, err := t.readPort()
	if p == nil || err != nil {
		return now, err
	}
	defer p.Close()
	whole := t.intact()
	for _, l := range t.links {
		same, err := holds(l, p)
		if err != nil {
			return now, err
		}
		whole = whole && same
	}
	if p.foreign {
		return model.SwitchPortState{SwitchPort: model.SwitchPort{Tap: tap}, Index: t.index, Counts: []model.SwitchDrop{{}}}, nil
	}
	counts := p.mem.counts(len(p.spec.Rules))
	whose := 0
	if len(p.spec.Rules) > 1 {
		whose = len(counts) - 1 // drops by the tap's own limits cannot be attributed to one of several rules
	}
	counts[whose].Rate += t.mem.dropped(dirTx).Packets + t.mem.dropped(dirRx).Packets
	return model.SwitchPortState{SwitchPort: p.spec, Index: t.index, Detached: model.TriOf(!whole), Counts: counts}, nil
}

// holds reports whether a program was compiled from the port want. Only one of the two may be, if a process was killed while
// replacing them.
func holds(l link.Link, want *switchPort) (bool, error) {
	if l == nil {
		return false, nil
	}
	p, err := portOfLink(l)
	if p == nil || err != nil {
		return false, err
	}
	return p.id == want.id, p.Close()
}

// ports lists the taps that may be switch ports.
func (s *taps) ports() ([]string, error) {
	taps, err := s.pinned()
	s.mu.Lock()
	for tap := range s.open {
		taps = append(taps, tap)
	}
	s.mu.Unlock()
	slices.Sort(taps)
	return slices.Compact(taps), err
}

// portOf returns the switch port on a tap; Tap is "" if there is none.
func (s *taps) portOf(tap string) (now model.SwitchPortState, err error) {
	if t := s.opened(tap); t != nil {
		return t.portState(tap)
	}
	t, err := s.load(tap)
	if t == nil || errors.Is(err, errLayout) {
		return now, nil
	}
	if err != nil {
		return now, err
	}
	now, err = t.portState(tap)
	return now, errors.Join(err, t.Close())
}
