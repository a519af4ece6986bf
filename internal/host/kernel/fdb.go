package kernel

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/model"
)

// FDBEntry is a static entry of a bridge.
type FDBEntry struct {
	MAC    model.MAC
	Port   string // bridge port
	Bridge string
	VLAN   int // 0: the bridge does not filter VLANs
}

// FDBEntries returns the static bridge entries of all bridges, sorted by MAC, port and VLAN.
func (h *Host) FDBEntries(ctx context.Context) ([]FDBEntry, error) {
	links, err := h.Links(ctx)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Index] = l.Name
	}
	var entries []FDBEntry
	for _, l := range links {
		if l.Kind != "bridge" {
			continue
		}
		msgs, err := h.pins(ctx, l)
		if err != nil && !errors.Is(err, model.ErrGone) {
			return nil, err
		}
		entries = append(entries, named(msgs, names)...)
	}
	slices.SortFunc(entries, func(a, b FDBEntry) int {
		return cmp.Or(slices.Compare(a.MAC[:], b.MAC[:]), cmp.Compare(a.Port, b.Port), cmp.Compare(a.VLAN, b.VLAN))
	})
	return entries, nil
}

// named turns interface indexes into names, leaving out entries of ports that came or
// went since the names were read.
func named(msgs []fdbMsg, names map[int]string) []FDBEntry {
	var entries []FDBEntry
	for _, m := range msgs {
		port, bridge := names[m.port], names[m.bridge]
		if port != "" && bridge != "" {
			entries = append(entries, FDBEntry{MAC: m.mac, Port: port, Bridge: bridge, VLAN: m.vlan})
		}
	}
	return entries
}

// pins returns the static entries of one bridge that count.
func (h *Host) pins(ctx context.Context, bridge Link) ([]fdbMsg, error) {
	msgs, err := rtnl.Dump(ctx, h.read, fdbDump(bridge.Index, 0), pinnedOnly)
	if err != nil {
		return nil, fail("list entries of", "bridge "+bridge.Name, err)
	}
	// Kernels without filters in dumps tell of all bridges.
	return slices.DeleteFunc(msgs, func(m fdbMsg) bool {
		return m.bridge != bridge.Index || !m.counts(bridge.VLANs)
	}), nil
}

// PinFDB makes a static bridge entry for mac on port, moving it there from wherever it
// was in port's bridge. vlan counts only if the bridge filters VLANs; 0 means every
// VLAN of the port.
//
// To the kernel, static means that the entry does not age. A frame with the source
// address mac still moves it, if it comes in through a port that learns: hence
// PreparePort for the PF. At the guest's own tap that is welcome: when a guest loses its
// VF and sends through virtio, the bridge follows by itself, even while nobody is
// watching. But another guest that forges the address can pull the entry too, and that of
// a guest on a VF does not come back by itself. Where nothing else keeps guests from
// forging (libvirt's no-mac-spoofing filter does), Options.StickyPins does.
func (h *Host) PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	err := wantUnicast(mac)
	if err == nil {
		err = h.pin(ctx, mac, vlan, port)
	}
	return fail("pin "+mac.String()+" to", port, err)
}

func (h *Host) pin(ctx context.Context, mac model.MAC, vlan int, port string) error {
	p, err := h.port(ctx, port)
	if err != nil {
		return err
	}
	if err := h.write.Do(ctx, pinRequest(mac, p.entryVLAN(vlan), p.Index, h.sticky)); err != nil {
		return err
	}
	return h.settlePins(ctx, mac, vlan, p)
}

// settlePins reads back a pin. Where VLANs are filtered, entries for the same MAC on
// another port's VLANs stay behind a move; they are removed.
func (h *Host) settlePins(ctx context.Context, mac model.MAC, vlan int, p bridgePort) error {
	all, err := h.pins(ctx, p.bridge)
	if err != nil {
		return err
	}
	found := false
	for _, m := range all {
		switch {
		case m.mac != mac:
		case m.port == p.Index:
			found = true
		case vlan == 0:
			if err := h.unpin(ctx, unpinRequest(mac, m.vlan, m.port)); err != nil {
				return err
			}
		}
	}
	if !found {
		return errors.New("the kernel took it, but does not show it")
	}
	return nil
}

