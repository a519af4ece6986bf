package netdev

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
)

// Counters are the 64-bit packet and byte counters of a link or VF since it was made.
type Counters struct {
	RxPackets, TxPackets uint64
	RxBytes, TxBytes     uint64
	RxDropped, TxDropped uint64
}

// Link is a network interface. Counters are the host's: a guest's transmit is its
// tap's Rx.
type Link struct {
	Index    int
	Name     string
	Kind     string // "tun" (also for taps), "bridge", "veth", "vlan"; "" for hardware
	Master   int    // ifindex of the bridge or bond it is a port of, 0: none
	Up       bool   // administratively up
	Carrier  bool   // a tap has carrier while something holds it open
	VLANs    bool   // a bridge that filters VLANs
	Bond     Bond   // of a bond
	Alias    string // what `ip link set alias` says
	Counters Counters
}

// Links lists all interfaces without VF information, in the kernel's order. It is one
// dump: of all attributes if the kernel told of any change since the last call, else
// of the counters alone, which costs a tenth. Carrier may lag by the second that the
// kernel takes to tell; Link asks afresh.
func (h *Devices) Links(ctx context.Context) ([]Link, error) {
	links, gen, ok := h.table.known()
	if ok {
		stats, err := rtnl.Dump(ctx, h.k.Read, StatsRequest(), DecodeStats)
		if err != nil {
			return nil, sysif.Fail("read counters of", "all links", err)
		}
		if merge(links, stats) {
			return links, nil
		}
	}
	links, err := rtnl.Dump(ctx, h.k.Read, linksRequest(), DecodeLink)
	if err != nil {
		return nil, sysif.Fail("list", "links", err)
	}
	h.table.learn(links, gen)
	return links, nil
}

// Link asks for one interface. If there is none of that name the error wraps
// model.ErrGone.
func (h *Devices) Link(ctx context.Context, name string) (Link, error) {
	l, err := rtnl.Get(ctx, h.k.Read, LinkRequest(name, 0), MustDecode(DecodeLink))
	return l, sysif.Fail("look up", "link "+name, err)
}

// linkTable remembers what Links saw last, and knows from the kernel's notifications
// whether it still holds.
type linkTable struct {
	note *rtnl.Listener

	mu    sync.Mutex
	gen   uint64 // counts the calls that found a change
	links []Link // nil: must be read afresh
}

func newLinkTable() (*linkTable, error) {
	l, err := rtnl.Listen(unix.RTNLGRP_LINK)
	if err != nil {
		return nil, err
	}
	return &linkTable{note: l}, nil
}

// known returns a copy of the table if nothing changed, and the generation that a
// fresh one belongs to.
func (t *linkTable) known() (links []Link, gen uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.note.Drain() {
		t.gen++
		t.links = nil
	}
	return slices.Clone(t.links), t.gen, t.links != nil
}

// learn keeps a fresh table, unless a change was noticed after its reader looked: then
// it may be older than that change.
func (t *linkTable) learn(links []Link, gen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gen == t.gen {
		t.links = slices.Clone(links)
	}
}

// merge puts fresh counters into links. It says no if they are not about the very
// same interfaces.
func merge(links []Link, stats []LinkStats) bool {
	if len(links) != len(stats) {
		return false
	}
	for i := range links {
		// Both dumps walk the interfaces in the same order.
		if links[i].Index != stats[i].Index {
			return false
		}
		links[i].Counters = stats[i].Counters
	}
	return true
}

// MoveLink gives an interface another name and network namespace, of which ns is a descriptor. It is down then.
func (h *Devices) MoveLink(ctx context.Context, name, as string, ns int) error {
	l, err := h.Link(ctx, name)
	if err == nil {
		req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, l.Index))
		err = h.k.Write.Do(ctx, req.String(unix.IFLA_IFNAME, as).U32(unix.IFLA_NET_NS_FD, uint32(ns))) //nolint:gosec // a descriptor
	}
	return sysif.Fail("move to another network namespace", name, err)
}
