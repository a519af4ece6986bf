// Package htb shares a PF's link among taps with HTB trees, each on its own ifb device.
package htb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Trees manages the HTB trees of a network namespace.
type Trees struct {
	k     *sysif.Kernel
	links *netdev.Devices
}

// New returns the Trees of the namespace. They need no closing.
func New(k *sysif.Kernel, links *netdev.Devices) *Trees { return &Trees{k: k, links: links} }

// Shaper shares the link of one PF among the taps behind it: an HTB tree on an ifb device, which frames pass on their way from
// tap to bridge (see TapPolicy). Classes below their Rate go first. What is left of the Shaper's rate goes to the others up to
// their Ceil, in proportion to Quantum.
//
// The sum of the classes' rates must not exceed the Shaper's rate, because HTB serves every class its rate regardless of its
// parents.
//
// Rates are bits/s on the wire, including preamble and gap. A frame that the guest left to the NIC to segment (GSO) counts these
// only once, so up to 1.6 % more may be sent.
type Shaper struct {
	PF      int           // ifindex of the PF whose link is shared
	Device  int           // ifindex of the ifb; ignored by SetShaper
	Rate    uint64        // of all classes together
	Queue   int           // limit of each class's queue in bytes; SetShaper applies it to new classes, Shapers does not report it
	Classes []ShaperClass // by ID
}

// ShaperClass is the share of one tap in a Shaper.
type ShaperClass struct {
	ID      uint16 // from 1 to MostShaped
	Rate    uint64 // guaranteed
	Ceil    uint64 // maximum
	Quantum uint32 // bytes per turn; must be at least the longest frame, or weights do not hold

	// Ignored by SetShaper.
	Bytes, Packets uint64 // sent; layer 2, counting each packet of a GSO frame with its headers
	Waiting        uint32 // bytes in its queue
	Drops          uint32 // frames dropped because the queue was full
}

// MostShaped is how many classes a Shaper can have.
const MostShaped = 1<<(16-shaperShift) - 2

// Handle is the classid, for TapPolicy.Class. A frame keeps it as its priority when it returns from the ifb, where nothing can
// reset it. Its lowest four bits, by which pfifo_fast, mqprio and NICs choose a band, are therefore zero as in any other frame,
// and its upper half is that of no other qdisc.
func (c *ShaperClass) Handle() uint32 { return shaperHandle | uint32(c.ID)<<shaperShift }

// same reports whether the class is configured as wanted, within the kernel's resolution of bytes/s.
func (c *ShaperClass) same(want *ShaperClass) bool {
	return c.Rate/8 == want.Rate/8 && c.Ceil/8 == want.Ceil/8 && c.Quantum == want.Quantum
}

// Our ifb devices are named shaperPrefix and the PF's ifindex. A device of that name without our alias is not ours.
const (
	shaperPrefix = "slb"
	shaperAlias  = "sluice: what VMs send on virtio through PF "
)

func shaperName(pf int) string { return shaperPrefix + strconv.Itoa(pf) }

// SetShaper configures the Shaper of a PF. It changes only what differs, and classes in place, and returns the resulting state as
// the kernel reports it, also together with an error if that state is not what was wanted.
func (h *Trees) SetShaper(ctx context.Context, want Shaper) (now Shaper, err error) {
	name := shaperName(want.PF)
	err = h.k.Busy.Acquire(ctx, "shaper "+name)
	if err == nil {
		defer h.k.Busy.Release("shaper " + name)
		now, err = h.setShaper(ctx, &want, name)
	}
	return now, sysif.Fail("set shaper", name, err)
}

