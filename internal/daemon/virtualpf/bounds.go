package virtualpf

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sluice/internal/base/reconcile"
	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// Bounds of what guests make the host do, whatever they send: docs/virtual-pf.md states them.
const (
	// Of one guest: changes of what it holds, each a write, a few looks at the host and calls of libvirt. A pod that comes and
	// goes is two; all of the VFs can be taken and given back at once.
	changeEvery    = 2 * time.Second
	changesAtOnce  = 32
	changesByVF    = 2
	lineEvery      = 10 * time.Second // lines of the log about one VM
	linesAtOnce    = 60
	refusalEvery   = 10 * time.Second // lines of the log about requests that could not be carried out
	refusalsAtOnce = 5
	// Of all guests together.
	writesPerSecond, writesAtOnce = 1, 30 // of vpf.json
	looksPerSecond, looksAtOnce   = 4, 40 // at libvirt's domains, taps and ports
	linesPerSecond, allLinesOnce  = 2, 500
)

// Pauses between tries to reach a VM's channel, longer each time. A guest cannot make them shorter by anything that it sends.
// One that floods loses its channel for longer each time; that is forgotten once it was open for floods.Most without a flood.
var (
	dials  = reconcile.Backoff{First: time.Second, Most: 30 * time.Second}
	floods = reconcile.Backoff{First: time.Minute, Most: time.Hour}
)

// pauses are those of one VM's channel.
type pauses struct{ tries, floods int }

// after is how long to wait after a connection that ended with err and had been open for a while.
func (p *pauses) after(err error, open time.Duration) time.Duration {
	if errors.Is(err, channel.ErrFlood) {
		p.floods++
		return floods.After(p.floods)
	}
	if open > floods.Most {
		p.floods = 0
	}
	if open > dials.Most {
		p.tries = 0
	}
	p.tries++
	return dials.After(p.tries)
}

// allowance is what is left to the guest of one VM. It outlasts its connections and the VM's runs.
type allowance struct {
	changes  *rate.Limiter
	refusals rate.Sometimes // that are logged

	mu     sync.Mutex
	pauses pauses
}

// pause is how long to wait before the channel is opened again.
func (a *allowance) pause(err error, open time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pauses.after(err, open)
}

// allowances are those of all VMs that have been heard of.
type allowances struct {
	mu sync.Mutex
	by map[model.VMID]*allowance
}

// of is the allowance of a VM.
func (l *allowances) of(vm model.VMID, s *vpf.State) *allowance {
	vfs := 0
	for _, p := range s.Of(vm) {
		vfs += len(p.VFs)
	}
	burst := changesAtOnce + changesByVF*vfs
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.by[vm]
	if a == nil {
		if l.by == nil {
			l.by = map[model.VMID]*allowance{}
		}
		for old := range l.by {
			if len(s.Of(old)) == 0 {
				delete(l.by, old) // it has no virtual PF any more
			}
		}
		a = &allowance{changes: rate.NewLimiter(rate.Every(changeEvery), burst), refusals: rate.Sometimes{First: refusalsAtOnce, Interval: refusalEvery}}
		l.by[vm] = a
	}
	if a.changes.Burst() != burst {
		a.changes.SetBurst(burst)
	}
	return a
}

// lines bounds what is logged about actions, which guests can cause.
type lines struct {
	mu  sync.Mutex
	by  map[model.VMID]*aboutVM
	all *rate.Limiter
}

type aboutVM struct {
	limit *rate.Limiter
	left  int // lines out since the last one
}

// may says whether a line about a VM may be logged now, and how many were left out before it.
func (l *lines) may(vm model.VMID) (ok bool, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by, l.all = map[model.VMID]*aboutVM{}, rate.NewLimiter(linesPerSecond, allLinesOnce)
	}
	a := l.by[vm]
	if a == nil {
		a = &aboutVM{limit: rate.NewLimiter(rate.Every(lineEvery), linesAtOnce)}
		l.by[vm] = a
	}
	if !a.limit.Allow() || !l.all.Allow() {
		a.left++
		return false, 0
	}
	left, a.left = a.left, 0
	return true, left
}

// keep forgets VMs that are not wanted any more.
func (l *lines) keep(wanted func(model.VMID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for vm := range l.by {
		if !wanted(vm) {
			delete(l.by, vm)
		}
	}
}
