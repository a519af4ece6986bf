package scenario

import (
	"fmt"
	"math"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// bandwidthMeter measures what VMs send and what they are promised.
type bandwidthMeter struct {
	h       *host
	vms     []metered
	sharers []sharer      // of vms
	since   time.Duration // time into the run
	changes int
	last    map[limitAt]model.Rate
}

type limitAt struct {
	by  string
	key model.LimitKey
}

// metered is one VM, or one function of its virtual PF. In a list, a VM's functions follow it.
type metered struct {
	KeptVM
	member                *member
	first, end            int // its range in the VM's NICs
	functions             int // that follow
	sla                   model.SLA
	sent, promise         float64       // in the present window, bits
	asked, had            int           // windows
	woke                  time.Duration // when it began to ask; -1: it asks for nothing; -2: it has what it is promised
	worst                 time.Duration
	never                 int
	want, allow, got, due []float64 // by bin, bits
}

func newBandwidthMeter(h *host) *bandwidthMeter {
	var r model.Rules
	h.s.slas(&r, Allocator{}) // promises do not depend on the allocator
	m := &bandwidthMeter{h: h, last: map[limitAt]model.Rate{}}
	for i := range h.members {
		m.meter(&h.members[i], &r)
	}
	m.sharers = make([]sharer, len(m.vms))
	for i := range m.vms {
		v := &m.vms[i]
		v.woke, v.Guarantee = -1, v.sla.Guarantee.Bits
		v.want, v.allow, v.got, v.due = make([]float64, bins), make([]float64, bins), make([]float64, bins), make([]float64, bins)
	}
	h.engine.World.OnFlow(m.flow)
	h.engine.OnLimits = m.limited
	return m
}

// meter adds a VM and the functions of its virtual PF.
func (m *bandwidthMeter) meter(mb *member, r *model.Rules) {
	const own = 2 // NICs of a VM before those of its VFs: its own, and that of the PF
	g := mb.group
	v := metered{KeptVM: KeptVM{VM: mb.name, Group: g.Name}, member: mb, end: 1, functions: len(g.Functions)}
	v.sla = r.SLA(&model.VM{Name: mb.name}, &model.NIC{Alias: g.wholeNIC()})
	if v.functions > 0 {
		v.first, v.end = own, own+v.functions
	}
	m.vms = append(m.vms, v)
	for i := range g.Functions {
		name := fmt.Sprintf("vf%d", i)
		m.vms = append(m.vms, metered{
			KeptVM: KeptVM{VM: mb.name, Function: name, Group: g.Name + "/" + name},
			member: mb, first: own + i, end: own + i + 1, sla: g.Functions[i].inside(),
		})
	}
}

// sends is what a VM or function sends now, in bits/s on the wire.
type sends struct {
	link                *sim.PF // nil: it sends nothing
	want, rate, allowed float64
	packets, passed     float64 // packets/s that it wants to send and that it sends
}

func (v *metered) sends() (out sends) {
	if v.member.vm == nil {
		return out
	}
	for _, n := range v.member.vm.NICs[v.first:v.end] {
		if n.Link() == nil {
			continue
		}
		out.link = n.Link()
		out.want, out.rate, out.allowed = out.want+n.Wants(), out.rate+n.Sending(), out.allowed+n.Allowed()
		if size := n.PacketBits(); size > 0 {
			out.packets, out.passed = out.packets+n.Wants()/size, out.passed+n.Sending()/size
		}
	}
	return out
}

// size returns the size of a packet in bits.
func (s *sends) size() float64 { return ratio(s.want, s.packets) }

// limited counts changes of limits.
func (m *bandwidthMeter) limited(by string, batch []model.Limit) {
	for _, l := range batch {
		at := limitAt{by, l.LimitKey}
		if r := l.Tightest(); m.last[at] != r {
			m.last[at] = r
			m.changes++
		}
	}
}

// flow adds what was sent during d, in which all rates were constant.
func (m *bandwidthMeter) flow(d time.Duration) {
	m.promise()
	for d > 0 { // split at the ends of windows and bins
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

// promise computes what each VM should have now, and each function of that.
func (m *bandwidthMeter) promise() {
	b := &m.h.s.Bandwidth
	for _, p := range m.h.engine.World.PFs() {
		var list []*sharer
		for i := 0; i < len(m.vms); i += 1 + m.vms[i].functions {
			if v := &m.vms[i]; v.sends().link == p {
				m.sharers[i] = v.sharer()
				if v.functions > 0 { // their demands within their limits add up to it
					m.sharers[i].want = 0
				}
				for k := i + 1; k <= i+v.functions; k++ {
					m.sharers[k] = m.vms[k].sharer()
					m.sharers[i].want += min(m.sharers[k].want, m.sharers[k].most)
				}
				list = append(list, &m.sharers[i])
			}
		}
		ideal(list, p.Capacity(), float64(b.Packets.Packets))
	}
	for i := range m.vms {
		if n := m.vms[i].functions; n > 0 {
			var list []*sharer
			for k := i + 1; k <= i+n; k++ {
				list = append(list, &m.sharers[k])
			}
			ideal(list, m.sharers[i].share, 0)
		}
	}
}

func (v *metered) sharer() sharer {
	s := v.sends()
	size := s.size()
	onVF := false
	if v.member.vm != nil {
		_, onVF = v.member.vm.NICs[v.first].Holds()
	}
	return sharer{
		want: s.want, size: size, virtio: !onVF, weight: v.sla.Share(), priority: v.sla.Priority,
		guarantee: limits(v.sla.Guarantee, size, 0), most: limits(v.sla.Limit, size, math.Inf(1)),
	}
}

func (m *bandwidthMeter) add(bin int, d time.Duration) {
	t := d.Seconds()
	for i := range m.vms {
		v, s := &m.vms[i], &m.sharers[i]
		n := v.sends()
		if n.link == nil {
			continue
		}
		v.sent, v.promise = v.sent+n.rate*t, v.promise+s.promised*t
		v.Sent, v.Wanted, v.Ideal = v.Sent+n.rate*t, v.Wanted+n.want*t, v.Ideal+s.share*t
		v.Packets += n.passed * t
		v.want[bin], v.got[bin], v.due[bin] = v.want[bin]+n.want*t, v.got[bin]+n.rate*t, v.due[bin]+s.promised*t
		v.allow[bin] += n.allowed * t
		v.recover(m.since, n.rate, s)
	}
}

// recover measures how long the VM takes to get what it is promised after it began to ask for it.
func (v *metered) recover(now time.Duration, sends float64, s *sharer) {
	asks, has := s.promised > 0 && s.promised >= s.guarantee/2, sends >= 0.95*s.promised
	switch {
	case asks && v.woke == -1:
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
	const little = 0.001 // of the guarantee: counts as asking for nothing
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
	k := &Kept{Plot: &BandwidthPlot{}, Changes: float64(m.changes) / m.h.s.Duration.Seconds() / float64(len(m.h.members)), Satisfied: 100}
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
		asked, had = asked+v.asked, had+v.had
		if v.Function == "" {
			sent, best = sent+v.Sent, best+v.Ideal
		}
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
	p.VMs, p.Groups = append(p.VMs, v.Name()), append(p.Groups, v.Group)
	p.Want, p.Allowed = append(p.Want, rate(v.want)), append(p.Allowed, rate(v.allow))
	p.Sent, p.Promised = append(p.Sent, rate(v.got)), append(p.Promised, rate(v.due))
}
