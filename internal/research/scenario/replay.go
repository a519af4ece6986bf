package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
	"sluice/internal/research/trace"
)

// Replay is a recording split into loads by VM and sample, and facts that change rarely. With the policy, samples and plug times of the
// recording it reproduces the recorded decisions; with another policy, it shows what that would have done.
type Replay struct {
	begin time.Time
	times []time.Duration // of the decisions on the samples, from the first
	vms   []*pastVM       // in order of UUID
	pfs   []*pastPF       // in order of name
	rules []fact[*model.Rules]
	usual time.Duration // median time between samples
	// memory is what the recorded daemon knew just before the first sample; nil if not recorded.
	memory *loop.Memory
	moves  map[model.VMID][]model.MoveStatus // ended moves by VM, in order of time
}

// pastVM is what a recording knows of one VM.
type pastVM struct {
	id          model.VMID
	name        string
	first, last int    // first and last sample with it
	loads       []seen // from the first sample on
	facts       []fact[model.VM]
}

// seen is a VM's load in one sample, as it was recorded.
type seen struct {
	pps, bytes, cpu float64
	known, there    bool
}

// fact is something that applied from a sample on.
type fact[T any] struct {
	from int
	what T
}

type pastPF struct {
	name  string
	facts []fact[*model.PF] // nil: absent
}

// maxSeen bounds the loads in memory: 40 bytes each.
const maxSeen = 50e6

// FromRecording makes a scenario that replays a recording. The Report says what was wrong with the recording.
func FromRecording(path string) (*Scenario, *trace.Report, error) {
	rec, err := trace.OpenRecording(path)
	if err != nil {
		return nil, nil, err
	}
	defer rec.Close()
	p := &Replay{moves: map[model.VMID][]model.MoveStatus{}}
	if err := p.read(rec); err != nil {
		return nil, &rec.Report, err
	}
	if len(p.times) < 2 || len(p.vms) == 0 {
		return nil, &rec.Report, &trace.Error{File: path, Text: "has fewer than two samples or no VMs", Remedy: "record for longer"}
	}
	p.usual = p.spacing()
	for i := 1; i < len(p.times); i++ {
		if p.gap(i) {
			rec.Report.Gap(p.times[i-1], p.times[i])
		}
	}
	return p.scenario(path), &rec.Report, nil
}

