package scenario

import (
	"math"
	"time"

	"sluice/internal/model"
	"sluice/internal/sim"
)

// bandwidthMeter watches what VMs send and what they were promised.
type bandwidthMeter struct {
	h       *host
	vms     []metered // as the host's members
	sharers []sharer
	since   time.Duration // of the run, by now
	changes int
	last    map[limitAt]model.Rate
}

type limitAt struct {
	by  string
	key model.LimitKey
}

// metered is one VM.
type metered struct {
	KeptVM
	sla                   model.SLA
	sent, promise         float64       // in the window under way, bits
	asked, had            int           // windows
	woke                  time.Duration // when it began to ask; -1: it has what it is promised, or asks for nothing
	worst                 time.Duration
	never                 int
	want, allow, got, due []float64 // by bin, bits
}

func newBandwidthMeter(h *host) *bandwidthMeter {
	var r model.Rules
	h.s.slas(&r, Allocator{}) // what is promised does not depend on the allocator
	m := &bandwidthMeter{h: h, vms: make([]metered, len(h.members)), sharers: make([]sharer, len(h.members)), last: map[limitAt]model.Rate{}}
	for i := range h.members {
		v := &m.vms[i]
		v.VM, v.Group, v.woke = h.members[i].name, h.members[i].group.Name, -1
		v.sla = r.SLA(&model.VM{Name: v.VM}, &model.NIC{})
		v.Guarantee = v.sla.Guarantee.Bits
		v.want, v.allow, v.got, v.due = make([]float64, bins), make([]float64, bins), make([]float64, bins), make([]float64, bins)
	}
	h.engine.World.OnFlow(m.flow)
	h.engine.OnLimits = m.limited
	return m
}

// limited counts limits that change.
func (m *bandwidthMeter) limited(by string, batch []model.Limit) {
	for _, l := range batch {
		at := limitAt{by, l.LimitKey}
		if r := l.Tightest(); m.last[at] != r {
			m.last[at] = r
			m.changes++
		}
	}
}

// flow notes what was sent during d. Nobody's rate changed meanwhile.
func (m *bandwidthMeter) flow(d time.Duration) {
	m.promise()
	for d > 0 { // split where windows and bins end
		bin := min(int(int64(m.since)*bins/int64(m.h.s.Duration)), bins-1)
		part := min(d, window-m.since%window, time.Duration((int64(bin)+1)*int64(m.h.s.Duration)/bins)-m.since)
		if part <= 0 {
			part = d
		}
		m.add(bin, part)
		m.since, d = m.since+part, d-part
		if m.since%window == 0 {
			m.endWindow()
		}
	}
}

// promise works out what each VM should have now.
func (m *bandwidthMeter) promise() {
	b := &m.h.s.Bandwidth
	for _, p := range m.h.engine.World.PFs() {
		var list []*sharer
		for i := range m.vms {
			vm := m.h.members[i].vm
			if vm == nil || vm.NICs[0].Link() != p {
				continue
			}
			n, v := vm.NICs[0], &m.vms[i]
			size := n.PacketBits()
			_, onVF := n.Holds()
			m.sharers[i] = sharer{
				want: n.Wants(), size: size, virtio: !onVF, weight: v.sla.Share(), priority: v.sla.Priority,
				guarantee: limits(v.sla.Guarantee, size, 0), most: limits(v.sla.Limit, size, math.Inf(1)),
			}
			list = append(list, &m.sharers[i])
		}
		ideal(list, p.Capacity(), float64(b.Packets.Packets))
	}
}

func (m *bandwidthMeter) add(bin int, d time.Duration) {
	t := d.Seconds()
	for i := range m.vms {
		vm, v := m.h.members[i].vm, &m.vms[i]
		if vm == nil || vm.NICs[0].Link() == nil {
			continue
		}
		n, s := vm.NICs[0], &m.sharers[i]
		v.sent, v.promise = v.sent+n.Sending()*t, v.promise+s.promised*t
		v.Sent, v.Wanted, v.Ideal = v.Sent+n.Sending()*t, v.Wanted+n.Wants()*t, v.Ideal+s.share*t
		if size := n.PacketBits(); size > 0 {
			v.Packets += n.Sending() / size * t
		}
		v.want[bin], v.got[bin], v.due[bin] = v.want[bin]+n.Wants()*t, v.got[bin]+n.Sending()*t, v.due[bin]+s.promised*t
		v.allow[bin] += n.Allowed() * t
		v.recover(m.since, n, s)
	}
}

// recover notes how long the VM takes to get what it is promised after it has begun to ask for it.
func (v *metered) recover(now time.Duration, n *sim.NIC, s *sharer) {
	asks, has := s.promised > 0 && s.promised >= s.guarantee/2, n.Sending() >= 0.95*s.promised
	switch {
	case asks && v.woke == -1: // it asks anew
		v.woke = now
	case !asks && v.woke >= 0:
		v.never++
		v.worst = max(v.worst, now-v.woke)
	}
	switch {
	case !asks:
		v.woke = -1
	case has && v.woke >= 0:
		v.worst, v.woke = max(v.worst, now-v.woke), -2
	}
}

func (m *bandwidthMeter) endWindow() {
	const little = 0.001 // of the guarantee: it asks for nothing
	for i := range m.vms {
		v := &m.vms[i]
		if v.promise > little*float64(v.Guarantee)*window.Seconds() {
			v.asked++
			if v.sent >= 0.95*v.promise {
				v.had++
			}
			v.Shortfall += max(0, v.promise-v.sent)
		}
		v.sent, v.promise = 0, 0
	}
}

func (m *bandwidthMeter) result() *Kept {
	k := &Kept{Plot: &BandwidthPlot{}, Changes: float64(m.changes) / m.h.s.Duration.Seconds() / float64(len(m.vms)), Satisfied: 100}
	asked, had, sent, best := 0, 0, 0.0, 0.0
	for i := range m.vms {
		v := &m.vms[i]
		if v.woke >= 0 {
			v.never++
			v.worst = max(v.worst, m.since-v.woke)
		}
		v.Satisfied = 100
		if v.asked > 0 {
			v.Satisfied = 100 * ratio(float64(v.had), float64(v.asked))
		}
		asked, had, sent, best = asked+v.asked, had+v.had, sent+v.Sent, best+v.Ideal
		k.Shortfall += v.Shortfall
		k.Recovery, k.Never = max(k.Recovery, v.worst), k.Never+v.never
		k.VMs = append(k.VMs, v.KeptVM)
		k.Plot.add(v, m.h.s.Duration)
	}
	if asked > 0 {
		k.Satisfied = 100 * float64(had) / float64(asked)
	}
	k.Utilisation = 100 * ratio(sent, best)
	return k
}

// add turns bits of bins into rates.
func (p *BandwidthPlot) add(v *metered, length time.Duration) {
	each := length.Seconds() / bins
	rate := func(in []float64) []float64 {
		out := make([]float64, len(in))
		for i, x := range in {
			out[i] = x / each
			if math.IsInf(x, 1) {
				out[i] = math.NaN()
			}
		}
		return out
	}
	p.VMs, p.Groups = append(p.VMs, v.VM), append(p.Groups, v.Group)
	p.Want, p.Allowed = append(p.Want, rate(v.want)), append(p.Allowed, rate(v.allow))
	p.Sent, p.Promised = append(p.Sent, rate(v.got)), append(p.Promised, rate(v.due))
}
