package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// FDBEntry is a static FDB entry of a bridge.
type FDBEntry struct {
	MAC    model.MAC
	Port   string // bridge port
	Bridge string
	VLAN   int // 0: the bridge does not filter VLANs
}

// FDBEntries returns the static FDB entries of all bridges, sorted by MAC, port and VLAN.
func (h *Bridges) FDBEntries(ctx context.Context) ([]FDBEntry, error) {
	links, err := h.links.Links(ctx)
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

// named converts interface indexes to names and omits entries of ports that appeared or vanished since the names were read.
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

// pins returns the effective static entries of one bridge.
func (h *Bridges) pins(ctx context.Context, bridge netdev.Link) ([]fdbMsg, error) {
	msgs, err := rtnl.Dump(ctx, h.k.Read, fdbDump(bridge.Index, 0), pinnedOnly)
	if err != nil {
		return nil, sysif.Fail("list entries of", "bridge "+bridge.Name, err)
	}
	// Kernels that cannot filter dumps return the entries of all bridges.
	return slices.DeleteFunc(msgs, func(m fdbMsg) bool {
		return m.bridge != bridge.Index || !m.counts(bridge.VLANs)
	}), nil
}

// PinFDB creates a static FDB entry for mac on port, moving it there from elsewhere in port's bridge. vlan is ignored unless the
// bridge filters VLANs; 0 means every VLAN of the port.
//
// To the kernel, static only means that the entry does not age. A frame with source address mac still moves it if it enters
// through a learning port; hence PreparePort for the PF. At the guest's own tap this is useful: when a guest loses its VF and
// sends through virtio, the bridge follows by itself, even while the daemon is not running. But another guest that forges the
// address can move the entry too, and that of a guest on a VF does not move back by itself. Unless something else prevents
// forging (as libvirt's no-mac-spoofing filter does), Options.StickyPins does.
func (h *Bridges) PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	err := sysif.WantUnicast(mac)
	if err == nil {
		err = h.pin(ctx, mac, vlan, port)
	}
	return sysif.Fail("pin "+mac.String()+" to", port, err)
}

func (h *Bridges) pin(ctx context.Context, mac model.MAC, vlan int, port string) error {
	p, err := h.port(ctx, port)
	if err != nil {
		return err
	}
	if err := h.k.Write.Do(ctx, pinRequest(mac, p.entryVLAN(vlan), p.Index, h.sticky)); err != nil {
		return err
	}
	return h.settlePins(ctx, mac, vlan, p)
}

// settlePins verifies a pin. If the bridge filters VLANs, moving an entry leaves entries for the same MAC in other VLANs of the
// old port; settlePins removes them.
func (h *Bridges) settlePins(ctx context.Context, mac model.MAC, vlan int, p bridgePort) error {
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
		return errors.New("the kernel accepted it but does not show it")
	}
	return nil
}

// UnpinFDB removes the static FDB entry for mac on port. It is not an error if there is none.
func (h *Bridges) UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	p, err := h.port(ctx, port)
	if err == nil {
		err = h.unpin(ctx, unpinRequest(mac, p.entryVLAN(vlan), p.Index))
	}
	if errors.Is(err, model.ErrGone) || errors.Is(err, ErrNotPort) {
		return nil
	}
	return sysif.Fail("unpin "+mac.String()+" from", port, err)
}

