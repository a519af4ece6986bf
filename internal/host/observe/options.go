package observe

import (
	"slices"
	"time"

	"sluice/internal/host/guest"
	"sluice/internal/host/others"
	"sluice/internal/model"
)

// Pool lists the VFs that Sluice may assign, by PF name.
type Pool map[string]PoolPF

// PoolPF says which VFs of one PF are in the pool, and which network the PF leads to.
type PoolPF struct {
	All     bool   // every VF of the PF
	VFs     []int  // otherwise these indices
	Network string // "": that of the switch that the PF is a port of
	Speed   uint64 // what its link carries, bits/s, if the config says so; 0: it does not
	NoRates bool   // do not limit its VFs by max_tx_rate, whatever the driver supports
}

// Has reports whether the VF is in the pool.
func (p Pool) Has(id model.VFID) bool {
	pf, ok := p[id.PF]
	return ok && (pf.All || slices.Contains(pf.VFs, id.Index))
}

// Options bound what a Source queries and how often. The zero value is usable and owns no VF.
type Options struct {
	Pool Pool
	// Failover returns how a VM falls back to virtio if libvirt's XML does not show it; nil: only the XML counts. It is called for every VM of
	// every Snapshot.
	Failover func(name string, id model.VMID) model.Failover

	// Reports tells which guests send their counters on their own: such a guest needs no agent and has guest.ReportsFor to answer.
	// nil: none does. Reports are as untrusted as an agent's answer.
	Reports func(id model.VMID) bool

	// SetAside is called for every Snapshot, and the function it returns for every VF that no domain holds, after its owner has been set.
	// That function returns why the VF may not be used for now, for example because `sluice qualify` is testing it; "": it may. nil: all may.
	SetAside func() func(vf *model.VF) (why string)

	// Measured replaces the general properties of a PF's driver by those measured on the PF; nil: nothing was measured.
	Measured func(pf *model.PF)

	// Others finds programs of the host that change the interfaces of VFs as well; nil: none are looked for. It is called now and then.
	Others func([]others.Interface) []model.Problem

	// InGuest asks guests whether limits can be set inside them; nil: no guest is asked.
	InGuest Abilities

	Recheck  time.Duration // interval at which VF settings and forwarding entries are read again; 0: 5 s
	Spacing  time.Duration // least interval between such readings when kernel events ask for one; 0: 2 s
	CPUEvery time.Duration // interval at which CPU times are read; 0: 5 s, negative: with every Snapshot
	Sample   time.Duration // expected time between two Snapshots, 0 if not known
	MaxGap   time.Duration // samples further apart than this make no rate; 0: 30 s, or three Snapshots if that is longer
	AskEvery time.Duration // interval at which a guest is asked for its counters; 0: 5 s, negative: never
	AskFor   time.Duration // time that it has to answer; 0: 2 s
	AskPause time.Duration // longest pause for guests that do not answer or are not believed; 0: 2 min
}

// minGap is the shortest time between samples that make a rate. Below it the age of the counters themselves dominates the error.
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

// within returns how long the guest has to answer.
func (o *Options) within(id model.VMID) time.Duration {
	if o.reports(id) {
		return max(o.AskFor, guest.ReportsFor)
	}
	return o.AskFor
}

func (o Options) gaps() gaps { return gaps{min: minGap, max: o.MaxGap} }

// askGaps returns the bounds for a guest's answers: two answers still make a rate after the longest pause.
func (o Options) askGaps() gaps {
	return gaps{min: minGap, max: o.AskEvery + o.AskPause + max(o.AskFor, guest.ReportsFor)}
}

// askFresh returns the age up to which a guest's figure is used.
func (o Options) askFresh() time.Duration { return 3*o.AskEvery + o.AskFor }