func (h *Trees) setShaper(ctx context.Context, want *Shaper, name string) (now Shaper, err error) {
	l, err := h.shaperDevice(ctx, name, want.PF)
	if err != nil {
		return now, err
	}
	have, err := h.classes(ctx, l.Index)
	if err != nil {
		return now, err
	}
	if len(have) == 0 {
		// Anything at the root of our device without classes is left from an interrupted start.
		if err := h.k.Write.Do(ctx, htbRequest(l.Index)); err != nil && !errors.Is(err, unix.EEXIST) {
			return now, lacking(err)
		}
	}
	reqs := shaperChanges(l.Index, have, want)
	errs := h.k.Write.DoAll(ctx, reqs)
	if len(reqs) > 0 {
		if have, err = h.classes(ctx, l.Index); err != nil {
			return now, errors.Join(append(errs, err)...)
		}
	}
	now = shaperOf(want.PF, l.Index, have)
	now.Queue = want.Queue
	return now, errors.Join(append(errs, missing(&now, want))...)
}

// ErrNoShapers means that this kernel does not support Shapers.
var ErrNoShapers = fmt.Errorf("%w: the kernel needs the modules ifb and sch_htb (modprobe)", model.ErrPermanent)

// lacking adds ErrNoShapers to the error of a kernel without ifb or HTB.
func lacking(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", ErrNoShapers, err)
	}
	return err
}

// shaperDevice finds or creates the ifb.
func (h *Trees) shaperDevice(ctx context.Context, name string, pf int) (netdev.Link, error) {
	l, err := h.links.Link(ctx, name)
	if errors.Is(err, model.ErrGone) {
		if err := h.k.Write.Do(ctx, ifbRequest(name)); err != nil {
			return l, lacking(err)
		}
		if l, err = h.links.Link(ctx, name); err != nil {
			return l, err
		}
		l.Alias, err = h.nameShaper(ctx, l.Index, pf)
	}
	switch {
	case err != nil:
		return l, err
	case !ours(&l):
		return l, sysif.Permanent(fmt.Sprintf("another device has that name: rename it (ip link set %s name NAME)", name))
	case !l.Up:
		err = h.k.Write.Do(ctx, upRequest(l.Index))
	}
	return l, err
}

// nameShaper records the purpose of an ifb in its alias.
func (h *Trees) nameShaper(ctx context.Context, dev, pf int) (alias string, err error) {
	l, err := rtnl.Get(ctx, h.k.Read, netdev.LinkRequestIndex(pf), netdev.MustDecode(netdev.DecodeLink))
	if err != nil {
		return "", err
	}
	alias = shaperAlias + l.Name
	req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, dev)).String(unix.IFLA_IFALIAS, alias)
	return alias, h.k.Write.Do(ctx, req)
}

// ours reports whether a link is the ifb of a Shaper.
func ours(l *netdev.Link) bool {
	return l.Kind == "ifb" && strings.HasPrefix(l.Name, shaperPrefix) && strings.HasPrefix(l.Alias, shaperAlias)
}

func (h *Trees) classes(ctx context.Context, dev int) ([]classMsg, error) {
	return rtnl.Dump(ctx, h.k.Read, rtnl.NewRequest(unix.RTM_GETTCLASS, 0, rtnl.Traffic(dev, 0, 0)), decodeClass)
}

// shaperChanges lists the requests that turn the classes into the wanted ones. Classes to be removed come last, to give their
// queues time to drain.
func shaperChanges(dev int, have []classMsg, want *Shaper) (reqs []*rtnl.Request) {
	left := map[uint32]*classMsg{}
	for i := range have {
		left[have[i].id] = &have[i]
	}
	set := func(id uint32, c ShaperClass) {
		was := left[id]
		delete(left, id)
		if was == nil || !was.same(&c) {
			reqs = append(reqs, classRequest(dev, id, c))
		}
		if id != shaperRoot && (was == nil || !was.queued) {
			reqs = append(reqs, fifoRequest(dev, id, want.Queue))
		}
	}
	root, rest := want.fixed()
	set(shaperRoot, root)
	set(shaperRest, rest)
	for _, c := range want.Classes {
		set(c.Handle(), c)
	}
	for id := range left {
		reqs = append(reqs, rtnl.NewRequest(unix.RTM_DELTCLASS, 0, rtnl.Traffic(dev, id, 0)))
	}
	return reqs
}

