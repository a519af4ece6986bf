package claim

import (
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// The cost of a second of a believed claim, and what a second on virtio earns.
const (
	// Earn is the credit, in seconds, for one second of being busy on virtio.
	Earn = 5.0
	// MaxCredit is the most credit a VM can have, in seconds: two minutes busy on virtio earn it.
	MaxCredit = 600.0
	// StartCredit is the credit, in seconds, of a VM that had its VF before the ledger was started.
	StartCredit = 120.0
	// A second of a claim costs CostBoth seconds of credit if port and interrupts both support it, CostOne if one does and the
	// other is not available, CostNone if neither does, and CostDenied if the VF raises too few interrupts for it, since
	// interrupts are the only witness about this VM alone. A second of silence costs CostSilent once it has lasted half a minute,
	// so that another half minute uses up MaxCredit.
	CostBoth   = 1.0 / 20
	CostOne    = 1.0 / 4
	CostNone   = 1.0
	CostDenied = 5.0
	CostSilent = 20.0
)

const (
	smooth     = 5.0      // s for which a load on virtio must last to prove anything
	halfLife   = 3600.0   // s on virtio after which a proof counts half
	busyShare  = 1.0 / 20 // fraction of its proof at which a VM counts as fully busy
	headroom   = 4.0      // a VF lets a VM move up to this many times what virtio did
	perIRQ     = 64.0     // packets that one interrupt may stand for: what a guest takes off the ring before it re-enables interrupts
	silentSoon = 30.0     // s of silence before a guest is suspected of hiding its load
	silentFor  = 60.0     // s of silence for which the load of a VM that had its VF before counts as unknown
	maxStep    = 60.0     // s: a longer gap between two samples counts as this
	frameBytes = 9216.0   // maximum frame size
)

// Key identifies a NIC of a VM.
type Key struct {
	VM  model.VMID
	NIC string
}

// Figure is a rate per second that may not be known.
type Figure struct {
	Rate  float64
	Known bool
}

// Holder is one sample of a NIC that has a VF without hardware counters.
type Holder struct {
	Key        Key
	Claim      model.Traffic // what the guest reports for its VF; if not Known, it reports nothing usable and Note says why
	Virtio     float64       // packets/s that the host counts now on the NIC's virtio path
	Interrupts Figure        // of the VF on the host
}

// Ledger judges claims. It has no clock; the same sequence of calls gives the same results.
type Ledger struct {
	accounts map[Key]*account
	ports    map[string]*port
}

// account is the state of one NIC.
type account struct {
	at     time.Time     // of the last sample
	recent float64       // packets/s on virtio, averaged over smooth
	proved float64       // packets/s: the highest recent, halving every halfLife
	credit float64       // s
	last   model.Traffic // the last load that was seen or believed: the assumed load of a silent guest
	silent float64       // s since the guest last reported on its VF, or since it got it
	share  float64       // of its claims that the port confirms, 0..1
}

// New makes a Ledger.
func New() *Ledger { return &Ledger{accounts: map[Key]*account{}, ports: map[string]*port{}} }

// Saw records what the host counted for a NIC without a VF.
func (l *Ledger) Saw(now time.Time, key Key, virtio model.Traffic) {
	a, dt := l.account(key, now)
	if !virtio.Known {
		return
	}
	pps := packets(virtio)
	a.recent += (pps - a.recent) * (1 - math.Exp(-dt/smooth))
	if a.proved *= math.Exp2(-dt / halfLife); a.recent > a.proved {
		a.credit *= a.proved / a.recent // what was earned at a lower load counts for less
		a.proved = a.recent
	}
	a.credit = min(MaxCredit, a.credit+Earn*dt*a.busy(pps))
	a.last, a.silent = virtio, 0
}

// account returns a NIC's account and the seconds since its last sample.
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

// busy returns how busy, 0..1, a VM that moves pps is, relative to what it has proved to move.
func (a *account) busy(pps float64) float64 {
	if a.proved <= 0 {
		return 0
	}
	return min(1, pps/(busyShare*a.proved))
}

// Forget drops the accounts and PFs for which keep and keepPF return false.
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

// Judge returns what is believed of each holder of a VF of one PF, in the order of holders. carried is what the PF's port carried
// for VFs. The sum of what is believed and corroborated is at most what the port carried, with some slack.
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

// level returns the highest rate that every claim may reach such that their sum fits into room: smaller claims are granted in
// full, larger ones are cut to this level (max-min fairness).
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
