package tap

import (
	"context"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/internal/host/sysif"
)

// mayShape returns the reason why frames may not be redirected to a shaper; fresh means that there was no such shaper before. If
// other programs have attached behind ours, it detaches ours for attach to put it behind them. The program of a switch port stays
// in front, because many programs end with TCX_PASS, which skips all that follow.
func (s *taps) mayShape(ctx context.Context, tap string, t *policedTap, fresh bool) error {
	if fresh {
		if err := s.links.NoFilters(ctx, tap, t.index); err != nil {
			return err
		}
	}
	ids, at, err := t.place()
	switch {
	case err != nil || at < 0 || at == len(ids)-1:
		return err
	case t.port != nil:
		return sysif.Permanent("a TCX program of somebody else runs behind that of the switch port, and would not see frames " +
			"that go to a shaper (bpftool net show dev " + tap + ")")
	}
	return s.takeOff(tap, t, dirTx)
}

// place returns the programs at the tap's ingress and the index of ours among them, -1 if it is not there.
func (t *policedTap) place() (ids []link.AttachedProgram, at int, err error) {
	l := t.links[dirTx]
	if l == nil {
		return nil, -1, nil
	}
	info, err := l.Info()
	if err != nil {
		return nil, -1, err
	}
	all, err := link.QueryPrograms(link.QueryOptions{Target: t.index, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return nil, -1, err
	}
	at = slices.IndexFunc(all.Programs, func(p link.AttachedProgram) bool { return p.ID == info.Program })
	return all.Programs, at, nil
}

// comeFirst detaches our program if it is behind others on a tap that is not a port yet, because the program of a port must come
// first.
func (s *taps) comeFirst(tap string, t *policedTap) error {
	if t.port != nil {
		return nil
	}
	if _, at, err := t.place(); err != nil || at <= 0 {
		return err
	}
	return s.takeOff(tap, t, dirTx)
}
