package bandwidth

import (
	"math"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// limitState is a Limit that may be in force, and its desired state.
type limitState struct {
	reconcile.Object[model.Limit]
	key     model.LimitKey
	by      string    // the enforcer for it; "": none
	can     model.Tri // whether that enforcer can apply it
	none    bool      // nothing is desired and nothing needs to be lifted: the path does not exist
	attempt uint64    // number of the last attempt
	order   uint64    // number of its Order
	wrong   bool      // the observed state differs from what was applied, however little
	worked  bool      // an attempt has succeeded
	least   uint64    // the guarantee that the NIC gives since the last success, bits/s

	sent   model.Limit // what the last attempt applied
	undone int         // how often somebody changed what was applied, until it has stayed for a while
	rest   time.Time   // until when that is not applied again
}

// inForce reports whether anything is limited, as far as is known.
func (s *limitState) inForce() bool { return s.Known && !s.Has.Lifts() }

// settled reports that nothing is limited and no retry is due.
func (s *limitState) settled(now time.Time) bool {
	return !s.inForce() && !s.Pending(now) && !s.failed() && (s.Known || s.attempt == 0)
}

// failed reports whether the last attempt to apply it failed.
func (s *limitState) failed() bool { return s.Failed.Count > 0 }

// why is the enforcer's error text for the failure; "": there was none.
func (s *limitState) why() string {
	if !s.failed() {
		return ""
	}
	return s.Failed.Err.Error()
}

// forget resets a Limit that was on a VF which the NIC no longer has.
func (s *limitState) forget() { *s = limitState{key: s.key} }

const (
	pendingMost = 20 * time.Second     // after this no answer is expected any more,
	guestMost   = 70 * time.Second     // the same for a guest
	renewEvery  = model.LimitLease / 3 // interval for renewing leases
	verifyEvery = 30 * time.Second     // interval for reapplying contracts, in case somebody removed them
	sameRate    = 0.002                // relative difference of a rate that is not worth applying
	plugMemory  = 2 * time.Second      // how long a NIC whose plug is next counts as about to get a VF, until its move shows
	guestMemory = 30 * time.Second     // how long after its plug was next a limit in its guest is not lifted although there is no VF
	leastBits   = 1_000_000            // minimum of any rate, so that TCP can start,
	leastPart   = 0.005                // unless that is more than this part of the link
	leastSlow   = 64_000               // absolute minimum on any link
	smallest    = 8 * (60 + wireBytes) // bits on the wire of the smallest frame
	growth      = 1.1                  // factor above its current rate that a NIC moving to a VF may send
)

// limitRest is the delay before a failed Limit is retried.
var limitRest = reconcile.Backoff{First: 30 * time.Second, Most: 30 * time.Second}

// undoneRest is how long a Limit that somebody changes again and again stays changed: the first times it is applied again at once.
var undoneRest = reconcile.Backoff{First: 10 * time.Second, Most: 2 * time.Minute}

const (
	undoneAtOnce = 3                // changes by somebody else that are undone at once, and not reported
	undoneMemory = 10 * time.Minute // without such a change they are forgotten
)

// sawOther records that somebody changed what was applied.
func (s *limitState) sawOther(now time.Time) {
	if !s.wrong && s.worked {
		s.undone++
		s.rest = now.Add(undoneRest.After(s.undone - undoneAtOnce))
	}
	s.wrong = true
}

// sawSame records that what was applied still holds.
func (s *limitState) sawSame(now time.Time) {
	if s.undone > 0 && now.Sub(s.rest) > undoneMemory {
		s.undone = 0
	}
}

// contested reports whether nothing but somebody else's change is to be undone, which has been undone too often just now.
func (s *limitState) contested(now time.Time) bool {
	return s.wrong && now.Before(s.rest) && sameLimit(&s.Want, &s.sent)
}

// follow determines the enforcer of the Limit. A Limit whose enforcer has changed is applied again.
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

// want decides the limit on each path of the NIC.
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
			if n.link != nil && n.link.tree {
				s.Want.Guarantee, s.Want.Weight = n.promised.Bits, n.own.Weight
			}
		default:
			s.Want.Contract = n.vfContract()
			if s.Want.Rate = n.rate(s.Want.Contract); n.plugging {
				s.Want.Rate = n.lowered(n.onItsOwn(), s.Want.Contract)
			}
			s.Want.Bits = model.Lower(s.Want.Bits, n.tier)
			if n.link != nil && n.link.kernel && s.by == maxTxRate { // NICs that can share by minimum rates do so
				s.Want.Guarantee = n.promised.Bits
			}
		}
		if slots[i].path == model.PathVF && !n.ours && (!n.plugging || s.by == maxTxRate) {
			s.none = true
			if s.inForce() && s.by != maxTxRate { // a guest's limit stands without the VF, and applies on virtio too
				s.none = n.recent && !lowers(&s.Has, &s.Want)
				if !n.recent {
					s.Want = model.Limit{LimitKey: s.key}
				}
			}
		}
	}
}

