package bandwidth

import (
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// function is the part of a nic that belongs to a virtual PF.
type function struct {
	inside      *virtualPF // it represents all functions of this virtual PF together
	whole       *virtualPF // the virtual PF that it is a function of
	noCarrier   bool       // a function whose traffic QEMU blocks
	receive     Allowance  // of a function: what it may currently receive
	part        model.Rate // of a function: its part of its virtual PF's limit, while nobody divides that by load
	receivePart model.Rate
}

// virtualPF is a virtual PF. To its link it is one sender, with the SLA of the PF's own NIC. Its allowance is to its functions
// what a link is to NICs: an Allocator of the same kind divides it inside by their SLAs.
type virtualPF struct {
	nic       // all functions together
	name      string
	functions []*nic // by ID
	inner     bool   // its functions ask for something of each other
	tx, rx    division
	parts     splitter
}

// division is one direction of a virtual PF, with the functions among which it is divided.
type division struct {
	sharers
	alloc Allocator
	fit   splitter
}

const (
	// boundless replaces an unknown link speed, in bits/s.
	boundless = 1e12
	// fewPackets is what a function without a carrier may send per second, for the moment in which it gets one: its counters
	// then show that.
	fewPackets = 100
)

// newVirtualPF returns one without guarantees.
func newVirtualPF(id model.NICID, name string, k *kind) *virtualPF {
	v := &virtualPF{name: name, tx: division{alloc: k.make()}, rx: division{alloc: k.make()}}
	v.id, v.allow, v.inside = id, Unlimited, v
	return v
}

// followVirtual updates a virtual PF with what it asks for as a whole, and is promised.
func (c *Core) followVirtual(asked *Asked, promised model.Rate) *virtualPF {
	v := c.byPF[asked.ID]
	if v == nil {
		v = newVirtualPF(asked.ID, asked.VirtualPF, &c.kind)
		c.byPF[asked.ID] = v
		c.vpfs = append(c.vpfs, v)
		slices.SortFunc(c.vpfs, func(a, b *virtualPF) int { return a.id.Compare(b.id) })
	}
	v.gone = false
	v.sla, v.own, v.promised = asked.SLA, asked.SLA, promised
	v.own.Guarantee = promised
	return v
}

// join adds a function of a VM that was just followed. All functions use the link of the first.
func (v *virtualPF) join(n *nic, link *uplink) {
	if len(v.functions) == 0 {
		v.vmName, v.age, v.link = n.vmName, n.age, link
		if v.seen.IsZero() {
			v.seen = n.seen
		}
		if link == nil {
			v.allow = Unlimited
		} else {
			link.nics = append(link.nics, &v.nic)
		}
	}
	n.whole, n.link = v, v.link
	at, _ := slices.BinarySearchFunc(v.functions, n.id, func(o *nic, id model.NICID) int { return o.id.Compare(id) })
	v.functions = slices.Insert(v.functions, at, n)
}

// idle reports that the function has no carrier and sends nothing. Counters show a new carrier sooner than a Snapshot.
func (n *nic) idle() bool { return n.noCarrier && n.sent.Bits == 0 && n.received.Bits == 0 }

// measure adds up the functions.
func (v *virtualPF) measure(now time.Time, decay float64) {
	v.sent, v.received = model.RateReading{Proof: model.ProofHardware}, model.RateReading{Proof: model.ProofHardware}
	v.known = true
	for _, n := range v.functions {
		v.sent, v.received = plus(v.sent, n.sent), plus(v.received, n.received)
		v.known = v.known && n.known
	}
	v.remember(now, decay)
}

// unlimited reports that nothing can limit any of the functions that may send.
func (v *virtualPF) unlimited() bool {
	some := false
	for _, n := range v.functions {
		if !n.idle() {
			if !n.unlimited() {
				return false
			}
			some = true
		}
	}
	return some
}

// wants is the demand of the functions within their own limits, in bits/s, while some are held down by their siblings, which
// may have stopped just now; otherwise 0.
func (v *virtualPF) wants() (sum float64) {
	held := false
	for _, n := range v.functions {
		own := limitOf(&n.own).Bits
		if n.allow.Bits < own && n.sent.Bits >= hungry*n.allow.Bits && !n.idle() {
			sum, held = sum+own, true
		} else {
			sum += n.sent.Bits
		}
	}
	if !held {
		return 0
	}
	return sum
}

// divide divides what the virtual PF may send and receive among its functions.
func (c *Core) divide(now time.Time, v *virtualPF) {
	c.divideSent(now, v)
	c.divideReceived(now, v)
	crowded := v.crowded()
	for _, n := range v.functions {
		if n.fallShort(now, crowded); n.idle() {
			n.hasEnough()
		}
	}
	v.setParts()
}

// crowded reports whether the functions have all that they may send together, or their link is full.
func (v *virtualPF) crowded() bool {
	return v.link != nil && v.link.active && v.link.crowded() || v.sent.Bits >= full*min(v.allow.Bits, limitOf(&v.own).Bits)
}

func (c *Core) divideSent(now time.Time, v *virtualPF) {
	most := limitOf(&v.own)
	most.Packets = min(most.Packets, v.allow.Packets)
	link := Link{Speed: boundless, Packets: most.Packets, Period: c.period, Moving: true, Bound: !math.IsInf(min(most.Bits, most.Packets), 1)}
	if v.link != nil && v.link.speed > 0 {
		link.Speed = float64(v.link.speed)
	}
	link.Speed = min(link.Speed, most.Bits)
	if a := v.allow.Bits / handedOut; a < link.Speed { // the whole allowance is handed out, otherwise the link would never see it held down
		link.Speed, link.Bound = a, true
	}
	d, taken := &v.tx, 0.0
	d.reset()
	for _, n := range v.functions {
		switch {
		case !link.Bound && !v.inner:
			n.allow = limitOf(&n.own)
		case n.idle():
			n.allow = Allowance{0, min(limitOf(&n.own).Packets, fewPackets)}
		case n.unlimited():
			taken += n.sent.Bits
			n.allow = limitOf(&n.own)
		default:
			d.add(n, c.senderInside(now, n, link.Speed), c.force(n.allow))
		}
	}
	link.Speed = max(link.Speed-taken, link.Speed*leastUncontrolled)
	d.allocate(now, link)
	for i, n := range d.who {
		n.allow = d.out[i]
	}
}

// senderInside is a function as the Allocator of its virtual PF sees it.
func (c *Core) senderInside(now time.Time, n *nic, speed float64) Sender {
	// The Allocator sees each function as a VM of its own, so that sharing by VM is sharing by function.
	s := Sender{
		ID: model.NICID{VM: model.VMID(n.id.NIC), NIC: n.id.NIC}, SLA: n.own, Age: n.age, Bits: n.sent.Bits, Packets: n.sent.Packets,
		Known: n.known,
	}
	s.SLA.Guarantee = n.sla.Guarantee // the whole of it, as on a link: what some do not use goes to others
	if !n.known && now.Sub(n.seen) > blindAfter*c.opts.Period {
		s.Bits, s.Known = min(n.allow.Bits, speed), true
	}
	return s
}

// divideReceived divides what the virtual PF may receive, if its SLA limits that.
func (c *Core) divideReceived(now time.Time, v *virtualPF) {
	receive := v.own.Receive
	most := limitOf(&model.SLA{Limit: receive})
	link := Link{Speed: min(boundless, most.Bits), Packets: most.Packets, Period: c.period, Moving: true, Bound: !receive.IsZero()}
	d := &v.rx
	d.reset()
	for _, n := range v.functions {
		own := model.SLA{Limit: n.own.Receive, Weight: n.own.Weight}
		switch {
		case receive.IsZero():
			n.receive = limitOf(&own)
		case n.idle():
			n.receive = Allowance{0, min(limitOf(&own).Packets, fewPackets)}
		default:
			s := c.senderInside(now, n, link.Speed)
			s.SLA, s.Bits, s.Packets = own, n.received.Bits, n.received.Packets
			d.add(n, s, c.force(n.receive))
		}
	}
	d.allocate(now, link)
	for i, n := range d.who {
		n.receive = d.out[i]
	}
}

// allocate runs the Allocator on the link. The published ones do not respect a bound below the link, so their allowances are
// cut to it here.
func (d *division) allocate(now time.Time, link Link) {
	if len(d.senders) == 0 {
		return
	}
	d.alloc.Allocate(now, link, d.senders, d.out)
	if _, keeps := d.alloc.(*waterfill); keeps || !link.Bound {
		return
	}
	d.cut(link.Speed, func(s *model.SLA, a *Allowance) (guarantee, limit float64, allowed *float64) {
		return float64(s.Guarantee.Bits), limitOf(s).Bits, &a.Bits
	})
	if !math.IsInf(link.Packets, 1) {
		d.cut(link.Packets, func(s *model.SLA, a *Allowance) (guarantee, limit float64, allowed *float64) {
			return float64(s.Guarantee.Packets), limitOf(s).Packets, &a.Packets
		})
	}
}

// cut reduces one part of the allowances to an amount.
func (d *division) cut(amount float64, of func(*model.SLA, *Allowance) (guarantee, limit float64, allowed *float64)) {
	d.fit.reset()
	for i := range d.senders {
		s := &d.senders[i].SLA
		guarantee, limit, allowed := of(s, &d.out[i])
		d.fit.add(guarantee, min(*allowed, limit), s)
	}
	for i, x := range d.fit.split(amount) {
		_, _, allowed := of(&d.senders[i].SLA, &d.out[i])
		*allowed = x
	}
}
