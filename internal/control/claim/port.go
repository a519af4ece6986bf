package claim

import (
	"math"
	"slices"
	"time"
)

const (
	roomSlack = 1.25   // claims and port are sampled at different times
	roomFloor = 2000.0 // packets/s: broadcasts, which reach every VF but cross the port once
	roomMean  = 10.0   // s over which the port's rate is averaged: claims arrive every few seconds

	shareMean  = 15.0 // s over which port and claims are averaged to find whose claims are true
	shareSlack = 0.05 // fraction of the port's rate by which they may differ, beyond roomFloor, without doubting anyone
	shareTime  = 60.0 // s: time constant with which a difference is attributed to those who claim
	shareTrue  = 0.75 // a NIC is fully believed from this true share of its claims on: drivers count differently
)

// port is what a PF's port carried for VFs, and what each NIC claimed of it.
//
// A guest can forge its reports and the interrupts of its VF, but not what the port carries. A single sample does not show which
// of several guests lies. But VFs change holders, and when a liar comes or goes, the sum of the claims changes while the port's
// rate does not. So the port's rate is modelled as the sum of the claims, each times the unknown share of it that is true, and
// the shares are fitted by normalized least mean squares (Widrow and Hoff, Adaptive switching circuits, 1960): where the claims
// exceed the port's rate all their shares fall, those of larger claims faster; where they fall short, all rise again. A liar's
// share falls whoever else has a VF; that of an honest NIC recovers as soon as the liar has no VF.
type port struct {
	at     time.Time
	recent float64 // packets/s over roomMean
	mean   float64 // packets/s over shareMean
	claims []claimed
}

// claimed is the mean over shareMean of what a NIC claimed, in packets/s; it decays once the NIC has no VF.
type claimed struct {
	by   *account
	mean float64
}

// room updates the port's rate and returns the most, in packets/s, that all claims together may be corroborated for.
func (p *port) room(now time.Time, rate float64) (most, dt float64) {
	dt = min(maxStep, max(0, now.Sub(p.at).Seconds()))
	p.at = now
	p.recent += (rate - p.recent) * (1 - math.Exp(-dt/roomMean))
	p.mean += (rate - p.mean) * (1 - math.Exp(-dt/shareMean))
	return roomSlack*max(p.recent, rate) + roomFloor, dt
}

// learn fits the shares of all claimants to the port's mean rate. No claim counts for more than most.
func (p *port) learn(claims []claim, most, dt float64) {
	gain := 1 - math.Exp(-dt/shareMean)
	for i := range p.claims {
		p.claims[i].mean *= 1 - gain
	}
	for i := range claims {
		k := slices.IndexFunc(p.claims, func(c claimed) bool { return c.by == claims[i].a })
		if k < 0 {
			k = len(p.claims)
			p.claims = append(p.claims, claimed{by: claims[i].a})
		}
		p.claims[k].mean += gain * min(claims[i].shown, most)
	}
	p.claims = slices.DeleteFunc(p.claims, func(c claimed) bool { return c.mean < 1 })
	missing, squares := p.mean, 0.0
	for _, c := range p.claims {
		missing -= c.by.share * c.mean
		squares += c.mean * c.mean
	}
	if missing < 0 {
		missing = min(0, missing+roomFloor+shareSlack*p.mean)
	}
	step := missing * (1 - math.Exp(-dt/shareTime))
	for _, c := range p.claims {
		c.by.share = min(1, max(0, c.by.share+step*c.mean/squares))
	}
}
