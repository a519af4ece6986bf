package sim

import (
	"fmt"
	"strings"
	"time"
)

// direction is a way of frames to a guest or from it.
type direction int

const (
	fromWire direction = iota
	fromBridge
	fromVFs
	fromGuest
	directions
)

var directionNames = [directions]string{"wire", "bridge", "other VFs", "out"}

// gaps are the longest times without a break in which a VM was not reached.
type gaps [directions]time.Duration

// most is the longest of those that are bounded. From other guests' VFs is measured only: a
// VM on virtio is reached from there through a filter of the PF, of which there may be none
// to spare, and which a daemon that is dead while a first VF comes into use cannot set.
func (g gaps) most() time.Duration { return max(g[fromWire], g[fromBridge], g[fromGuest]) }

func (g *gaps) add(o gaps) {
	for d := range g {
		g[d] = max(g[d], o[d])
	}
}

func (g gaps) String() string {
	var parts []string
	for d, t := range g {
		parts = append(parts, fmt.Sprintf("%s %s", directionNames[d], t.Round(10*time.Microsecond)))
	}
	return strings.Join(parts, ", ")
}

// meter looks at every event whether each VM is reached.
type meter struct {
	w     *World
	since map[*VM]*[directions]time.Time // since when it is not; zero: it is
	worst gaps
	of    map[string]gaps // the worst of each VM, by name
	story map[string]string
	most  string // the VM with the longest gap
}

func newMeter(w *World) *meter {
	return &meter{w: w, since: map[*VM]*[directions]time.Time{}, of: map[string]gaps{}, story: map[string]string{}}
}

// counts says whether it is for Sluice and the host to reach the VM: not one that
// listens to nothing, whose VF is another's doing, or whose tap somebody took down; nor one
// that does not give up a VF whose PF has lost its link.
func (m *meter) counts(v *VM) bool {
	if p := m.w.pf(v.hasVF.PF); v.open && p != nil && !p.LinkUp && (v.IgnoreUnplug || v.Slow > 0 || v.TapDown) {
		return false
	}
	return v.listens() && !v.foreign && (v.open || !v.TapDown)
}

// note is for Engine.OnEvent: it looks at what is true after everything that happens at
// a moment.
func (m *meter) note(now time.Time) {
	for _, v := range m.w.vms {
		since := m.since[v]
		if since == nil {
			since = new([directions]time.Time)
			m.since[v] = since
		}
		ok := [directions]bool{true, true, true, true}
		if m.counts(v) {
			r := m.w.Reach(v)
			ok = [directions]bool{fromWire: r.Wire, fromBridge: r.Local, fromVFs: r.VFs, fromGuest: r.Out}
		}
		for d, is := range ok {
			switch {
			case is && !since[d].IsZero():
				m.end(v, direction(d), since[d], now)
				since[d] = time.Time{}
			case !is && since[d].IsZero():
				since[d] = now
			}
		}
	}
	for v := range m.since {
		if v.gone { // for as long as it was there it counts
			m.forget(v, now)
		}
	}
}

// forget ends what is open of a VM.
func (m *meter) forget(v *VM, now time.Time) {
	for d, t := range m.since[v] {
		if !t.IsZero() {
			m.end(v, direction(d), t, now)
		}
	}
	delete(m.since, v)
}

// stop ends what is open still.
func (m *meter) stop(now time.Time) gaps {
	for v := range m.since {
		m.forget(v, now)
	}
	return m.worst
}

func (m *meter) end(v *VM, d direction, since, now time.Time) {
	gap, of := now.Sub(since), m.of[v.Name]
	if d != fromVFs && gap > of.most() {
		m.story[v.Name] = fmt.Sprintf("%s is not reached from %s for %s from %s on", v.Name, directionNames[d], gap, since.Sub(epoch))
		if gap > m.worst.most() {
			m.most = v.Name
		}
	}
	of[d] = max(of[d], gap)
	m.of[v.Name] = of
	m.worst.add(of)
}
