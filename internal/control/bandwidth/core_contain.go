package bandwidth

import (
	"fmt"
	"math"
	"time"

	"sluice/internal/model"
)

// A guest can lift a limit that is set inside it, and say what it likes of what it sends. Neither is believed: what the
// host counts on a VF is held against the limit there, and what leaves the PF's port against all that is counted.
const (
	overPeriods = 5                // so many periods in a row must show it
	overShare   = 0.15             // what a NIC may send beyond its limit: bursts, and readings that are not exact
	portPeriod  = 3 * time.Second  // for so long the port must show it: what guests say of their VFs comes late
	uncounted   = 0.05             // the part of a link that may leave it without being counted, beside what the host itself sends
	ceilingKept = time.Second      // a limit that was lowered less than this ago is not held against anybody
	containFor  = 10 * time.Minute // how long a NIC is kept off VFs
	hostMemory  = 0.1              // weight of a period in what the host itself sends
)

// conduct is how a NIC keeps its limit on a VF.
type conduct struct {
	overs       int        // periods in a row in which it sent more than its VF's limit
	ceilings    [2]float64 // the highest limits on its VF in this while and in the one before
	ceilingFrom time.Time  // when this while began
	barred      time.Time  // until when it is to have no VF
	offence     string     // why
}

// Contained is a NIC that is to have no VF, since its guest did not keep its limit there.
type Contained struct {
	NIC   model.NICID
	Until time.Time
	Why   string
}

// Contained lists the NICs that are to be kept off VFs at the time of the last Tick.
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

// judge finds out who does not keep its limit on a VF.
func (c *Core) judge(now time.Time) {
	for _, n := range c.nics {
		ceiling := n.ceilingAt(now)
		if !n.onVF() || !n.ours || !n.known || n.sent.Proof.Weaker(model.ProofKernel) || n.sent.Bits <= ceiling*(1+overShare)+leastBits {
			n.overs = 0
			continue
		}
		if n.overs++; n.overs >= overPeriods {
			n.contain(now, fmt.Sprintf("its guest sent %s through its VF, where %s were allowed", bits(n.sent.Bits), bits(ceiling)))
		}
	}
	for _, l := range c.links {
		l.judge(now)
	}
}

func (n *nic) contain(now time.Time, why string) {
	n.barred, n.offence, n.overs = now.Add(containFor), why, 0
}

// ceilingAt is the highest limit that stood on the NIC's VF lately; +Inf: none did.
func (n *nic) ceilingAt(now time.Time) float64 {
	limit := math.Inf(1)
	if s := &n.limits[slot(model.PathVF, model.Tx)]; s.stands() && !s.failed() {
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

// judge compares what leaves the port with what is counted. Where more leaves it, and somebody lacks what it is
// promised, it is one of those whose VFs the host cannot count: the one that may send most.
func (l *uplink) judge(now time.Time) {
	var suspect *nic
	short := false
	for _, n := range l.nics {
		short = short || n.short > 0
		if n.onVF() && n.ours && !n.paths[1].followed && !n.contained(now) && n.short == 0 && n.allow.Bits > float64(n.promised.Bits) && (suspect == nil || n.allow.Bits > suspect.allow.Bits) {
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
		suspect.contain(now, fmt.Sprintf("others lack what they are promised on %s, %s leave it that no counter of this host shows, and its guest is the one that may send most of them", l.pf, bits(more)))
	}
}