// UnpinFDB removes the static bridge entry for mac on port. That there is none is no error.
func (h *Host) UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	op := "unpin " + mac.String() + " from"
	p, err := h.port(ctx, port)
	if err == nil {
		err = h.unpin(ctx, unpinRequest(mac, p.entryVLAN(vlan), p.Index))
	}
	if errors.Is(err, model.ErrGone) || errors.Is(err, errNotPort) {
		return nil
	}
	return fail(op, port, err)
}

func (h *Host) unpin(ctx context.Context, req *rtnl.Request) error {
	err := h.write.Do(ctx, req)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// bridgePort is a port of a bridge.
type bridgePort struct {
	Link
	bridge Link
}

// entryVLAN is the VLAN to name in an entry: a bridge that does not filter VLANs looks
// none up, so that an entry with one would never match.
func (p bridgePort) entryVLAN(vlan int) int {
	if !p.bridge.VLANs {
		return 0
	}
	return vlan
}

// port looks up a bridge port. It is an error if the link is no port of a bridge.
func (h *Host) port(ctx context.Context, name string) (p bridgePort, err error) {
	if p.Link, err = h.Link(ctx, name); err != nil {
		return p, err
	}
	if p.Master == 0 {
		return p, errNotPort
	}
	p.bridge, err = rtnl.Get(ctx, h.read, linkRequestIndex(p.Master), mustDecode(decodeLink))
	if err == nil && p.bridge.Kind != "bridge" {
		err = errNotPort
	}
	return p, err
}

// AddSelf adds a unicast filter for mac to the PF itself, so that frames for it from VFs
// and the wire reach the host. Drivers with few filters refuse with unix.ENOMEM or unix.ENOSPC,
// others with unix.EOPNOTSUPP.
func (h *Host) AddSelf(ctx context.Context, pf string, mac model.MAC) error {
	err := wantUnicast(mac)
	if err == nil {
		err = h.changeSelf(ctx, unix.RTM_NEWNEIGH, unix.NLM_F_CREATE, pf, mac)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return fail("add filter for "+mac.String()+" to", pf, err)
}

// DelSelf removes such a filter. That there is none is no error.
func (h *Host) DelSelf(ctx context.Context, pf string, mac model.MAC) error {
	err := h.changeSelf(ctx, unix.RTM_DELNEIGH, 0, pf, mac)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, model.ErrGone) {
		return nil
	}
	// A driver that has no filters says so in many ways.
	if macs, rerr := h.Selfs(ctx, pf); rerr == nil && !slices.Contains(macs, mac) {
		return nil
	}
	return fail("remove filter for "+mac.String()+" from", pf, err)
}

func (h *Host) changeSelf(ctx context.Context, typ, flags uint16, pf string, mac model.MAC) error {
	l, err := h.Link(ctx, pf)
	if err != nil {
		return err
	}
	return h.write.Do(ctx, selfRequest(typ, flags, mac, l.Index))
}

// Selfs lists the PF's own unicast filters, sorted.
func (h *Host) Selfs(ctx context.Context, pf string) ([]model.MAC, error) {
	l, err := h.Link(ctx, pf)
	if err != nil {
		return nil, err
	}
	return h.selfs(ctx, pf, l.Index)
}

func (h *Host) selfs(ctx context.Context, pf string, index int) ([]model.MAC, error) {
	macs, err := rtnl.Dump(ctx, h.read, fdbDump(0, index), filtersOf(index))
	slices.SortFunc(macs, func(a, b model.MAC) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(macs), fail("list filters of", pf, err)
}

// PreparePort turns learning off on the PF's bridge port, so that frames that come back
// from the wire do not teach the bridge that a guest lives there.
func (h *Host) PreparePort(ctx context.Context, pf string) error {
	const op = "turn learning off on"
	learning, err := rtnl.Get(ctx, h.read, linkRequest(pf, extSkipStats), decodeLearning)
	if err != nil || !learning {
		return fail(op, pf, err)
	}
	l, err := h.Link(ctx, pf)
	if err == nil {
		err = h.write.Do(ctx, learningRequest(l.Index, false))
	}
	if err != nil {
		return fail(op, pf, err)
	}
	learning, err = rtnl.Get(ctx, h.read, linkRequest(pf, extSkipStats), decodeLearning)
	if err == nil && learning {
		err = errors.New("the kernel took it, but still learns")
	}
	return fail(op, pf, err)
}
