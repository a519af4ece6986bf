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

// Shaper shares what the taps behind one PF send: an HTB tree on an ifb device of ours, which frames
// pass on their way from tap to bridge (see TapPolicy). A class below its Rate goes first; what is
// left of the Shaper's rate goes to the others up to their Ceil, by Quantum.
//
// The sum of the classes' rates must not exceed the Shaper's: HTB serves every class its rate, whatever
// stands above it.
//
// Rates are bits/s on the wire, preamble and gap included. Of a frame that the guest left to the NIC to
// cut up (GSO) these count once, so that up to 1.6 % more may leave.
type Shaper struct {
	PF      int           // ifindex of the PF whose link it shares
	Device  int           // ifindex of the ifb; ignored by SetShaper
	Rate    uint64        // of all classes together
	Queue   int           // bytes that may wait in each class; SetShaper gives it to new classes, Shapers does not tell it
	Classes []ShaperClass // by ID
}

// ShaperClass is a tap's part of a Shaper.
type ShaperClass struct {
	ID      uint16 // from 1 to MostShaped
	Rate    uint64 // always had
	Ceil    uint64 // never exceeded
	Quantum uint32 // bytes each time that its turn comes; at least the longest frame, or weights do not hold

	// What SetShaper ignores.
	Bytes, Packets uint64 // sent; layer 2, each packet of a GSO frame counted with its headers
	Waiting        uint32 // bytes in its queue
	Drops          uint32 // frames that found the queue full
}

// MostShaped is how many classes a Shaper can have.
const MostShaped = 1<<(16-shaperShift) - 2

// Handle is the classid: what TapPolicy.Class is to be. The frame keeps it as its priority when it comes back from
// the ifb, and nothing can take that away there. So its lowest four bits, by which pfifo_fast, mqprio and NICs choose
// a band, are zero as in any other frame, and its upper half is that of no qdisc but ours.
func (c *ShaperClass) Handle() uint32 { return shaperHandle | uint32(c.ID)<<shaperShift }

// same says whether the class is as it should be; the kernel keeps whole bytes/s.
func (c *ShaperClass) same(want *ShaperClass) bool {
	return c.Rate/8 == want.Rate/8 && c.Ceil/8 == want.Ceil/8 && c.Quantum == want.Quantum
}

// The names of our ifb devices: this and the PF's ifindex. A device of that name without our alias is
// somebody else's.
const (
	shaperPrefix = "slb"
	shaperAlias  = "sluice: what VMs send on virtio through PF "
)

func shaperName(pf int) string { return shaperPrefix + strconv.Itoa(pf) }

// SetShaper makes the Shaper of a PF so, changing only what differs and classes in place, and returns
// what stands then, as the kernel shows it. If there is an error too, that is not all that was wanted.
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
		// Whatever stands at the root of a device of ours is what a start that was cut short left.
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

// ErrNoShapers says that this kernel cannot have Shapers at all.
var ErrNoShapers = fmt.Errorf("%w: the kernel needs the modules ifb and sch_htb (modprobe)", model.ErrPermanent)

// lacking names what a kernel lacks that knows no such device or discipline.
func lacking(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", ErrNoShapers, err)
	}
	return err
}

// shaperDevice finds the ifb or makes it.
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
		return l, sysif.Permanent(fmt.Sprintf("there is a device of that name that is not Sluice's: rename it (ip link set %s name NAME)", name))
	case !l.Up:
		err = h.k.Write.Do(ctx, upRequest(l.Index))
	}
	return l, err
}

// nameShaper says in an ifb's alias what it is for.
func (h *Trees) nameShaper(ctx context.Context, dev, pf int) (alias string, err error) {
	l, err := rtnl.Get(ctx, h.k.Read, netdev.LinkRequestIndex(pf), netdev.MustDecode(netdev.DecodeLink))
	if err != nil {
		return "", err
	}
	alias = shaperAlias + l.Name
	return alias, h.k.Write.Do(ctx, aliasRequest(dev, alias))
}

// ours says whether a link is the ifb of a Shaper.
func ours(l *netdev.Link) bool {
	return l.Kind == "ifb" && strings.HasPrefix(l.Name, shaperPrefix) && strings.HasPrefix(l.Alias, shaperAlias)
}

func (h *Trees) classes(ctx context.Context, dev int) ([]classMsg, error) {
	return rtnl.Dump(ctx, h.k.Read, classesRequest(dev), decodeClass)
}

// shaperChanges lists what makes the classes those that are wanted. Those that are too many come last,
// so that what waits in them has been sent if it can be.
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
		reqs = append(reqs, delClassRequest(dev, id))
	}
	return reqs
}

// What the class of frames without a class has: in bits/s next to nothing, in bytes a turn like others.
const (
	restRate    = 8000
	restQuantum = 64 << 10
)

// fixed are the classes that every Shaper has: the root, and the one of frames without a class.
func (s *Shaper) fixed() (root, rest ShaperClass) {
	return ShaperClass{Rate: s.Rate, Ceil: s.Rate, Quantum: restQuantum}, ShaperClass{Rate: min(restRate, s.Rate), Ceil: s.Rate, Quantum: restQuantum}
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

// missing says what of a Shaper does not stand as it is wanted.
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

// Class finds the class with that ID, or nil.
func (s *Shaper) Class(id uint16) *ShaperClass {
	i, ok := slices.BinarySearchFunc(s.Classes, id, func(c ShaperClass, id uint16) int { return int(c.ID) - int(id) })
	if !ok {
		return nil
	}
	return &s.Classes[i]
}

// Shapers lists those that stand, with what each class has sent.
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

// RemoveShaper removes a PF's Shaper, with what waits in it. Frames that a TapPolicy still leads to it
// are lost: take it out of those first. That there is none is no error.
func (h *Trees) RemoveShaper(ctx context.Context, pf int) error {
	name := shaperName(pf)
	l, err := h.links.Link(ctx, name)
	switch {
	case errors.Is(err, model.ErrGone):
		return nil
	case err == nil && ours(&l):
		err = h.k.Write.Do(ctx, delLinkRequest(l.Index))
	}
	if err = sysif.Fail("remove shaper", name, err); errors.Is(err, model.ErrGone) {
		return nil
	}
	return err
}

// Shapable says whether what comes in from a tap can be led through a Shaper: whether nobody filters it there.
func (h *Trees) Shapable(ctx context.Context, tap string, index int) (bool, error) {
	err := h.links.NoFilters(ctx, tap, index)
	if errors.Is(err, model.ErrPermanent) {
		return false, nil
	}
	return err == nil, err
}
