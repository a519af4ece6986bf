package claim

import (
	"fmt"

	"sluice/internal/model"
)

// claim is one holder's claim while it is judged. Rates are in packets/s.
type claim struct {
	h         *Holder
	a         *account
	dt        float64
	said      model.Traffic // as the guest reports it; for a silent guest, what was last seen or believed
	wants     float64       // the total of said
	shown     float64       // the part its interrupts can account for; all of it if interrupts are not known
	raised    float64       // the part of shown that its proof allows, and that the port confirms of its claims
	supported float64       // what all available witnesses support
	unknown   bool          // there is nothing to judge by yet
}

func newClaim(h *Holder, a *account, dt float64) claim {
	c := claim{h: h, a: a, dt: dt, said: h.Claim}
	started := a.proved <= 0 && !a.last.Known // it had its VF before any sample of it
	switch {
	case h.Claim.Known && started:
		a.proved, a.credit, a.silent = packets(h.Claim), StartCredit, 0
	case h.Claim.Known:
		a.silent = 0
	case started:
		a.silent += dt
		c.unknown = a.silent < silentFor
	default:
		a.silent += dt
		// Traffic on virtio is not on the VF: a guest that has just been given a VF may not use it yet.
		c.said = scale(a.last, max(0, 1-h.Virtio/max(1, packets(a.last))))
	}
	c.wants = packets(c.said)
	c.shown = c.wants
	if h.Interrupts.Known {
		c.shown = min(c.shown, perIRQ*h.Interrupts.Rate)
	}
	c.raised = min(c.shown, headroom*a.proved)
	c.supported = c.raised
	return c
}

// doubt reduces the claim of a NIC whose claims the port does not confirm.
func (c *claim) doubt() {
	c.raised *= min(1, c.a.share/shareTrue)
	c.supported = c.raised
}

// judge returns what is believed, and charges the account for it.
func (c *claim) judge(port bool) model.Traffic {
	if c.unknown {
		return c.h.Claim
	}
	cost, none := CostBoth, CostNone
	switch {
	case c.a.silent > silentSoon:
		c.supported, none = 0, CostSilent
	case !port && !c.h.Interrupts.Known:
		c.supported = 0
	case !port || !c.h.Interrupts.Known:
		cost = CostOne
	}
	proved := min(c.wants, c.a.proved)
	alone := max(0, min(proved, c.raised)-c.supported)
	denied := max(0, proved-max(c.raised, c.supported))
	believed := c.supported + alone + denied
	price := 0.0
	if believed > 0 {
		price = c.dt * c.a.busy(believed) * (c.supported*cost + alone*none + denied*max(none, CostDenied)) / believed
	}
	if price > c.a.credit || c.a.credit <= 0 {
		c.a.credit, believed = 0, 0
	}
	c.a.credit -= min(price, c.a.credit)
	out := c.figure(believed)
	switch {
	case c.h.Claim.Known:
		c.a.last = out
	case c.wants > 0:
		c.a.last = scale(c.a.last, believed/c.wants)
	}
	return out
}

// figure returns what is believed as a Traffic, with its proof and what was cut.
func (c *claim) figure(believed float64) model.Traffic {
	t := scale(c.said, min(1, believed/max(1, c.wants)))
	t.RxBytes, t.TxBytes = min(t.RxBytes, t.RxPPS*frameBytes), min(t.TxBytes, t.TxPPS*frameBytes)
	t.Source, t.At = c.h.Claim.Source, c.h.Claim.At
	t.Known, t.Proof = true, model.ProofGuest
	if c.h.Claim.Known && c.supported >= believed && believed > 0 {
		t.Proof = model.ProofCorroborated
	}
	t.Note, t.Denied = c.h.Claim.Note, c.h.Claim.Denied
	if denied := c.wants - believed; c.h.Claim.Known && denied >= 1 {
		t.Denied = denied
	}
	switch {
	case c.wants-believed < 1:
	case believed == 0:
		t.Note = join(t.Note, fmt.Sprintf("not believed: %.0f packets/s that the host cannot verify; on virtio it could", c.wants))
	default:
		t.Note = join(t.Note, fmt.Sprintf("reduced from %.0f packets/s to what the host could confirm", c.wants))
	}
	return t
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// scale multiplies all rates.
func scale(t model.Traffic, f float64) model.Traffic {
	t.RxPPS, t.TxPPS, t.RxBytes, t.TxBytes = t.RxPPS*f, t.TxPPS*f, t.RxBytes*f, t.TxBytes*f
	return t
}