// read reads the whole recording.
func (p *Replay) read(rec *trace.Recording) error {
	byID := map[model.VMID]*pastVM{}
	total := 0
	for {
		s, err := rec.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if p.begin.IsZero() {
			p.begin = s.Decided
			if err := p.recall(rec.Memory()); err != nil {
				return err
			}
		}
		for _, m := range s.Moves {
			if !m.Started.Before(p.begin) { // earlier moves are part of what the first sample shows
				p.moves[m.Move.VM] = append(p.moves[m.Move.VM], m)
			}
		}
		at := s.Decided.Sub(p.begin)
		if n := len(p.times); n > 0 && at <= p.times[n-1] {
			continue // the clock was set back; the earlier samples count
		}
		if total += len(s.Snapshot.VMs); total > maxSeen {
			return fmt.Errorf("the recording has more than %d loads; replay some of its files", int(maxSeen))
		}
		if r := rec.Rules(); len(p.rules) == 0 || p.rules[len(p.rules)-1].what != r {
			p.rules = append(p.rules, fact[*model.Rules]{len(p.times), r})
		}
		p.times = append(p.times, at)
		p.sample(s.Snapshot, byID)
	}
	p.vms = slices.SortedFunc(maps.Values(byID), func(a, b *pastVM) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// recall reads what the recorded daemon knew.
func (p *Replay) recall(memory json.RawMessage) error {
	if memory == nil {
		return nil
	}
	p.memory = &loop.Memory{}
	if err := json.Unmarshal(memory, p.memory); err != nil {
		return fmt.Errorf("what the recorded daemon knew cannot be read: %w; replay it with the Sluice that wrote it", err)
	}
	return nil
}

// sample adds one Snapshot.
func (p *Replay) sample(s *model.Snapshot, byID map[model.VMID]*pastVM) {
	n := len(p.times) - 1
	for i := range s.VMs {
		vm := &s.VMs[i]
		v := byID[vm.ID]
		if v == nil {
			v = &pastVM{id: vm.ID, name: vm.Name, first: n}
			byID[vm.ID] = v
		}
		for len(v.loads) < n-v.first {
			v.loads = append(v.loads, seen{}) // it was away
		}
		v.last = n
		v.loads = append(v.loads, look(vm))
		v.note(n, vm)
	}
	for i := range s.PFs {
		p.pf(s.PFs[i].Name).note(n, &s.PFs[i])
	}
	for _, f := range p.pfs {
		if s.FindPF(f.name) == nil {
			f.note(n, nil)
		}
	}
}

// look returns the load of the VM's relevant NIC.
func look(vm *model.VM) seen {
	x := seen{cpu: vm.CPU, there: true}
	if n := thePair(vm); n != nil {
		x.pps, x.bytes, x.known = n.Load()
	}
	return x
}

// thePair returns the NIC that has a VF, else the first that can fail over, else the first.
func thePair(vm *model.VM) *model.NIC {
	if n := vm.Held(); n != nil {
		return n
	}
	for i := range vm.NICs {
		if vm.NICs[i].Failover != model.FailoverNone {
			return &vm.NICs[i]
		}
	}
	if len(vm.NICs) > 0 {
		return &vm.NICs[0]
	}
	return nil
}

// note records a VM's facts when they change, except loads and holders, which the replay computes.
func (v *pastVM) note(n int, vm *model.VM) {
	f := *vm
	f.CPU = 0
	f.NICs = nil
	if nic := thePair(vm); nic != nil {
		x := *nic
		x.Virtio, x.VFPath, x.Route, x.DualPath = model.Traffic{}, model.Traffic{}, "", false
		if x.VFOwner != model.OwnerForeign && len(v.facts) > 0 {
			x.VF, x.VFAlias, x.VFOwner = model.NoVF, "", "" // only the first sample's holders count
		}
		f.NICs = []model.NIC{x}
	}
	if k := len(v.facts); k == 0 || !sameVM(&v.facts[k-1].what, &f) {
		v.facts = append(v.facts, fact[model.VM]{n, f})
	}
}

func sameVM(a, b *model.VM) bool {
	return a.Name == b.Name && a.State == b.State && a.Ready == b.Ready && a.NUMANode == b.NUMANode && a.VCPUs == b.VCPUs &&
		a.CPUKnown == b.CPUKnown && slices.Equal(a.NICs, b.NICs)
}

func (p *Replay) pf(name string) *pastPF {
	i, found := slices.BinarySearchFunc(p.pfs, name, func(f *pastPF, name string) int { return cmp.Compare(f.name, name) })
	if !found {
		p.pfs = slices.Insert(p.pfs, i, &pastPF{name: name})
	}
	return p.pfs[i]
}

// note records a PF's facts when they change.
func (f *pastPF) note(n int, pf *model.PF) {
	var was *model.PF
	if k := len(f.facts); k > 0 {
		was = f.facts[k-1].what
	}
	if len(f.facts) > 0 && samePF(was, pf) {
		return
	}
	if pf != nil {
		x := *pf
		x.VFs = slices.Clone(pf.VFs)
		pf = &x
	}
	f.facts = append(f.facts, fact[*model.PF]{n, pf})
}

func samePF(a, b *model.PF) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Network == b.Network && a.LinkUp == b.LinkUp && a.Managed == b.Managed && a.NUMANode == b.NUMANode &&
		a.Shared() == b.Shared() && slices.EqualFunc(a.VFs, b.VFs, func(x, y model.VF) bool { return x.ID == y.ID && outside(&x) == outside(&y) })
}

// outside reports whether a VF is outside the pool without being in a VM.
func outside(v *model.VF) bool { return v.Owner == model.OwnerForeign && v.Holder == "" }

// at returns the fact that applies at a sample.
func at[T any](facts []fact[T], n int) (T, bool) {
	i := sort.Search(len(facts), func(i int) bool { return facts[i].from > n })
	if i == 0 {
		var none T
		return none, false
	}
	return facts[i-1].what, true
}

// index returns the sample that applies at a time.
func (p *Replay) index(since time.Duration) int {
	return max(0, sort.Search(len(p.times), func(i int) bool { return p.times[i] > since })-1)
}

// scenario makes a group for each VM and a PF for each recorded PF.
func (p *Replay) scenario(file string) *Scenario {
	s := defaults()
	s.file, s.replay, s.epoch = file, p, p.begin
	s.Sample = p.usual
	s.Duration = p.times[len(p.times)-1] + s.Sample
	s.Telemetry.Exact = true
	rules := p.rulesOf(0)
	if rules != nil {
		s.Worth = WorthOf(&rules.Worth)
	}
	names := map[string]int{}
	for _, f := range p.pfs {
		if pf := f.facts[0].what; pf != nil {
			s.PFs = append(s.PFs, PF{Name: f.name, VFs: len(pf.VFs), Network: pf.Network, NUMA: pf.NUMANode, Gbit: float64(pf.Shared()) / 1e9})
		}
	}
	for _, v := range p.vms {
		g := Group{
			Name: v.name, Count: 1, Network: v.network(), VCPUs: v.facts[0].what.VCPUs, NUMA: v.facts[0].what.NUMANode,
			From: p.times[v.first],
		}
		if names[v.name]++; names[v.name] > 1 {
			g.Name = fmt.Sprintf("%s#%d", v.name, names[v.name]) // an earlier VM had the same name
		}
		if v.last+1 < len(p.times) {
			g.Until = p.times[v.last+1]
		}
		g.past = v
		if rules != nil {
			g.Latency = rules.For(v.id, v.name).Sensitivity // for the score; the rules themselves follow the recording
		}
		s.VMs = append(s.VMs, g)
	}
	if rules != nil && rules.Policy != "" {
		s.Policies = []Policy{{Name: rules.Policy, Label: rules.Policy, Interval: rules.Interval, Params: rules.Params}}
	}
	return s
}

func (v *pastVM) network() string {
	if n := v.facts[0].what.NICs; len(n) > 0 {
		return n[0].Network
	}
	return ""
}

// spacing returns the median time between samples.
func (p *Replay) spacing() time.Duration {
	var d []time.Duration
	for i := 1; i < len(p.times); i++ {
		d = append(d, p.times[i]-p.times[i-1])
	}
	slices.Sort(d)
	return d[len(d)/2].Round(time.Millisecond)
}

// gap reports whether nothing was recorded for a long time before a sample.
func (p *Replay) gap(n int) bool { return n < len(p.times) && p.times[n]-p.times[n-1] > 3*p.usual }

// past plays a recorded VM's load.
type past struct {
	p     *Replay
	v     *pastVM
	start time.Time
	n     int
}

func (l *past) seen(t time.Time) seen {
	since := t.Sub(l.start)
	for l.n+1 < len(l.p.times) && l.p.times[l.n+1] <= since {
		l.n++
	}
	if l.p.times[l.n] > since {
		l.n = l.p.index(since)
	}
	if l.p.gap(l.n+1) && since >= l.p.times[l.n]+l.p.usual {
		return seen{}
	}
	if i := l.n - l.v.first; i >= 0 && i < len(l.v.loads) {
		return l.v.loads[i]
	}
	return seen{}
}

// At implements sim.Load.
func (l *past) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	x := l.seen(t)
	return x.pps, x.bytes, x.cpu
}

// Known reports whether the load was known.
func (l *past) Known(t time.Time) bool { return l.seen(t).known }
