package qualify

import (
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Peer holds what the PF carried by TCP to one peer.
type Peer struct {
	Address string
	VLAN    int // the tag that the frames had on the PF; 0: none
	Rounds  []Round
	Error   string
}

// Round is what a number of TCP connections carried at the same time.
type Round struct {
	Flows   int
	Took    time.Duration
	Acked   uint64  // payload bytes that the peer acknowledged
	Resent  uint64  // payload bytes that were sent again
	Segment int     // payload bytes of a full frame
	Headers int     // bytes of its headers, from Ethernet's, without a tag, to TCP's
	Sent    uint64  // bytes that left the PF, of whatever sender, as far as it counts them
	Busiest float64 // busy share of the busiest CPU of the host, 0..1
}

// wireBytes are those of a frame beyond its layer-2 bytes: preamble, start delimiter, checksum and gap.
const wireBytes = 24

// Bits returns the rate on the wire, in bits/s, of what arrived.
func (r *Round) Bits() float64 {
	if r.Segment <= 0 || r.Took <= 0 {
		return 0
	}
	return 8 * float64(r.Acked) / float64(r.Segment) * float64(r.Segment+r.Headers+wireBytes) / r.Took.Seconds()
}

// others returns the share of what left the PF that was not the round's own.
func (r *Round) others() float64 {
	if r.Sent == 0 || r.Segment <= 0 {
		return 0
	}
	own := float64(r.Acked+r.Resent) / float64(r.Segment) * float64(r.Segment+r.Headers)
	return max(0, 1-own/float64(r.Sent))
}

// Thresholds for a capacity. Two rounds of seconds on a link that both fill differ by less than levelWithin; a host or peer that limits
// each connection, by its window or by one CPU, carries nearly twice as much with twice as many.
const (
	levelWithin = 0.02
	othersMost  = 0.03
	busiestMost = 0.95
)

// Level reports whether the last round carried as much as the one before, with more connections.
func Level(rounds []Round) bool {
	n := len(rounds)
	if n < 2 {
		return false
	}
	a, b := rounds[n-2].Bits(), rounds[n-1].Bits()
	return b > 0 && math.Abs(a-b) <= levelWithin*max(a, b)
}

// capacity judges whether what a peer received is what the link carries.
func capacity(p *Peer) api.LinkCapacity {
	c := api.LinkCapacity{Peer: p.Address, VLAN: p.VLAN, Measured: model.Unknown.String()}
	var parts []string
	for i := range p.Rounds {
		r := &p.Rounds[i]
		parts = append(parts, fmt.Sprintf("%s with %s", model.Bits(r.Bits()), model.Plural(r.Flows, "connection")))
	}
	c.Evidence = strings.Join(parts, ", ")
	last := p.Rounds[max(0, len(p.Rounds)-2):]
	for i := range last {
		c.Bits = max(c.Bits, last[i].Bits())
	}
	busiest, others := 0.0, 0.0
	for i := range last {
		busiest, others = max(busiest, last[i].Busiest), max(others, last[i].others())
	}
	switch {
	case !Level(p.Rounds):
		c.Evidence += ": it changes with their number, so hosts limit it, not the link"
	case others > othersMost:
		c.Evidence += fmt.Sprintf("; others sent %.0f%% of what left the PF: measure while they are at rest", 100*others)
	case busiest > busiestMost:
		c.Evidence += "; a CPU of this host was fully busy, so that may be the limit"
	default:
		c.Measured = model.Yes.String()
	}
	return c
}
