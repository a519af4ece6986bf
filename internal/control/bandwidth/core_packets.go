package bandwidth

import "time"

// tapPackets divides the packets/s of a tree's taps. The tree shares only bits, so a tap that floods it with small packets
// would take packets/s that others are guaranteed.
type tapPackets struct {
	sharers
	fill  waterfill
	short bool
}

// Packets/s are short from tightOn of what the taps may send together, until they fall below tightOff. Without a shortage no
// tap is limited, which saves changing every tap's limit whenever one of them sends more.
const (
	tightOn  = 0.8
	tightOff = 0.6
)

// sharePackets limits the taps of the link's tree in packets/s while those are short.
func (c *Core) sharePackets(now time.Time, l *uplink) {
	t := &l.taps
	t.reset()
	sent := 0.0
	for _, n := range l.nics {
		if n.shared {
			t.add(n, c.sender(now, n, l), c.force(n.allow))
			sent += n.sent.Packets
		}
	}
	most := l.group.Packets
	t.short = sent >= tightOn*most || t.short && sent >= tightOff*most
	limits := t.short && t.fill.allocatePackets(now, Link{Packets: most, Period: c.period, Bound: l.weighted}, t.senders, t.out)
	for i, n := range t.who {
		if n.allow.Packets = limitOf(&n.own).Packets; limits {
			n.allow.Packets = t.out[i].Packets
		}
	}
}
