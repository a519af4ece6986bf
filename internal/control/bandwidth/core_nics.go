package bandwidth

// dividePackets divides each VM's packets/s over its NICs, whatever link each uses, by the packets/s that they send; or by the
// bits/s of the last period, which is step 2 of DBA-VM's algorithm (section IV): pps_i = pps_VM x B_i / (sum of B_i).
func (c *Core) dividePackets() {
	for _, nics := range c.vms {
		var promised, limit uint64
		c.parts = c.parts[:0]
		for _, n := range nics {
			promised, limit = max(promised, n.promised.Packets), max(limit, n.sla.Limit.Packets)
			sent := n.busy
			if c.kind.PacketsByBits {
				sent = n.sent.Bits
			}
			c.parts = append(c.parts, sent)
		}
		toParts(c.parts)
		for i, n := range nics {
			n.own.Guarantee.Packets = uint64(c.parts[i] * float64(promised))
			if limit > 0 {
				n.own.Limit.Packets = max(1, uint64(c.parts[i]*float64(limit)))
			}
		}
	}
}

// toParts turns what each of several sends, per second, into its part of the whole. The paper gives nothing to one that is idle,
// which could then never start, and does not say what each gets while all are idle. Here each counts as sending at least
// leastShare of the sum, so an idle one keeps a part; while all are idle the parts are equal.
func toParts(sent []float64) {
	sum := 1.0 // not 0; what it adds is negligible
	for _, x := range sent {
		sum += x
	}
	counted := 0.0
	for i := range sent {
		sent[i] = max(sent[i], sum*leastShare)
		counted += sent[i]
	}
	for i := range sent {
		sent[i] /= counted
	}
}

// leastShare is the part of what a VM sends that each of its NICs counts as sending at least.
const leastShare = 0.05