func (h *Bridges) unpin(ctx context.Context, req *rtnl.Request) error {
	err := h.k.Write.Do(ctx, req)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// bridgePort is a port of a bridge.
type bridgePort struct {
	netdev.Link
	bridge netdev.Link
}

// entryVLAN is the VLAN for an entry. A bridge that does not filter VLANs looks up entries without VLAN only.
func (p bridgePort) entryVLAN(vlan int) int {
	if !p.bridge.VLANs {
		return 0
	}
	return vlan
}

// port looks up a bridge port. It returns ErrNotPort if the link is not a port of a bridge.
func (h *Bridges) port(ctx context.Context, name string) (p bridgePort, err error) {
	if p.Link, err = h.links.Link(ctx, name); err != nil {
		return p, err
	}
	if p.Master == 0 {
		return p, ErrNotPort
	}
	p.bridge, err = rtnl.Get(ctx, h.k.Read, netdev.LinkRequestIndex(p.Master), netdev.MustDecode(netdev.DecodeLink))
	if err == nil && p.bridge.Kind != "bridge" {
		err = ErrNotPort
	}
	return p, err
}

// AddSelf adds a unicast filter for mac to the PF itself, so that frames for it from VFs and the wire reach the host. Drivers out
// of filters return unix.ENOMEM or unix.ENOSPC, those without filters unix.EOPNOTSUPP.
func (h *Bridges) AddSelf(ctx context.Context, pf string, mac model.MAC) error {
	err := sysif.WantUnicast(mac)
	if err == nil {
		err = h.changeSelf(ctx, unix.RTM_NEWNEIGH, unix.NLM_F_CREATE, pf, mac)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return sysif.Fail("add filter for "+mac.String()+" to", pf, err)
}

// DelSelf removes a filter added by AddSelf. It is not an error if there is none.
func (h *Bridges) DelSelf(ctx context.Context, pf string, mac model.MAC) error {
	err := h.changeSelf(ctx, unix.RTM_DELNEIGH, 0, pf, mac)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, model.ErrGone) {
		return nil
	}
	// Drivers without filters return various errors.
	if macs, rerr := h.Selfs(ctx, pf); rerr == nil && !slices.Contains(macs, mac) {
		return nil
	}
	return sysif.Fail("remove filter for "+mac.String()+" from", pf, err)
}

func (h *Bridges) changeSelf(ctx context.Context, typ, flags uint16, pf string, mac model.MAC) error {
	l, err := h.links.Link(ctx, pf)
	if err != nil {
		return err
	}
	return h.k.Write.Do(ctx, selfRequest(typ, flags, mac, l.Index))
}

// Selfs lists the PF's own unicast filters, sorted.
func (h *Bridges) Selfs(ctx context.Context, pf string) ([]model.MAC, error) {
	l, err := h.links.Link(ctx, pf)
	if err != nil {
		return nil, err
	}
	return h.SelfsOf(ctx, pf, l.Index)
}

// SelfsOf is Selfs for a PF whose ifindex is known.
func (h *Bridges) SelfsOf(ctx context.Context, pf string, index int) ([]model.MAC, error) {
	macs, err := rtnl.Dump(ctx, h.k.Read, fdbDump(0, index), filtersOf(index))
	slices.SortFunc(macs, func(a, b model.MAC) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(macs), sysif.Fail("list filters of", pf, err)
}

// PreparePort disables learning on the PF's bridge port, so that frames returning from the wire do not make the bridge learn a
// guest's address there.
func (h *Bridges) PreparePort(ctx context.Context, pf string) error {
	const op = "disable learning on"
	learning, err := h.portFlag(ctx, pf, unix.IFLA_BRPORT_LEARNING)
	if err != nil || !learning {
		return sysif.Fail(op, pf, err)
	}
	l, err := h.links.Link(ctx, pf)
	if err == nil {
		err = h.setPortFlag(ctx, &l, unix.IFLA_BRPORT_LEARNING, false)
	}
	return sysif.Fail(op, pf, err)
}

// portFlag reads a flag of a bridge port. It returns ErrNotPort if the link is not a port of a bridge.
func (h *Bridges) portFlag(ctx context.Context, dev string, flag uint16) (bool, error) {
	on, err := h.portByte(ctx, dev, flag)
	return on != 0, err
}

// portByte reads an attribute of a bridge port. It returns ErrNotPort if the link is not a port of a bridge.
func (h *Bridges) portByte(ctx context.Context, dev string, attr uint16) (uint8, error) {
	return rtnl.Get(ctx, h.k.Read, netdev.LinkRequest(dev, netdev.ExtSkipStats), decodePort(attr))
}

// setPortFlag sets a flag of a bridge port and verifies it by reading back.
func (h *Bridges) setPortFlag(ctx context.Context, l *netdev.Link, flag uint16, on bool) error {
	if err := h.k.Write.Do(ctx, portFlagRequest(l.Index, flag, on)); err != nil {
		return err
	}
	now, err := h.portFlag(ctx, l.Name, flag)
	if err == nil && now != on {
		err = errors.New("the kernel accepted it but does not show it")
	}
	return err
}

// PinIfNowhere pins the MAC to a port unless it is pinned to another port.
func (h *Bridges) PinIfNowhere(ctx context.Context, mac model.MAC, vlan int, port string) error {
	p, err := h.port(ctx, port)
	if err != nil {
		return sysif.Fail("look up the entry of "+mac.String()+" before pinning it to", port, err)
	}
	pins, err := h.pins(ctx, p.bridge)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(pins, func(m fdbMsg) bool { return m.mac == mac && m.port != p.Index }) {
		return nil
	}
	return h.PinFDB(ctx, mac, vlan, port)
}
