package tap

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/internal/host/sysif"
)

// mayShape says why frames may not go to a shaper, where there was none yet, and takes off a
// program of ours that others have come behind, for attach to put it behind them. That of a switch port
// stays before them: a program that ends its turn with TCX_PASS, as many do, would take what follows out of the way.
func (s *taps) mayShape(tap string, t *policedTap, fresh bool, ask tapQuestions) error {
	if fresh {
		if err := ask.noFilters(t.index); err != nil {
			return err
		}
	}
	ids, at, err := t.place()
	switch {
	case err != nil || at < 0 || at == len(ids)-1:
		return err
	case t.port != nil:
		return sysif.Permanent("somebody else has a TCX program on the tap, behind that of the switch port, and would not see what goes to a shaper " +
			"(bpftool net show dev " + tap + ")")
	}
	return s.takeOff(tap, t, dirTx)
}

// place says which programs are at the tap's ingress, and at which place ours is, -1: nowhere.
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

// comeFirst takes off a program that stands behind others on a tap that is no port yet: that of a port comes before them.
func (s *taps) comeFirst(tap string, t *policedTap) error {
	if t.port != nil {
		return nil
	}
	if _, at, err := t.place(); err != nil || at <= 0 {
		return err
	}
	return s.takeOff(tap, t, dirTx)
}
