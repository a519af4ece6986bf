package observe

import (
	"slices"
	"time"

	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// Pool says which VFs are Sluice's to give, by PF name.
type Pool map[string]PoolPF

// PoolPF says which VFs of one PF are in the pool, and what network it leads to.
type PoolPF struct {
	All     bool   // every VF, however many there are
	VFs     []int  // else these indices
	Network string // "" for the bridge that the PF is a port of
	Speed   uint64 // of its link, bits/s, where the kernel does not know it or it carries less; 0: as the kernel says
	NoRates bool   // its VFs are not to be limited by max_tx_rate, whatever the driver says
}

// Has says whether the VF is in the pool.
func (p Pool) Has(id model.VFID) bool {
	pf, ok := p[id.PF]
	return ok && (pf.All || slices.Contains(pf.VFs, id.Index))
}

// Options bound what a Source asks and how often. The zero value is usable and owns
// no VF.
type Options struct {
	Pool Pool
	// Failover says how a VM falls back to virtio where libvirt's XML does not show it;
	// nil: nothing but the XML counts. It is called for every VM of every Snapshot.
	Failover func(name string, id model.VMID) model.Failover

	// Reports says which guests send their counters by themselves: such a guest needs no agent, and has guest.ReportsFor to
	// answer. nil: none does. Reports are as untrusted as an agent's answer.
	Reports func(id model.VMID) bool

	// SetAside is called for every Snapshot, and what it returns for every VF that no domain has, with its owner as it is
	// otherwise: it says why the VF is nobody's for now, as while `sluice qualify` tries it out; "": it is not. nil: none are.
	SetAside func() func(vf *model.VF) (why string)

	// Measured puts what was measured of a PF in the place of what is known of its driver in general; nil: nothing was.
	Measured func(pf *model.PF)

	// InGuest asks guests whether limits can be set inside them; nil: none is asked.
	InGuest Abilities

	Recheck  time.Duration // VF settings and forwarding entries are read again after this; 0: 5 s
	Spacing  time.Duration // and after a kernel event, but not more often than this; 0: 2 s
	CPUEvery time.Duration // CPU times are read this often; 0: 5 s, negative: with every Snapshot
	Sample   time.Duration // time between two Snapshots, as far as it is known
	MaxGap   time.Duration // samples further apart make no rate; 0: 30 s, or three Snapshots
	AskEvery time.Duration // a guest is asked for its counters this often; 0: 5 s, negative: never
	AskFor   time.Duration // and has this long to answer; 0: 2 s
	AskPause time.Duration // the longest pause after guests that do not answer or lie; 0: 2 min
}

// minGap is the shortest time that makes a rate. Below it the age of the counters
// themselves counts more than what they say.
const minGap = 100 * time.Millisecond

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.Recheck, 5*time.Second)
	set(&o.Spacing, 2*time.Second)
	set(&o.CPUEvery, 5*time.Second)
	set(&o.MaxGap, max(30*time.Second, 3*o.Sample))
	set(&o.AskEvery, 5*time.Second)
	set(&o.AskFor, 2*time.Second)
	set(&o.AskPause, 2*time.Minute)
	return o
}

func (o *Options) reports(id model.VMID) bool { return o.Reports != nil && o.Reports(id) }

// within is how long the guest has to answer.
func (o *Options) within(id model.VMID) time.Duration {
	if o.reports(id) {
		return max(o.AskFor, guest.ReportsFor)
	}
	return o.AskFor
}

func (o Options) gaps() gaps { return gaps{min: minGap, max: o.MaxGap} }

// askGaps are the gaps between a guest's answers: after a pause the next pair of
// answers makes a rate again.
func (o Options) askGaps() gaps {
	return gaps{min: minGap, max: o.AskEvery + o.AskPause + max(o.AskFor, guest.ReportsFor)}
}

// askFresh is how old a guest's figure may be and still count.
func (o Options) askFresh() time.Duration { return 3*o.AskEvery + o.AskFor }
