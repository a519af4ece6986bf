package claim

import (
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// What a second of a believed claim costs, and what one of virtio earns.
const (
	// Earn is the credit in seconds for a second of being busy on virtio.
	Earn = 5.0
	// MaxCredit is the most that a VM can have, in seconds: two minutes on virtio earn it.
	MaxCredit = 600.0
	// StartCredit is that of a VM that had its VF before the ledger was begun, in seconds.
	StartCredit = 120.0
	// A second of a claim costs CostBoth seconds where port and interrupts support it, CostOne
	// where one does and the other cannot be had, CostNone where none does, and CostDenied where
	// the VF raises too few interrupts for it: the one witness that is about this VM alone.
	// One of silence costs CostSilent when it has lasted half a minute: that uses up
	// MaxCredit in another.
	CostBoth   = 1.0 / 20
	CostOne    = 1.0 / 4
	CostNone   = 1.0
	CostDenied = 5.0
	CostSilent = 20.0
)

const (
	smooth     = 5.0      // s over which a load on virtio must last to prove anything
	halfLife   = 3600.0   // s on virtio in which a proof loses half its worth
	busyShare  = 1.0 / 20 // of its proof at which a VM counts as fully busy
	headroom   = 4.0      // a VF lets a VM move this much more than virtio did
	perIRQ     = 64.0     // packets that one interrupt may stand for: what a guest takes off the ring before it asks for the next
	silentSoon = 30.0     // s for which a guest may be silent without being taken for one that hides something
	silentFor  = 60.0     // s for which the load of a VM is unknown that had its VF before, and says nothing
	maxStep    = 60.0     // s: a longer gap between two looks counts as that
	frameBytes = 9216.0   // no frame is longer
)

// Key names a NIC of a VM.
type Key struct {
	VM  model.VMID
	NIC string
}

// Figure is a rate per second that may not be known.
type Figure struct {
	Rate  float64
	Known bool
}

// Holder is what one look shows of a NIC whose VF no hardware counts.
type Holder struct {
	Key        Key
	Claim      model.Traffic // what the guest says of its VF; not Known: it says nothing usable, Note why
	Virtio     float64       // packets/s that the host counts on the NIC's other path now
	Interrupts Figure        // of the VF on the host
}

// Ledger judges claims. It has no clock; equal sequences of calls give equal results.
type Ledger struct {
	accounts map[Key]*account
	ports    map[string]*port
}

// account is what is known of one NIC.
type account struct {
	at     time.Time     // of the last look
	recent float64       // packets/s on virtio, averaged over smooth
	proved float64       // packets/s: the highest recent, losing half its worth in halfLife
	credit float64       // s
	last   model.Traffic // the last load that was seen or believed: what a silent guest is taken for
	silent float64       // s since the guest last said anything of its VF, or since it got it
	share  float64       // of its claims that the port bears out, 0..1
}

// New makes a Ledger.
func New() *Ledger { return &Ledger{accounts: map[Key]*account{}, ports: map[string]*port{}} }

// Saw notes what the host counted of a NIC without a VF.
func (l *Ledger) Saw(now time.Time, key Key, virtio model.Traffic) {
	a, dt := l.account(key, now)
	if !virtio.Known {
		return
	}
	pps := packets(virtio)
	a.recent += (pps - a.recent) * (1 - math.Exp(-dt/smooth))
	if a.proved *= math.Exp2(-dt / halfLife); a.recent > a.proved {
		a.credit *= a.proved / a.recent // what was earned by less is worth less
		a.proved = a.recent
	}
	a.credit = min(MaxCredit, a.credit+Earn*dt*a.busy(pps))
	a.last, a.silent = virtio, 0
}

// account returns a NIC's account and the seconds since the last look at it.
func (l *Ledger) account(key Key, now time.Time) (*account, float64) {
	a := l.accounts[key]
	if a == nil {
		a = &account{at: now, share: 1}
		l.accounts[key] = a
	}
	dt := min(maxStep, max(0, now.Sub(a.at).Seconds()))
	a.at = now
	return a, dt
}

// busy says how busy a VM is that moves pps, 0..1, by what it has proved to move.
func (a *account) busy(pps float64) float64 {
	if a.proved <= 0 {
		return 0
	}
	return min(1, pps/(busyShare*a.proved))
}

// Forget drops the accounts and PFs that are not to be kept.
func (l *Ledger) Forget(keep func(Key) bool, keepPF func(string) bool) {
	for k := range l.accounts {
		if !keep(k) {
			delete(l.accounts, k)
		}
	}
	for pf := range l.ports {
		if !keepPF(pf) {
			delete(l.ports, pf)
		}
	}
}

// Judge says what is believed of the holders of one PF's VFs, in their order; carried is what
// its port carried for VFs. The sum of what is believed and corroborated is at most
// what the port carried, with some slack.
func (l *Ledger) Judge(now time.Time, pf string, carried Figure, holders []Holder) []model.Traffic {
	claims := make([]claim, len(holders))
	for i := range holders {
		a, dt := l.account(holders[i].Key, now)
		claims[i] = newClaim(&holders[i], a, dt)
	}
	if carried.Known {
		p := l.ports[pf]
		if p == nil {
			p = &port{at: now, recent: carried.Rate}
			l.ports[pf] = p
		}
		most, dt := p.room(now, carried.Rate)
		p.learn(claims, most, dt)
		for i := range claims {
			claims[i].doubt()
		}
		level := level(claims, most)
		for i := range claims {
			claims[i].supported = min(claims[i].supported, level)
		}
	}
	out := make([]model.Traffic, len(holders))
	for i := range claims {
		out[i] = claims[i].judge(carried.Known)
	}
	return out
}

// level is the highest figure that every claim may reach so that their sum fits: small
// claims are served in full, large ones are cut to one height.
func level(claims []claim, room float64) float64 {
	sizes := make([]float64, len(claims))
	for i := range claims {
		sizes[i] = claims[i].supported
	}
	slices.Sort(sizes)
	for i, x := range sizes {
		if share := room / float64(len(sizes)-i); x > share {
			return share
		}
		room -= x
	}
	return math.Inf(1)
}

func packets(t model.Traffic) float64 { return t.RxPPS + t.TxPPS }
