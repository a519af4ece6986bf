package kernel

import "context"

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
	Counters Counters
}

// Links lists all interfaces in one dump without VF information, in the kernel's order.
func (h *Host) Links(ctx context.Context) ([]Link, error) { return nil, errTodo }
