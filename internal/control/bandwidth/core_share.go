package bandwidth

import (
	"math"
	"time"

	"sluice/internal/model"
)

// share has the link's Allocator divide it. Where nobody is promised anything all may send what
// their own limits let them.
func (c *Core) share(now time.Time, l *uplink) {
	l.carried = 0
	for _, n := range l.nics {
		l.carried += n.sent.Bits
		if !l.active {
			n.allow = Unlimited
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
	crowded, invaded := l.crowded(), l.invaded()
	for _, n := range l.nics {
		n.fallShort(now, crowded)
		n.squeezed = n.short > 0 && invaded
	}
}

// gather lists who sends. What those do whom nothing limits is not the Allocator's to share out.
func (c *Core) gather(now time.Time, l *uplink) {
	l.senders, l.out, l.who = l.senders[:0], l.out[:0], l.who[:0]
	taken := 0.0
	if l.tree {
		l.senders = append(l.senders, Sender{ID: model.NICID{NIC: l.pf}, Known: true})
		l.out, l.who = append(l.out, c.force(l.group)), append(l.who, nil)
	}
	for _, n := range l.nics {
		switch {
		case n.shared:
			l.senders[0].join(n)
			n.allow.Bits = math.Inf(1)
		case n.unlimited() && n.promised.IsZero():
			taken += n.sent.Bits
			n.allow = Allowance{max(float64(n.promised.Bits), l.fairShare(n)), limitOf(&n.own).Packets} // for the next try, and its other path
		default: // also one that cannot be limited, where it is promised something: the others can
			l.senders, l.out, l.who = append(l.senders, c.sender(now, n, l)), append(l.out, c.force(n.allow)), append(l.who, n)
		}
	}
	l.taken += (taken - l.taken) / 2
	if l.tree && unboundedGroup(l) {
		l.senders[0].SLA.Limit.Bits = 0
	}
}

// force is what is in force of an allowance: nothing in observe mode.
func (c *Core) force(a Allowance) Allowance {
	if c.opts.Mode == model.ModeObserve {
		return Unlimited
	}
	return a
}

// sender is the NIC as its link's Allocator sees it. One that has not been counted for a while is taken to
// send all that it may: so it gets what it is promised or its fair share, and never all there is.
func (c *Core) sender(now time.Time, n *nic, l *uplink) Sender {
	s := Sender{ID: n.id, SLA: n.own, Age: n.age, Bits: n.sent.Bits, Packets: n.sent.Packets, Known: n.known}
	s.SLA.Guarantee.Bits = n.sla.Guarantee.Bits // all of it: where more is guaranteed than there is, what some do not ask for is others'
	if n.tier > 0 && n.vf != model.NoVF && (s.SLA.Limit.Bits == 0 || n.tier < s.SLA.Limit.Bits) {
		s.SLA.Limit.Bits = n.tier
	}
	if !n.known && now.Sub(n.seen) > blindAfter*c.opts.Period {
		s.Bits, s.Known = min(n.allow.Bits, float64(l.speed)), true
	}
	if n.inside != nil {
		s.Wants = n.inside.wants()
	}
	if n.onVF() { // the host carries none of its packets
		s.Packets, s.SLA.Guarantee.Packets, s.SLA.Limit.Packets = 0, 0, 0
	}
	return s
}

// join adds a NIC to a group that shares its part by itself.
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

// unboundedGroup says whether any of the group may send what it can.
func unboundedGroup(l *uplink) bool {
	for _, n := range l.nics {
		if n.shared && n.own.Limit.Bits == 0 {
			return true
		}
	}
	return false
}

// linkNow is the link as it is to be shared: without what those take whom nothing limits, and with what the
// host carries on virtio beside the other links.
func (c *Core) linkNow(l *uplink) Link {
	out := Link{Speed: float64(l.speed), Packets: math.Inf(1), Period: c.period, Moving: l.moving(c.at)}
	if out.Invaded = l.taken > float64(l.speed)*leastTaken; out.Invaded {
		// Nobody promised anything is held below that for somebody who cannot be held down, nor is what the
		// link was already seen to carry less counted twice.
		kept := max(0, l.told-l.alloc.Capacity())
		for _, n := range l.nics {
			kept += float64(n.promised.Bits) / handedOut
		}
		out.Speed = max(out.Speed-l.taken, min(out.Speed, kept), out.Speed*leastTaken)
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

// leastTaken is the part of a link below which what others take is not worth a change of the link's speed,
// and what is shared out at least.
const leastTaken = 0.02

// onVF says whether the guest sends through its VF.
func (n *nic) onVF() bool { return n.vf != model.NoVF && n.inGuest != model.No && !n.left }

// unlimited says that nothing can limit the NIC on the path it is on.
func (n *nic) unlimited() bool {
	if n.inside != nil {
		return n.inside.unlimited()
	}
	p := model.PathVirtio
	if n.onVF() {
		p = model.PathVF
	}
	s := &n.limits[slot(p, model.Tx)]
	return p == model.PathVF && n.seen.Before(n.barred) || s.by == "" || s.can == model.No || s.failed() || p == model.PathVF && !n.ours && s.by == maxTxRate
}

// full is the part of a link's capacity from which on a NIC that sends less than before is taken to be kept from
// sending, and short what it must lack of what it asks for.
const (
	full       = 0.92
	shortShare = 0.05
)

// fallShort measures what a NIC lacks of what it is promised: it asks for what it lately sent, as far as that was
// promised, while others are in its way; or it sends all that it may and that is less than promised.
func (n *nic) fallShort(now time.Time, crowded bool) {
	g := float64(n.promised.Bits)
	asks := min(g, n.peak)
	if n.allow.Bits < g && n.sent.Bits >= hungry*n.allow.Bits {
		asks = g
	}
	lacks := asks - n.sent.Bits
	if g == 0 || !crowded && n.allow.Bits >= g || lacks < shortShare*asks {
		n.short, n.shortFrom = 0, time.Time{}
		return
	}
	if n.short = lacks; n.shortFrom.IsZero() {
		n.shortFrom = now
	}
}

// crowded says whether the link is full.
func (l *uplink) crowded() bool { return max(l.carried, l.port.tx.Bits) >= full*l.alloc.Capacity() }

// invaded says whether those whom nothing limits leave less of the link than is promised on it. A NIC that is short then is so
// because of them, for however long they go on.
func (l *uplink) invaded() bool {
	promised := 0.0
	for _, n := range l.nics {
		promised += float64(n.promised.Bits)
	}
	return l.taken > leastTaken*float64(l.speed) && l.taken+promised > l.alloc.Capacity()
}

// hungry is the part of its allowance from which on a NIC is taken to be held down by it.
const hungry = 0.95

// movingFor is how long a NIC's path counts as changing after that was last seen: until a Snapshot
// shows where it is now, and its limit there has been decided anew.
const movingFor = 2500 * time.Millisecond

// moving says whether the path of any of the link's NICs is changing, or only its guest says what it sends, now
// and then: either way the volume is not that of the limits in force.
func (l *uplink) moving(now time.Time) bool {
	for _, n := range l.nics {
		if n.plugging || n.onVF() && !n.paths[1].followed || !n.moved.IsZero() && now.Sub(n.moved) < movingFor {
			return true
		}
	}
	return false
}
