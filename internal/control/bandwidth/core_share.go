package bandwidth

import (
	"cmp"
	"math"
	"time"

	"sluice/internal/model"
)

// count adds what the NICs carried in a period to the link's total: at most what it can carry, because the NICs are counted at different
// instants and may send to each other inside the NIC.
func (l *uplink) count(period time.Duration) {
	if !l.up {
		return
	}
	most := float64(cmp.Or(l.said.Speed, l.speed))
	add := func(bytes, packets *float64, of func(*nic) model.RateReading) {
		var sum model.RateReading
		for _, n := range l.nics {
			sum = plus(sum, of(n))
		}
		part := period.Seconds()
		if most > 0 && sum.Bits > most {
			part *= most / sum.Bits
		}
		*bytes += sum.Bits / 8 * part
		*packets += sum.Packets * part
	}
	add(&l.total.TxBytes, &l.total.TxPackets, func(n *nic) model.RateReading { return n.sent })
	add(&l.total.RxBytes, &l.total.RxPackets, func(n *nic) model.RateReading { return n.received })
}

// share runs the link's Allocator. On a link of which nobody asks anything only the NICs' own limits apply.
func (c *Core) share(now time.Time, l *uplink) {
	l.carried = 0
	l.count(c.period)
	for _, n := range l.nics {
		l.carried += n.sent.Bits
		if !l.active {
			n.allow = Unlimited
			n.hasEnough()
		}
	}
	if !l.active {
		l.group = Unlimited
		return
	}
	c.gather(now, l)
	l.alloc.Allocate(now, c.linkNow(l), l.senders, l.out)
	for i, n := range l.who {
		if n == nil {
			l.group = l.out[i]
		} else {
			n.allow = l.out[i]
		}
	}
	if l.tree {
		c.sharePackets(now, l)
	}
	crowded, overrun := l.crowded(), l.overrun()
	for _, n := range l.nics {
		n.fallShort(now, crowded)
		n.squeezed = n.short > 0 && overrun
	}
}

// gather lists the senders. Traffic that cannot be limited is not the Allocator's to distribute.
func (c *Core) gather(now time.Time, l *uplink) {
	l.reset()
	taken := 0.0
	if l.tree {
		l.add(nil, Sender{ID: model.NICID{NIC: l.pf}, Known: true}, c.force(l.group))
	}
	for _, n := range l.nics {
		switch {
		case n.shared:
			l.senders[0].join(n)
			n.allow.Bits = math.Inf(1)
		case n.unlimited() && n.promised.IsZero():
			taken += n.sent.Bits
			n.allow = Allowance{max(float64(n.promised.Bits), l.fairShare(n)), limitOf(&n.own).Packets} // for the next try and other path
		default: // includes a NIC with a guarantee that cannot be limited: the others can be
			l.add(n, c.sender(now, n, l), c.force(n.allow))
		}
	}
	l.uncontrolled += (taken - l.uncontrolled) / 2
	if l.tree && unboundedGroup(l) {
		l.senders[0].SLA.Limit.Bits = 0
	}
}

// sharers are those who share something: for each its Sender, and its Allowance in force until the Allocator sets the new one.
type sharers struct {
	senders []Sender
	out     []Allowance
	who     []*nic // nil: the group of a link's tree
}

func (s *sharers) reset() { s.senders, s.out, s.who = s.senders[:0], s.out[:0], s.who[:0] }

func (s *sharers) add(n *nic, as Sender, force Allowance) {
	s.senders, s.out, s.who = append(s.senders, as), append(s.out, force), append(s.who, n)
}

// force is the part of an allowance that is in force: none in observe mode.
func (c *Core) force(a Allowance) Allowance {
	if c.opts.Mode == model.ModeObserve {
		return Unlimited
	}
	return a
}

// sender is the NIC as its link's Allocator sees it. A NIC without recent readings is assumed to send its full allowance, so it
// gets its guarantee or its fair share, and never the whole link.
func (c *Core) sender(now time.Time, n *nic, l *uplink) Sender {
	s := Sender{ID: n.id, SLA: n.own, Age: n.age, Bits: n.sent.Bits, Packets: n.sent.Packets, Known: n.known}
	s.SLA.Guarantee.Bits = n.sla.Guarantee.Bits // the whole of it: on an oversubscribed link, what some do not use goes to others
	if n.tier > 0 && n.vf != model.NoVF && (s.SLA.Limit.Bits == 0 || n.tier < s.SLA.Limit.Bits) {
		s.SLA.Limit.Bits = n.tier
	}
	if !n.known && now.Sub(n.seen) > blindAfter*c.opts.Period {
		s.Bits, s.Known = min(n.allow.Bits, float64(l.speed)), true
	}
	if n.inside != nil {
		s.Wants = n.inside.wants()
	}
	if n.onVF() { // its packets do not load the host
		s.Packets, s.SLA.Guarantee.Packets, s.SLA.Limit.Packets = 0, 0, 0
	}
	return s
}

