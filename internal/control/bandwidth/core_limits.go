package bandwidth

import (
	"math"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// limitState is a Limit that may stand, and what is wanted of it.
type limitState struct {
	reconcile.Object[model.Limit]
	key     model.LimitKey
	by      string    // the enforcer it would have; "": none
	can     model.Tri // whether that one can hold it
	none    bool      // nothing is wanted, and nothing is to be lifted: the path is not there
	attempt uint64    // the number of the last
	order   uint64    // and that of its Order
	wrong   bool      // something else was seen to stand than was applied, however little it differs
}

// stands says whether anything is limited, as far as is known.
func (s *limitState) stands() bool { return s.Known && !s.Has.Lifts() }

// settled says that nothing is limited, and that nothing is to be tried again.
func (s *limitState) settled(now time.Time) bool {
	return !s.stands() && !s.Pending(now) && !s.failed() && (s.Known || s.attempt == 0)
}

// failed says whether it could not be applied when that was last tried.
func (s *limitState) failed() bool { return s.Failed.Count > 0 }

// why is what the enforcer said of the failure; "": there was none.
func (s *limitState) why() string {
	if !s.failed() {
		return ""
	}
	return s.Failed.Err.Error()
}

// forget is for a Limit that stood on a VF that the NIC has no more.
func (s *limitState) forget() { *s = limitState{key: s.key} }

const (
	pendingMost = 20 * time.Second     // after that no answer is expected any more,
	guestMost   = 70 * time.Second     // and of a guest
	renewEvery  = model.LimitLease / 3 // leases are renewed so often
	verifyEvery = 30 * time.Second     // contracts are applied again so often, in case somebody took them off
	sameRate    = 0.002                // what a rate may differ by without being applied anew
	plugMemory  = 2 * time.Second      // how long a NIC whose plug is next counts as one that is about to get a VF, until its move shows
	guestMemory = 30 * time.Second     // for so long after its plug was next, a limit in its guest is not lifted for want of a VF
	leastBits   = 1_000_000            // no rate is below it, since TCP must be able to begin,
	leastPart   = 0.005                // unless that is more of the link than this
	leastSlow   = 64_000               // nor below this on any link
	smallest    = 8 * (60 + wireBytes) // bits on the wire of the smallest frame
	growth      = 1.1                  // what a NIC that comes to a VF may send beyond what it sends
)

// limitRest is how long a Limit that could not be applied waits until it is tried again.
var limitRest = reconcile.Backoff{First: 30 * time.Second, Most: 30 * time.Second}

// follow finds out who would hold the Limit. One that another enforcer is to hold now is applied anew.
func (s *limitState) follow(w *World) {
	by, can := "", model.No
	if w.Enforcer != nil {
		by, can = w.Enforcer(s.key)
	}
	if by != s.by {
		s.Change()
		s.At = time.Time{}
	}
	s.by, s.can = by, can
}

// want decides what is to stand for each path of the NIC.
func (n *nic) want() {
	contract := n.own.Limit
	for i := range n.limits {
		s := &n.limits[i]
		s.none = false
		s.Want = model.Limit{LimitKey: s.key}
		switch {
		case n.whole != nil && slots[i].path == model.PathVirtio:
			n.wantInside(s)
		case slots[i].dir == model.Rx:
			s.Want.Contract = n.own.Receive
		case slots[i].path == model.PathVirtio:
			s.Want.Contract = contract
			s.Want.Rate = n.rate(contract)
			if n.link != nil && n.link.active {
				s.Want.Guarantee, s.Want.Weight = n.promised.Bits, n.own.Weight
			}
		default:
			s.Want.Contract = n.vfContract()
			if s.Want.Rate = n.rate(s.Want.Contract); n.plugging {
				s.Want.Rate = n.lowered(n.onItsOwn(), s.Want.Contract)
			}
			s.Want.Bits = model.Lower(s.Want.Bits, n.tier)
			if n.link != nil && n.link.active && s.by == maxTxRate { // NICs that can share by minimum rates do
				s.Want.Guarantee = n.promised.Bits
			}
		}
		if slots[i].path == model.PathVF && !n.ours && (!n.plugging || s.by == maxTxRate) {
			s.none = true
			if s.stands() && s.by != maxTxRate { // a guest's limit stands without the VF, and holds on virtio too
				s.none = n.recent && !lowers(&s.Has, &s.Want)
				if !n.recent {
					s.Want = model.Limit{LimitKey: s.key}
				}
			}
		}
	}
}

// rate is what the NIC is allowed, as far as that is less than its contract and its link.
func (n *nic) rate(contract model.Rate) model.Rate { return n.lowered(n.allow, contract) }

// lowered is an allowance as far as that is less than a contract and the NIC's link.
func (n *nic) lowered(allow Allowance, contract model.Rate) model.Rate {
	var r model.Rate
	most := math.Inf(1)
	if n.link != nil && n.link.speed > 0 {
		most = float64(n.link.speed)
	}
	if b := allow.Bits; b < most && (contract.Bits == 0 || b < float64(contract.Bits)) {
		r.Bits = max(n.least(), uint64(b))
	}
	if p := allow.Packets; !math.IsInf(p, 1) && (contract.Packets == 0 || p < float64(contract.Packets)) {
		r.Packets = max(1, uint64(p))
	}
	return r
}

// least is the lowest rate in bits/s that the NIC is set to.
func (n *nic) least() uint64 {
	if n.link == nil || n.link.speed == 0 {
		return leastBits
	}
	return min(leastBits, max(leastSlow, uint64(leastPart*float64(n.link.speed))))
}

// vfContract is the contract of what the NIC sends on a VF. The VF's rate knows only bits/s, so packets/s become
// bits/s too; a guest knows both.
func (n *nic) vfContract() model.Rate {
	c := n.own.Limit
	if n.limits[slot(model.PathVF, model.Tx)].by == maxTxRate && c.Packets > 0 {
		size := float64(smallest)
		if n.sent.Packets > 0 {
			size = max(size, n.sent.Bits/n.sent.Packets)
		}
		c.Bits = model.Lower(c.Bits, max(n.least(), uint64(size*float64(c.Packets))))
	}
	return c
}

// wantRoot decides what all taps of the link may send together.
func (l *uplink) wantRoot() {
	l.root.Want = model.Limit{LimitKey: l.root.key}
	l.root.none = !l.tree && !l.root.stands()
	if !l.tree {
		return
	}
	sum := l.group.Bits
	for _, n := range l.nics {
		if !n.shared && n.paths[0].tx.Bits > 0 { // on its way to a VF, or not using it
			sum += n.allow.Bits
		}
	}
	l.root.Want.Bits = uint64(min(sum, float64(l.speed)))
}

// emit puts a Limit into the batch if it is to be applied now.
func (c *Core) emit(now time.Time, s *limitState) {
	switch {
	case s.none || s.by == "" || s.can == model.No:
		return
	case !s.Ready(now):
		return
	case !s.stands() && s.Want.Lifts():
		return
	}
	changed := !s.stands() || s.wrong || !sameLimit(&s.Want, &s.Has)
	if !changed && now.Sub(s.At) < s.renew() {
		return
	}
	c.orders++
	s.attempt, s.order = s.Begin(now.Add(s.patience())), c.orders
	o := Order{s.Want, s.order}
	if changed {
		c.changes++
	}
	if s.stands() && !lowers(&s.Want, &s.Has) {
		c.raised = append(c.raised, o)
	} else {
		c.lowered = append(c.lowered, o)
	}
}

// patience is how long an answer of the Limit's enforcer is waited for.
func (s *limitState) patience() time.Duration {
	if s.key.Path == model.PathVF && s.by != maxTxRate {
		return guestMost
	}
	return pendingMost
}

// renew is how long the Limit may stand as it is.
func (s *limitState) renew() time.Duration {
	switch {
	case s.by == maxTxRate:
		return 1<<63 - 1 // has no lease, and the Snapshot shows it
	case s.Want.IsZero() && s.Want.Guarantee == 0:
		return verifyEvery
	}
	return renewEvery
}

func sameLimit(a, b *model.Limit) bool {
	return near(a.Bits, b.Bits) && near(a.Packets, b.Packets) && a.Contract == b.Contract && a.Guarantee == b.Guarantee && a.Weight == b.Weight
}

func near(a, b uint64) bool {
	if a == 0 || b == 0 {
		return a == b
	}
	return math.Abs(float64(a)-float64(b)) <= sameRate*float64(b)
}

// lowers says whether a takes away what b leaves.
func lowers(a, b *model.Limit) bool {
	x, y := inForce(a), inForce(b)
	return x > 0 && (y == 0 || x < y)
}

// inForce is what the Limit lets through now, in bits/s; 0: all.
func inForce(l *model.Limit) uint64 {
	if l.Path == model.PathVF { // that has no lease
		return l.Tightest().Bits
	}
	return l.InForce().Bits
}

// state finds a Limit's state, or nil.
func (c *Core) state(k model.LimitKey) *limitState {
	if k.VM == "" {
		if l := c.link(k.PF); l != nil {
			return &l.root
		}
		return nil
	}
	if n := c.find(model.NICID{VM: k.VM, NIC: k.NIC}); n != nil {
		return &n.limits[slot(k.Path, k.Dir)]
	}
	return nil
}
