package bandwidth

import (
	"fmt"
	"strings"

	"sluice/internal/model"
)

// rough formats a rate that changes all the time.
func rough(b float64) string { return model.SIDigits(max(b, 0), 2) + "bit/s" }

// and joins the first elements of a list, and says how many more there are.
func and(list []string) string {
	if n := len(list) - named; n > 0 {
		list = append(list[:named:named], fmt.Sprintf("%d more", n))
	}
	if n := len(list) - 1; n > 0 {
		return strings.Join(list[:n], ", ") + " and " + list[n]
	}
	return strings.Join(list, "")
}

// called is the name of the NIC's VM, without what the page would take for the start of a command.
func (n *nic) called() string { return strings.ReplaceAll(n.vmName, "`", "'") }

// nameOf names a NIC of the party: by its VM, if that has no other there.
func (p *party) nameOf(n *nic) string {
	switch {
	case n.whole != nil:
		return (&Asked{ID: n.id}).function()
	case n.inside != nil:
		return "virtual PF " + n.inside.name + " of " + n.called()
	}
	for _, o := range p.nics {
		if o != n && o.id.VM == n.id.VM && o.inside == nil {
			return n.id.NIC + " of " + n.called()
		}
	}
	return n.called()
}

// taker describes who sends more than it is promised while others lack so many bits/s.
func (c *Core) taker(p *party, e excess, lacks float64) model.Taker {
	if e.nic == nil {
		return model.Taker{Sent: e.bits, Beyond: uint64(e.bits), Remedy: "find out what this host itself sends through " + p.name +
			", and stop or limit that; `sluice vfs` lists VFs that somebody else uses"}
	}
	n := e.nic
	return model.Taker{
		NICID: n.id, VMName: n.vmName, Path: n.path(), Sent: n.sent.Bits, Beyond: uint64(e.bits), Limit: c.held(n),
		Remedy: c.remedy(n, max(n.sent.Bits-lacks, float64(n.promised.Bits))),
	}
}

// held is what limits the NIC now, in bits/s; 0: nothing does.
func (c *Core) held(n *nic) uint64 {
	s := &n.limits[slot(n.path(), model.Tx)]
	switch {
	case n.onVF() && !n.ours:
		return n.byHand
	case n.loose() != nil || !c.Enforces():
		return 0
	case n.inside != nil:
		return n.rate(n.own.Limit).Bits
	case s.inForce():
		return effective(&s.Has)
	}
	return 0
}

// takes says what the NIC takes, and what limits it.
func (c *Core) takes(p *party, e excess, of string) string {
	if e.nic == nil {
		return fmt.Sprintf("no VM is known to send %s%s%s", rough(e.bits), of, p.suspects())
	}
	n := e.nic
	who := p.nameOf(n)
	if n.onVF() {
		who = n.called() + "'s VF " + n.vf.String()
	}
	text := fmt.Sprintf("%s takes %s%s", who, rough(n.sent.Bits), of)
	if n.promised.Bits > 0 {
		text += fmt.Sprintf(", %s more than it is promised", rough(e.bits))
	}
	limit, loose := c.held(n), n.loose()
	switch {
	case n.onVF() && !n.ours && limit > 0:
		return text + fmt.Sprintf("; somebody else attached it, and its limit there is %s", bits(float64(limit)))
	case loose == n:
		return text + "; nothing limits it: " + c.whyUnlimited(n)
	case loose != nil:
		return text + "; nothing limits its " + p.nameOf(loose) + ": " + c.whyUnlimited(loose)
	case !c.Enforces():
		return text + "; observe mode limits nobody"
	case n.shared:
		return text + "; the queues of the taps let it"
	case limit > 0:
		return text + "; it is limited to " + bits(float64(limit))
	}
	return text + "; Sluice does not limit it"
}

