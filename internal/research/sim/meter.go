package sim

import (
	"fmt"
	"strings"
	"time"
)

// direction is a path of frames to or from a guest.
type direction int

const (
	fromWire direction = iota
	fromBridge
	fromVFs
	fromGuest
	directions
)

var directionNames = [directions]string{"wire", "bridge", "other VFs", "out"}

// gaps are the longest uninterrupted times in which a VM was unreachable.
type gaps [directions]time.Duration

// most returns the longest of the gaps that are bounded. Reachability from other guests' VFs is only measured: a VM on virtio is reached
// from there through a filter of the PF, for which there may be no room, and which a dead daemon cannot set when the first VF comes into
// use.
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

// Meter checks at every event whether each NIC of each VM is reachable.
type Meter struct {
	w     *World
	since map[*NIC]*[directions]time.Time // since when it is not; zero: it is
	worst gaps
	of    map[string]gaps // the worst of each VM, by name
	story map[string]string
	most  string // the VM with the longest gap
	began time.Time

	// OnGap, when set, is called when a NIC of a VM is reached again from where it was not, or is gone.
	OnGap func(n *NIC, from string, since, until time.Time)
}

// NewMeter returns a Meter of a world; its stories count time from now.
func NewMeter(w *World) *Meter {
	return &Meter{w: w, since: map[*NIC]*[directions]time.Time{}, of: map[string]gaps{}, story: map[string]string{}, began: w.Now}
}

// counts reports whether Sluice and the host are responsible for reaching the NIC: not if its guest receives nothing, others attached its
// VF or took its tap down, or its guest keeps a VF whose PF has lost its link.
func (m *Meter) counts(n *NIC) bool {
	if p, v := m.w.pf(n.hasVF.PF), n.VM; n.open && p != nil && !p.LinkUp && (v.IgnoreUnplug || v.Slow > 0 || n.TapDown) {
		return false
	}
	return n.VM.listens() && !n.foreign && (n.open || !n.TapDown)
}

// Note is for Engine.OnEvent: it checks the state after each event.
func (m *Meter) Note(now time.Time) {
	for n := range m.w.nics() {
		since := m.since[n]
		if since == nil {
			since = new([directions]time.Time)
			m.since[n] = since
		}
		ok := [directions]bool{true, true, true, true}
		if m.counts(n) {
			r := m.w.Reach(n)
			ok = [directions]bool{fromWire: r.Wire, fromBridge: r.Local, fromVFs: r.VFs, fromGuest: r.Out}
		}
		for d, is := range ok {
			switch {
			case is && !since[d].IsZero():
				m.end(n, direction(d), since[d], now)
				since[d] = time.Time{}
			case !is && since[d].IsZero():
				since[d] = now
			}
		}
	}
	for n := range m.since {
		if n.VM.gone { // it counts for as long as it was there
			m.forget(n, now)
		}
	}
}

// forget ends the open gaps of a NIC.
func (m *Meter) forget(n *NIC, now time.Time) {
	for d, t := range m.since[n] {
		if !t.IsZero() {
			m.end(n, direction(d), t, now)
		}
	}
	delete(m.since, n)
}

// Stop ends all open gaps.
func (m *Meter) Stop(now time.Time) gaps {
	for n := range m.since {
		m.forget(n, now)
	}
	return m.worst
}

func (m *Meter) end(n *NIC, d direction, since, now time.Time) {
	if d != fromVFs && m.OnGap != nil {
		m.OnGap(n, directionNames[d], since, now)
	}
	vm := n.VM.Name
	gap, of := now.Sub(since), m.of[vm]
	if d != fromVFs && gap > of.most() {
		m.story[vm] = fmt.Sprintf("%s is not reached from %s for %s from %s on", n, directionNames[d], gap, since.Sub(m.began))
		if gap > m.worst.most() {
			m.most = vm
		}
	}
	of[d] = max(of[d], gap)
	m.of[vm] = of
	m.worst.add(of)
}
