package bandwidth

import (
	"fmt"
	"math"
	"time"

	"sluice/internal/model"
)

// A guest can remove a limit that is set inside it, and report any value for what it sends. Neither is trusted: the host's
// counters of a VF are compared with the VF's limit, and what leaves the PF's port with the sum of everything counted.
const (
	overPeriods = 5                // consecutive periods that must show it
	overShare   = 0.15             // tolerated excess over a NIC's limit: bursts and inexact readings
	portPeriod  = 3 * time.Second  // how long the port must show it: what guests report of their VFs arrives late
	uncounted   = 0.05             // part of a link that may leave it uncounted, beside what the host itself sends
	ceilingKept = time.Second      // a limit lowered less than this ago is not enforced yet
	containFor  = 10 * time.Minute // how long a NIC is kept off VFs
	hostMemory  = 0.1              // weight of a period in the mean of what the host itself sends
)

// conduct is how a NIC complies with its limit on a VF.
type conduct struct {
	overs       int        // consecutive periods above its VF's limit
	ceilings    [2]float64 // the highest limits on its VF in the current interval and in the previous one
	ceilingFrom time.Time  // start of the current interval
	barred      time.Time  // until when it may have no VF
	offence     string     // the reason
}

// Contained is a NIC that may have no VF because its guest exceeded its limit there.
type Contained struct {
	NIC   model.NICID
	Until time.Time
	Why   string
}

// Contained lists the NICs that must be kept off VFs, as of the last Tick.
func (c *Core) Contained() []Contained {
	var out []Contained
	for _, n := range c.nics {
		if n.contained(c.at) {
			out = append(out, Contained{n.id, n.barred, n.offence})
		}
	}
	return out
}

func (n *nic) contained(now time.Time) bool { return now.Before(n.barred) }

// judge detects NICs that exceed their limit on a VF.
func (c *Core) judge(now time.Time) {
	for _, n := range c.nics {
		ceiling := n.ceilingAt(now)
		if !n.onVF() || !n.ours || !n.known || n.sent.Proof.Weaker(model.ProofKernel) || n.sent.Bits <= ceiling*(1+overShare)+leastBits {
			n.overs = 0
			continue
		}
		if n.overs++; n.overs >= overPeriods {
			n.contain(now, fmt.Sprintf("its guest sent %s through its VF, but only %s were allowed", bits(n.sent.Bits), bits(ceiling)))
		}
	}
	for _, l := range c.links {
		l.judge(now)
	}
}

func (n *nic) contain(now time.Time, why string) {
	n.barred, n.offence, n.overs = now.Add(containFor), why, 0
}

// ceilingAt is the highest limit recently in force on the NIC's VF; +Inf: none was.
func (n *nic) ceilingAt(now time.Time) float64 {
	limit := math.Inf(1)
	if s := &n.limits[slot(model.PathVF, model.Tx)]; s.inForce() && !s.failed() {
		if b := s.Has.Tightest().Bits; b > 0 {
			limit = float64(b)
		}
	}
	if now.Sub(n.ceilingFrom) >= ceilingKept {
		n.ceilings[1], n.ceilings[0], n.ceilingFrom = n.ceilings[0], limit, now
	}
	n.ceilings[0] = max(n.ceilings[0], limit)
	return max(n.ceilings[0], n.ceilings[1])
}

// judge compares what leaves the port with what is counted. If more leaves it while a NIC lacks what it is promised, the cause
// is a VF that the host cannot count: judge contains the one with the largest allowance.
func (l *uplink) judge(now time.Time) {
	var suspect *nic
	short := false
	for _, n := range l.nics {
		short = short || n.short > 0
		if n.onVF() && n.ours && !n.paths[1].followed && !n.contained(now) && n.short == 0 && n.allow.Bits > float64(n.promised.Bits) &&
			(suspect == nil || n.allow.Bits > suspect.allow.Bits) {
			suspect = n
		}
	}
	if !l.port.read || l.port.fresh {
		return
	}
	more := l.port.tx.Bits - l.carried
	l.port.read = false
	if !short {
		l.host += (max(0, more) - l.host) * hostMemory
	}
	if suspect == nil || !short || more <= l.host+uncounted*float64(l.speed) {
		l.overFrom = time.Time{}
		return
	}
	if l.overFrom.IsZero() {
		l.overFrom = now
	}
	if now.Sub(l.overFrom) >= portPeriod {
		l.overFrom = time.Time{}
		suspect.contain(now, fmt.Sprintf("others on %s lack what they are promised while %s leave it that no counter of this host shows, "+
			"and its guest may send more of that than any other", l.pf, bits(more)))
	}
}