// rate is the NIC's allowance where that is below its contract and its link.
func (n *nic) rate(contract model.Rate) model.Rate { return n.lowered(n.allow, contract) }

// lowered is the part of an allowance that is below a contract and the NIC's link.
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

// least is the lowest rate in bits/s to which the NIC may be limited.
func (n *nic) least() uint64 {
	if n.link == nil || n.link.speed == 0 {
		return leastBits
	}
	return min(leastBits, max(leastSlow, uint64(leastPart*float64(n.link.speed))))
}

// vfContract is the NIC's contract for sending on a VF. The VF's rate knows only bits/s, so packets/s are converted to bits/s unless the
// VF's representor limits them, and drivers refuse more than their link's speed. A guest limits both, to any number.
func (n *nic) vfContract() model.Rate {
	c := n.own.Limit
	if n.limits[slot(model.PathVF, model.Tx)].by != maxTxRate {
		return c
	}
	if c.Packets > 0 && !n.polices() {
		size := float64(smallest)
		if n.sent.Packets > 0 {
			size = max(size, n.sent.Bits/n.sent.Packets)
		}
		c.Bits = model.Lower(c.Bits, max(n.least(), uint64(size*float64(c.Packets))))
	}
	if n.link != nil && n.link.rated > 0 {
		c.Bits = min(c.Bits, n.link.rated)
	}
	return c
}

// wantRoot decides the limit for all taps of the link together.
func (l *uplink) wantRoot() {
	l.root.Want = model.Limit{LimitKey: l.root.key}
	l.root.none = !l.tree && !l.root.inForce()
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

// emit adds a Limit to the batch if it must be applied now.
func (c *Core) emit(now time.Time, s *limitState) {
	switch {
	case s.none || s.by == "" || s.can == model.No:
		return
	case !s.Ready(now):
		return
	case !s.inForce() && s.Want.Lifts(), s.contested(now):
		return
	}
	changed := !s.inForce() || s.wrong || !sameLimit(&s.Want, &s.Has)
	if !changed && now.Sub(s.At) < s.renew() {
		return
	}
	c.orders++
	s.attempt, s.order, s.sent = s.Begin(now.Add(s.patience())), c.orders, s.Want
	o := Order{s.Want, s.order}
	if changed {
		c.changes++
	}
	if s.inForce() && !lowers(&s.Want, &s.Has) {
		c.raised = append(c.raised, o)
	} else {
		c.lowered = append(c.lowered, o)
	}
}

// patience is how long to wait for an answer of the Limit's enforcer.
func (s *limitState) patience() time.Duration {
	if s.key.Path == model.PathVF && s.by != maxTxRate {
		return guestMost
	}
	return pendingMost
}

// renew is how long the Limit may stay in force before it is applied again.
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

// lowers reports whether a restricts what b allows.
func lowers(a, b *model.Limit) bool {
	x, y := effective(a), effective(b)
	return x > 0 && (y == 0 || x < y)
}

// effective is what the Limit lets through now, in bits/s; 0: unlimited.
func effective(l *model.Limit) uint64 {
	if l.Path == model.PathVF { // max_tx_rate has no lease
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
	if n := c.byID[model.NICID{VM: k.VM, NIC: k.NIC}]; n != nil {
		return &n.limits[slot(k.Path, k.Dir)]
	}
	return nil
}
