package virtualpf

import (
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sluice/internal/base/reconcile"
	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// Bounds on the work that guests can cause on the host, whatever they send. docs/virtual-pf.md lists them.
const (
	// Per guest: changes of what it holds. Each costs a write, a few observations of the host and libvirt calls. A pod that comes and
	// goes causes two; the burst lets all VFs be attached and detached at once.
	changeEvery    = 2 * time.Second
	changesAtOnce  = 32
	changesByVF    = 2
	lineEvery      = 10 * time.Second // log lines about one VM
	linesAtOnce    = 60
	refusalEvery   = 10 * time.Second // log lines about requests that failed
	refusalsAtOnce = 5
	// All guests together.
	writesPerSecond, writesAtOnce = 1, 30 // of vpf.json
	looksPerSecond, looksAtOnce   = 4, 40 // observations of libvirt's domains, taps and ports
	linesPerSecond, allLinesOnce  = 2, 500
)

// Backoff between attempts to reach a VM's channel. Nothing that a guest sends can shorten it. A guest that floods loses its channel
// for longer each time, until the channel has stayed open for floods.Most without a flood.
var (
	dials  = reconcile.Backoff{First: time.Second, Most: 30 * time.Second}
	floods = reconcile.Backoff{First: time.Minute, Most: time.Hour}
)

// pauses counts the failures of one VM's channel.
type pauses struct{ tries, floods int }

// after returns how long to wait after a connection that was open for that long and ended with err.
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

// allowance is the remaining allowance of one VM's guest. It outlives connections and runs of the VM.
type allowance struct {
	changes  *rate.Limiter
	refusals rate.Sometimes // to log

	mu     sync.Mutex
	pauses pauses
}

// pause returns how long to wait before opening the channel again.
func (a *allowance) pause(err error, open time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pauses.after(err, open)
}

// allowances holds the allowance of each known VM.
type allowances struct {
	mu sync.Mutex
	by map[model.VMID]*allowance
}

// of returns the allowance of a VM.
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
		maps.DeleteFunc(l.by, func(old model.VMID, _ *allowance) bool { return len(s.Of(old)) == 0 }) // without virtual PFs now
		a = &allowance{
			changes:  rate.NewLimiter(rate.Every(changeEvery), burst),
			refusals: rate.Sometimes{First: refusalsAtOnce, Interval: refusalEvery},
		}
		l.by[vm] = a
	}
	if a.changes.Burst() != burst {
		a.changes.SetBurst(burst)
	}
	return a
}

// lines limits the rate of log lines about actions, which guests can cause.
type lines struct {
	mu  sync.Mutex
	by  map[model.VMID]*aboutVM
	all *rate.Limiter
}

type aboutVM struct {
	limit *rate.Limiter
	left  int // lines omitted since the last logged one
}

// may reports whether a line about a VM may be logged now, and how many were omitted before it.
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

// keep drops the records of VMs that are no longer wanted.
func (l *lines) keep(wanted func(model.VMID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.by, func(vm model.VMID, _ *aboutVM) bool { return !wanted(vm) })
}
