package netdev

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
)

// Bond is the state of a bond.
type Bond struct {
	Mode   BondMode
	Active int // ifindex of the active port of an active-backup bond, 0: none
}

// BondMode is a bonding mode of linux/if_bonding.h.
type BondMode uint8

// ActiveBackup is the mode in which one port at a time sends and receives.
const ActiveBackup BondMode = 1

var bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// String prints the mode as ip(8) does.
func (m BondMode) String() string {
	if int(m) < len(bondModes) {
		return bondModes[m]
	}
	return fmt.Sprintf("mode %d", m)
}

// Counters are the 64-bit packet and byte counters of a link or VF since its creation.
type Counters struct {
	RxPackets, TxPackets uint64
	RxBytes, TxBytes     uint64
	RxDropped, TxDropped uint64
}

// Link is a network interface. Counters are from the host's point of view: a guest transmits to its tap's Rx.
type Link struct {
	Index    int
	Name     string
	Kind     string // "tun" (also for taps), "bridge", "veth", "vlan"; "" for hardware
	Master   int    // ifindex of the bridge or bond it is a port of, 0: none
	Up       bool   // administratively up
	Carrier  bool   // a tap has carrier while a process holds it open
	VLANs    bool   // a bridge with VLAN filtering
	Bond     Bond   // if it is a bond
	Alias    string // as set by `ip link set alias`
	Port     string // name of the NIC's port that it stands for (phys_port_name), such as "p0" or "pf0vf3"; "": unknown
	Switch   string // hexadecimal ID of the NIC's embedded switch that it is a port of (phys_switch_id); "": none
	Counters Counters
}

// Links lists all interfaces without VF information, in the kernel's order. It takes one dump: of all attributes if the kernel
// notified of a change since the last call, else only of the counters, which costs a tenth. Carrier may lag by the second that
// the notification takes; Link always asks the kernel.
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

// Link looks up one interface. If there is none of that name, the error wraps model.ErrGone.
func (h *Devices) Link(ctx context.Context, name string) (Link, error) {
	l, err := rtnl.Get(ctx, h.k.Read, LinkRequest(name, 0), MustDecode(DecodeLink))
	return l, sysif.Fail("look up", "link "+name, err)
}

// linkTable caches the result of Links and uses the kernel's notifications to tell whether it is still valid.
type linkTable struct {
	note *rtnl.Listener

	mu    sync.Mutex
	gen   uint64 // incremented by each call that finds a change
	links []Link // nil: must be read again
}

func newLinkTable() (*linkTable, error) {
	l, err := rtnl.Listen(unix.RTNLGRP_LINK)
	if err != nil {
		return nil, err
	}
	return &linkTable{note: l}, nil
}

// known returns a copy of the table if nothing changed, and the generation for learn.
func (t *linkTable) known() (links []Link, gen uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.note.Drain() {
		t.gen++
		t.links = nil
	}
	return slices.Clone(t.links), t.gen, t.links != nil
}

// learn stores a table, unless a later call noticed a change, which the table may not include.
func (t *linkTable) learn(links []Link, gen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gen == t.gen {
		t.links = slices.Clone(links)
	}
}

// merge copies counters into links. It returns false if the two lists are not about the same interfaces.
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

// SetUp sets an interface up.
func (h *Devices) SetUp(ctx context.Context, name string) error {
	l, err := h.Link(ctx, name)
	if err == nil && !l.Up {
		msg := rtnl.Link(unix.AF_UNSPEC, l.Index)
		binary.NativeEndian.PutUint32(msg[8:], unix.IFF_UP)
		binary.NativeEndian.PutUint32(msg[12:], unix.IFF_UP)
		err = h.k.Write.Do(ctx, rtnl.NewRequest(unix.RTM_SETLINK, 0, msg))
	}
	return sysif.Fail("set up", name, err)
}

// MoveLink renames an interface and moves it to the network namespace with descriptor ns. The interface is down afterwards.
func (h *Devices) MoveLink(ctx context.Context, name, as string, ns int) error {
	l, err := h.Link(ctx, name)
	if err == nil {
		req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, l.Index))
		err = h.k.Write.Do(ctx, req.String(unix.IFLA_IFNAME, as).U32(unix.IFLA_NET_NS_FD, uint32(ns))) //nolint:gosec // a descriptor
	}
	return sysif.Fail("move to another network namespace", name, err)
}