// suspects names those of whom it is not known what they send through their VFs.
func (p *party) suspects() string {
	var list []string
	for _, n := range p.nics {
		if n.onVF() && !n.paths[1].followed {
			list = append(list, n.called()+"'s VF "+n.vf.String())
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "; nothing counts " + and(list)
}

// loose is the NIC if nothing limits it, of a virtual PF the first function that nothing limits; nil: all is limited.
func (n *nic) loose() *nic {
	if n.inside != nil {
		for _, f := range n.inside.functions {
			if !f.idle() && f.unlimited() {
				return f
			}
		}
	} else if n.unlimited() {
		return n
	}
	return nil
}

// whyUnlimited says why nothing limits the NIC.
func (c *Core) whyUnlimited(n *nic) string {
	if n.onVF() && n.contained(c.at) {
		return n.offence
	}
	return n.whyNot(&n.limits[slot(n.path(), model.Tx)])
}

// remedy is what helps against a NIC that takes too much. The others would have what they lack if it sent only so many bits/s.
func (c *Core) remedy(n *nic, enough float64) string {
	rate := model.Rate{Bits: model.WholeMbit(max(uint64(enough), n.least()))}
	s, loose := &n.limits[slot(n.path(), model.Tx)], n.loose()
	switch {
	case !c.Enforces() && loose == nil:
		return "set mode: enforce in sluice.yaml: then Sluice limits it"
	case n.onVF() && !n.ours:
		return n.detach(s, rate)
	case n.onVF() && n.contained(c.at):
		return fmt.Sprintf("Sluice takes that VF away; `sluice explain %s` says what prevents that", n.called())
	case n.onVF() && loose != nil:
		return n.leaveVF(s)
	case loose != nil && loose.limits[slot(model.PathVirtio, model.Tx)].failed():
		return "correct that: it is tried again by itself"
	case loose != nil:
		return "use Linux 6.6 or later, or load what HTB needs: `modprobe ifb`, `modprobe sch_htb`"
	case n.whole != nil:
		return fmt.Sprintf("limit it inside: `sluice vpf set %s --limit %s` with the label of its VF", n.called(), rate)
	case c.only(n):
		return fmt.Sprintf("limit it for good: `sluice sla set %s --limit %s`", n.called(), rate)
	}
	return fmt.Sprintf("limit it for good: `sluice sla set %s --nic %s --limit %s`", n.called(), n.id.NIC, rate)
}

// only reports that the VM has no other NIC.
func (c *Core) only(n *nic) bool {
	if n.inside != nil {
		return false
	}
	for _, o := range c.nics {
		if o != n && o.id.VM == n.id.VM {
			return false
		}
	}
	return true
}

// limitable reports that something could limit what the NIC sends through its tap.
func (n *nic) limitable() bool {
	s := &n.limits[slot(model.PathVirtio, model.Tx)]
	return s.by != "" && s.can != model.No && !s.failed()
}

// detach is the remedy for a VF that somebody else attached.
func (n *nic) detach(s *limitState, rate model.Rate) string {
	var ways []string
	if n.limitable() {
		ways = append(ways, "detach that VF if its guest can go on over virtio, where Sluice limits it")
	} else {
		ways = append(ways, "detach that VF, or promise less")
	}
	if s.by == maxTxRate && s.can != model.No {
		ways = append(ways, fmt.Sprintf("limit it by hand: `ip link set %s vf %d max_tx_rate %d`", n.vf.PF, n.vf.Index, rate.Bits/1e6))
	}
	return strings.Join(ways, "; or ")
}

// leaveVF is the remedy for a VF of Sluice's that nothing can limit.
func (n *nic) leaveVF(s *limitState) string {
	var ways []string
	if s.failed() {
		ways = append(ways, "correct that: it is tried again by itself")
	}
	if n.limitable() {
		ways = append(ways, fmt.Sprintf("move it to virtio, where Sluice limits it: `sluice release %s`", n.called()))
	}
	if s.by == "" || s.can == model.No {
		ways = append(ways, "let its guest limit itself: bandwidth.in_guest in sluice.yaml")
	}
	return strings.Join(ways, "; or ")
}