// join adds a NIC to a group that divides its part itself.
func (s *Sender) join(n *nic) {
	first := s.SLA.Weight == 0
	s.SLA.Guarantee.Bits += n.own.Guarantee.Bits
	s.SLA.Guarantee.Packets += n.own.Guarantee.Packets
	s.SLA.Limit.Bits += n.own.Limit.Bits
	s.SLA.ClassMin += n.own.ClassMin
	s.SLA.Weight += n.own.Share()
	s.Bits += n.sent.Bits
	s.Packets += n.sent.Packets
	if first || n.age < s.Age {
		s.Age = n.age
	}
	if first || n.own.Priority > s.SLA.Priority {
		s.SLA.Priority = n.own.Priority
	}
	s.Known = s.Known && n.known
}

// unboundedGroup reports whether a NIC of the group has no limit.
func unboundedGroup(l *uplink) bool {
	for _, n := range l.nics {
		if n.shared && n.own.Limit.Bits == 0 {
			return true
		}
	}
	return false
}

// linkNow is the link as the Allocator is to divide it: without the traffic that cannot be limited, and with the virtio
// packets/s that the other links leave of the host's.
func (c *Core) linkNow(l *uplink) Link {
	out := Link{Speed: float64(l.speed), Packets: math.Inf(1), Period: c.period, Bound: l.weighted, Moving: l.moving(c.at)}
	if out.Uncontrolled = l.uncontrolled > float64(l.speed)*leastUncontrolled; out.Uncontrolled {
		// No NIC is held below its guarantee in favour of one that cannot be limited, and capacity already measured as missing
		// is not subtracted twice.
		kept := max(0, l.told-l.alloc.Capacity())
		for _, n := range l.nics {
			kept += float64(n.promised.Bits) / handedOut
		}
		out.Speed = max(out.Speed-l.uncontrolled, min(out.Speed, kept), out.Speed*leastUncontrolled)
	}
	l.told = out.Speed
	if c.opts.Packets > 0 {
		others, active := 0.0, 0
		for _, o := range c.links {
			if o.active {
				active++
			}
			for _, n := range o.nics {
				if o != l && !n.onVF() {
					others += n.sent.Packets
				}
			}
		}
		all := float64(c.opts.Packets)
		out.Packets = max(all-others, all/float64(max(1, active)))
	}
	return out
}

// leastUncontrolled is the part of a link below which unlimited traffic is not worth changing the link's speed for, and the least that
// is divided.
const leastUncontrolled = 0.02

// onVF reports whether the guest sends through its VF.
func (n *nic) onVF() bool { return n.vf != model.NoVF && n.inGuest != model.No && !n.left }

// unlimited reports that nothing can limit the NIC on its current path.
func (n *nic) unlimited() bool {
	if n.inside != nil {
		return n.inside.unlimited()
	}
	p := model.PathVirtio
	if n.onVF() {
		p = model.PathVF
	}
	s := &n.limits[slot(p, model.Tx)]
	return p == model.PathVF && (!n.ours || n.seen.Before(n.barred)) || s.by == "" || s.can == model.No || s.failed()
}

// full is the part of a link's capacity above which a NIC that sends less than before is assumed to be held down; shortShare is
// the part of what it asks for that it must lack to be short.
const (
	full       = 0.92
	shortShare = 0.05
)

// fallShort measures what a NIC lacks of its guarantee. A NIC asks for its recent peak, up to its guarantee, while the link is
// crowded; or it uses its whole allowance and that is below its guarantee.
func (n *nic) fallShort(now time.Time, crowded bool) {
	g := float64(n.promised.Bits)
	asks := min(g, n.peak)
	if n.allow.Bits < g && n.sent.Bits >= hungry*n.allow.Bits {
		asks = g
	}
	lacks := asks - n.sent.Bits
	if g == 0 || !crowded && n.allow.Bits >= g || lacks < shortShare*asks {
		n.hasEnough()
		return
	}
	if n.short = lacks; n.shortFrom.IsZero() {
		n.shortFrom = now
	}
}

// hasEnough ends a shortage.
func (n *nic) hasEnough() { n.short, n.shortFrom, n.squeezed = 0, time.Time{}, false }

// crowded reports whether the link is full.
func (l *uplink) crowded() bool { return max(l.carried, l.port.tx.Bits) >= full*l.alloc.Capacity() }

// overrun reports whether traffic that cannot be limited leaves less of the link than is promised on it. It is then the cause
// of every shortage, however long it lasts.
func (l *uplink) overrun() bool {
	promised := 0.0
	for _, n := range l.nics {
		promised += float64(n.promised.Bits)
	}
	return l.uncontrolled > leastUncontrolled*float64(l.speed) && l.uncontrolled+promised > l.alloc.Capacity()
}

// hungry is the part of its allowance above which a NIC is assumed to be held down by it.
const hungry = 0.95

// movingFor is how long a NIC's path counts as changing after the last observed change: until a Snapshot shows its new path and
// its limit there has been decided again.
const movingFor = 2500 * time.Millisecond

// moving reports whether the path of any of the link's NICs is changing, or a NIC's traffic is only known from its guest's
// occasional reports: either way the volume does not correspond to the limits in force.
func (l *uplink) moving(now time.Time) bool {
	for _, n := range l.nics {
		if n.plugging || n.onVF() && !n.paths[1].followed || !n.moved.IsZero() && now.Sub(n.moved) < movingFor {
			return true
		}
	}
	return false
}
