package scenario

import (
	"math"
	"slices"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Phase is the result of one phase of a run.
type Phase struct {
	Until   time.Duration `json:"until_ns"`
	Holders []string      `json:"holders"` // VMs that use a VF at its end
	Groups  []GroupStat   `json:"groups,omitempty"`
	All     *GroupStat    `json:"all,omitempty"` // all VMs together, with the mean number of VMs present
	Scores  []VMScore     `json:"scores,omitempty"`
	Learned []LearnedStat `json:"learned,omitempty"` // what the policy knew at its end about the groups' bursts
}

// GroupStat is how a group fared in a phase.
type GroupStat struct {
	Group   string  `json:"group"`
	VMs     int     `json:"vms"`
	OnVF    float64 `json:"on_vf"`   // share of VM-time with a VF
	PPS     float64 `json:"pps"`     // mean packets/s moved by a VM
	Least   float64 `json:"min_pps"` // least and most that a VM moved on average in a minute
	Most    float64 `json:"max_pps"`
	Mbit    float64 `json:"mbit"`                 // mean Mbit/s moved by a VM
	Latency []Micro `json:"latency_us,omitempty"` // 5th, 50th and 95th percentile, then the mean
	// Files is set if the scenario asks for it.
	Files *FileTimes `json:"files,omitempty"`
}

// Micro is a time in microseconds.
type Micro float64

// VMScore is what a policy thought of a VM.
type VMScore struct {
	VM       string  `json:"vm"`
	Score    float64 `json:"score"`
	IODegree float64 `json:"io_degree,omitempty"`
	Hold     bool    `json:"hold"`
}

// phases gathers the phases of a run, sample by sample.
type phases struct {
	h      *host
	ends   []time.Duration
	done   []Phase
	groups []groupSum // the last one is for all VMs together
	cpu    []float64  // per member, summed over the phase
	files  []files    // per member, since the phase began
	ticks  int
}

type groupSum struct {
	vmTicks, onVF float64
	pps, bits     float64
	minute        float64 // packets in the present minute
	vmMinute      float64
	least, most   float64
	latency       []float32
	seen          int
	files         []float64 // s
}

func newPhases(h *host) *phases {
	p := &phases{h: h, ends: h.s.Phases(), cpu: make([]float64, len(h.members))}
	if h.carrier != nil {
		h.carrier.copied = p.copied
	}
	p.begin()
	return p
}

func (p *phases) begin() {
	p.groups = make([]groupSum, len(p.h.s.VMs)+1)
	for i := range p.groups {
		p.groups[i].least = math.Inf(1)
	}
	clear(p.cpu)
	p.files = make([]files, len(p.h.members))
	p.ticks = 0
}

// tick takes a sample after a decision, before its Steps start.
func (p *phases) tick(now time.Time) {
	since := now.Sub(p.h.s.epoch)
	for len(p.ends) > 1 && since >= p.ends[0] {
		p.end()
	}
	if show := &p.h.s.Show; !show.Groups && !show.CPU && !show.All {
		return
	}
	p.ticks++
	for i := range p.h.members {
		if mb := &p.h.members[i]; mb.vm != nil {
			p.look(i, mb, now)
		}
	}
	if since%time.Minute < p.h.s.Sample && since > 0 {
		p.minute()
	}
}

func (p *phases) look(i int, mb *member, now time.Time) {
	pps, bytes, cpu := p.h.engine.World.Moves(mb.vm)
	_, open := mb.vm.Holds()
	p.cpu[i] += cpu
	var done []float64
	if mb := p.h.s.Show.FileMB; mb > 0 {
		done = p.files[i].tick(now.Sub(p.h.s.epoch), p.h.s.Sample, bytes, mb*1e6)
	}
	latency := math.NaN()
	if p.h.s.Latency.VF > 0 {
		latency = p.h.s.Latency.of(pps, open)
		if !open && p.h.carrier != nil {
			latency /= max(1-p.h.carrier.busy, 1./mostQueue)
		}
	}
	for _, g := range p.sums(mb) {
		g.add(pps, bytes, open)
		g.files = append(g.files, done...)
		g.delay(latency)
	}
}

// mostQueue bounds the packets that wait: Linux's default transmit queue length.
const mostQueue = 1000

// sums returns the sums that a VM counts in: its group's, and that of all VMs.
func (p *phases) sums(mb *member) [2]*groupSum {
	return [2]*groupSum{&p.groups[p.groupOf(mb)], &p.groups[len(p.groups)-1]}
}

// copied records how long a copy of a VM took.
func (p *phases) copied(vm *sim.VM, seconds float64) {
	for i := range p.h.members {
		if mb := &p.h.members[i]; mb.vm == vm {
			for _, g := range p.sums(mb) {
				g.files = append(g.files, seconds)
			}
		}
	}
}

func (g *groupSum) add(pps, bytes float64, open bool) {
	g.vmTicks++
	g.vmMinute++
	if open {
		g.onVF++
	}
	g.pps += pps
	g.minute += pps
	g.bits += bytes * 8
}

// delay adds a latency; NaN: the scenario has none.
func (g *groupSum) delay(micros float64) {
	if math.IsNaN(micros) {
		return
	}
	g.seen++
	if g.seen%(1+len(g.latency)/100_000) == 0 { // enough for percentiles
		g.latency = append(g.latency, float32(micros))
	}
}

func (p *phases) groupOf(mb *member) int {
	for i := range p.h.s.VMs {
		if mb.group == &p.h.s.VMs[i] {
			return i
		}
	}
	return 0
}

// minute ends a minute: its mean may be the least or most of the phase.
func (p *phases) minute() {
	for i := range p.groups {
		g := &p.groups[i]
		if g.vmMinute > 0 {
			g.least, g.most = min(g.least, g.minute/g.vmMinute), max(g.most, g.minute/g.vmMinute)
		}
		g.minute, g.vmMinute = 0, 0
	}
}

// of returns the latency of a packet in microseconds.
func (l *Latency) of(pps float64, onVF bool) float64 {
	vf := float64(l.VF) / float64(time.Microsecond)
	if onVF {
		return vf
	}
	boost := l.Boost + l.PerKpps*pps/1000
	if l.Most > 0 {
		boost = min(boost, l.Most)
	}
	return vf / (1 - min(boost, 99)/100)
}

// end ends a phase.
func (p *phases) end() {
	ph := Phase{Until: p.ends[0], Holders: []string{}}
	p.ends = p.ends[1:]
	for i := range p.h.members {
		mb := &p.h.members[i]
		if mb.vm == nil {
			continue
		}
		if _, open := mb.vm.Holds(); open {
			ph.Holders = append(ph.Holders, mb.name)
		}
	}
	if p.h.s.Show.Groups {
		p.minute()
		for i := range p.h.s.VMs {
			ph.Groups = append(ph.Groups, p.stat(i, p.h.s.VMs[i].Name, p.h.s.VMs[i].Count))
		}
	}
	if p.h.s.Show.All {
		all := len(p.groups) - 1
		g := p.stat(all, "all", int(math.Round(p.groups[all].vmTicks/float64(max(1, p.ticks)))))
		ph.All = &g
	}
	if p.h.s.Show.Scores {
		ph.Scores = p.scores()
	}
	ph.Learned = p.learned()
	p.done = append(p.done, ph)
	p.begin()
}

// stat returns the statistics of the i-th sum, of so many VMs.
func (p *phases) stat(i int, name string, vms int) GroupStat {
	g := &p.groups[i]
	n := max(g.vmTicks, 1)
	out := GroupStat{Group: name, VMs: vms, OnVF: g.onVF / n, PPS: g.pps / n, Mbit: g.bits / n / 1e6, Most: g.most}
	if !math.IsInf(g.least, 1) {
		out.Least = g.least
	}
	if len(g.latency) > 0 {
		slices.Sort(g.latency)
		sum := 0.0
		for _, x := range g.latency {
			sum += float64(x)
		}
		for _, q := range []float64{0.05, 0.5, 0.95} {
			out.Latency = append(out.Latency, Micro(g.latency[int(q*float64(len(g.latency)-1))]))
		}
		out.Latency = append(out.Latency, Micro(sum/float64(len(g.latency))))
	}
	if p.h.s.Show.FileMB > 0 || p.h.s.copies() {
		out.Files = fileTimes(g.files)
	}
	return out
}

func (p *phases) scores() []VMScore {
	reasons := map[model.VMID]model.Reason{}
	for _, r := range p.h.engine.Core.View().Target.Reasons {
		reasons[r.VM] = r
	}
	var out []VMScore
	for i := range p.h.members {
		mb := &p.h.members[i]
		if mb.vm == nil {
			continue
		}
		r := reasons[mb.vm.ID]
		s := VMScore{VM: mb.name, Score: r.Score, Hold: r.Hold}
		if p.h.s.Show.CPU {
			s.IODegree = 100 * (1 - p.cpu[i]/float64(max(p.ticks, 1)))
		}
		out = append(out, s)
	}
	return out
}