// Rate and quantum of the class for unclassified frames: almost no guaranteed rate, but a normal turn.
const (
	restRate    = 8000
	restQuantum = 64 << 10
)

// fixed returns the classes that every Shaper has: the root, and the one for unclassified frames.
func (s *Shaper) fixed() (root, rest ShaperClass) {
	return ShaperClass{Rate: s.Rate, Ceil: s.Rate, Quantum: restQuantum},
		ShaperClass{Rate: min(restRate, s.Rate), Ceil: s.Rate, Quantum: restQuantum}
}

func shaperOf(pf, dev int, classes []classMsg) Shaper {
	s := Shaper{PF: pf, Device: dev}
	for _, c := range classes {
		switch c.id {
		case shaperRoot:
			s.Rate = c.Rate
		case shaperRest:
		default:
			s.Classes = append(s.Classes, c.ShaperClass)
		}
	}
	slices.SortFunc(s.Classes, func(a, b ShaperClass) int { return int(a.ID) - int(b.ID) })
	return s
}

// missing returns how a Shaper differs from the wanted one.
func missing(now, want *Shaper) error {
	var errs []error
	if now.Rate/8 != want.Rate/8 {
		errs = append(errs, fmt.Errorf("the kernel shows a rate of %d bit/s, not %d", now.Rate, want.Rate))
	}
	for i := range want.Classes {
		w := &want.Classes[i]
		c := now.Class(w.ID)
		if c == nil || !c.same(w) {
			errs = append(errs, fmt.Errorf("the kernel does not show class %d as it was set", w.ID))
		}
	}
	return errors.Join(errs...)
}

// Class returns the class with that ID, or nil.
func (s *Shaper) Class(id uint16) *ShaperClass {
	i, ok := slices.BinarySearchFunc(s.Classes, id, func(c ShaperClass, id uint16) int { return int(c.ID) - int(id) })
	if !ok {
		return nil
	}
	return &s.Classes[i]
}

// Shapers lists the existing Shapers with the counters of their classes.
func (h *Trees) Shapers(ctx context.Context) ([]Shaper, error) {
	links, err := h.links.Links(ctx)
	if err != nil {
		return nil, err
	}
	var all []Shaper
	for i := range links {
		l := &links[i]
		pf, err := strconv.Atoi(strings.TrimPrefix(l.Name, shaperPrefix))
		if err != nil || !ours(l) {
			continue
		}
		classes, err := h.classes(ctx, l.Index)
		if err != nil {
			return nil, sysif.Fail("read shaper", l.Name, err)
		}
		all = append(all, shaperOf(pf, l.Index, classes))
	}
	return all, nil
}

// RemoveShaper removes a PF's Shaper and the frames queued in it. Frames that a TapPolicy still redirects to it are lost, so the
// caller must change the policies first. It is not an error if there is no Shaper.
func (h *Trees) RemoveShaper(ctx context.Context, pf int) error {
	name := shaperName(pf)
	l, err := h.links.Link(ctx, name)
	switch {
	case errors.Is(err, model.ErrGone):
		return nil
	case err == nil && ours(&l):
		err = h.k.Write.Do(ctx, rtnl.NewRequest(unix.RTM_DELLINK, 0, rtnl.Link(unix.AF_UNSPEC, l.Index)))
	}
	if err = sysif.Fail("remove shaper", name, err); errors.Is(err, model.ErrGone) {
		return nil
	}
	return err
}

// Shapable reports whether frames from a tap can be redirected to a Shaper, that is, whether no filter at its ingress would miss
// them.
func (h *Trees) Shapable(ctx context.Context, tap string, index int) (bool, error) {
	err := h.links.NoFilters(ctx, tap, index)
	if errors.Is(err, model.ErrPermanent) {
		return false, nil
	}
	return err == nil, err
}
