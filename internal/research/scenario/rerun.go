package scenario

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// rerun makes a host behave as the recorded one: tick at the same moments, see the same facts, and take the same time for the same moves.
type rerun struct {
	p     *Replay
	h     *host
	rules model.Rules // of the policy, without overrides
	same  bool        // the policy is the recorded one, so moves repeat one by one
	next  map[model.VMID]map[model.MoveKind]int
	cur   map[model.VMID]repeat // present moves by VM
	means map[model.MoveKind]time.Duration
	ticks int
}

// repeat is the recorded move that a present one repeats.
type repeat struct {
	took, whole time.Duration // time of the recorded move, and of a usual one in the simulator
	failed      bool
}

// errRepeated ends a move that failed when it was recorded.
var errRepeated = fmt.Errorf("it failed in the recording: %w", errors.Join(model.ErrGuest, model.ErrPermanent))

// newRerun sets the host up before its first tick.
func newRerun(p *Replay, h *host, pol Policy) *rerun {
	r := &rerun{
		p: p, h: h, rules: model.Rules{Policy: pol.Name, Interval: pol.Interval, Params: pol.Params},
		next: map[model.VMID]map[model.MoveKind]int{}, cur: map[model.VMID]repeat{},
	}
	if q := p.rulesOf(0); q != nil {
		r.same = samePolicy(*q, r.rules)
	}
	r.means = p.meanTimes()
	h.engine.World.Patch = r.patch
	h.engine.Sample = p.times[1] - p.times[0]
	return r
}

// meanTimes returns the mean times of the recorded moves by kind.
func (p *Replay) meanTimes() map[model.MoveKind]time.Duration {
	sum, n := map[model.MoveKind]time.Duration{}, map[model.MoveKind]int{}
	for _, list := range p.moves {
		for i := range list {
			if m := &list[i]; !m.Undoing {
				sum[m.Move.Kind] += m.Ended.Sub(m.Started)
				n[m.Move.Kind]++
			}
		}
	}
	for k := range sum {
		sum[k] /= time.Duration(n[k])
	}
	return sum
}

// tick sets the time of the sample after the next: the next one is already scheduled.
func (r *rerun) tick() {
	r.ticks++
	for i := range r.h.members {
		if mb := &r.h.members[i]; mb.vm != nil {
			if f, ok := at(mb.group.past.facts, r.ticks); ok {
				mb.vm.State = f.State
			}
		}
	}
	r.rule()
	if t := r.p.times; r.ticks+1 < len(t) {
		r.h.engine.Sample = t[r.ticks+1] - t[r.ticks]
	}
}

// arrive gives a VM the VF it had when the recording began.
func (r *rerun) arrive(mb *member) {
	v := mb.group.past
	if n := v.facts[0].what.NICs; v.first == 0 && len(n) > 0 && n[0].VF != model.NoVF && n[0].VFOwner == model.OwnerSluice {
		r.h.engine.World.Give(mb.vm, n[0].VF)
	}
}

// patch puts the recorded facts into a Snapshot.
func (r *rerun) patch(s *model.Snapshot) {
	n := r.p.index(s.Time.Sub(r.h.s.epoch))
	for _, f := range r.p.pfs {
		if pf := s.FindPF(f.name); pf != nil {
			past, _ := at(f.facts, n)
			patchPF(pf, past)
		}
	}
	for i := range r.h.members {
		mb := &r.h.members[i]
		if mb.vm == nil {
			continue
		}
		if vm := s.FindVM(mb.vm.ID); vm != nil {
			f, ok := at(mb.group.past.facts, n)
			if ok {
				patchVM(vm, &f)
			}
		}
	}
}

func patchPF(pf, past *model.PF) {
	if past == nil {
		pf.Managed = false
		return
	}
	pf.Managed, pf.LinkUp, pf.NUMANode, pf.Caps, pf.Driver = past.Managed, past.LinkUp, past.NUMANode, past.Caps, past.Driver
	for i := range pf.VFs {
		if i < len(past.VFs) && outside(&past.VFs[i]) {
			pf.VFs[i].Owner = model.OwnerForeign
		}
	}
}

func patchVM(vm, past *model.VM) {
	vm.State, vm.Ready, vm.NUMANode, vm.VCPUs, vm.CPUKnown, vm.Started = past.State, past.Ready, past.NUMANode, past.VCPUs, past.CPUKnown,
		past.Started
	if len(past.NICs) == 0 {
		vm.NICs = nil
		return
	}
	n, f := &vm.NICs[0], &past.NICs[0]
	n.Failover, n.FreePort, n.LinkUp, n.VLAN = f.Failover, f.FreePort, f.LinkUp, f.VLAN
	if f.VFOwner == model.OwnerForeign {
		n.VF, n.VFOwner = f.VF, model.OwnerForeign
	}
}

// step makes a Step take its part of the recorded move's time.
func (r *rerun) step(s model.Step, base sim.Timing) sim.Verdict {
	if s.Kind == model.StepCheckVirtio { // every move begins with it
		kind := model.MovePlug
		if r.holds(s.Subject.VM) {
			kind = model.MoveUnplug
		}
		r.cur[s.Subject.VM] = r.begin(s.Subject.VM, kind, base)
	}
	m := r.cur[s.Subject.VM]
	if m.whole <= 0 {
		return sim.Verdict{}
	}
	usual := base.Takes(s.Kind)
	v := sim.Verdict{Extra: time.Duration(float64(usual)*float64(m.took)/float64(m.whole)) - usual}
	if m.failed && (s.Kind == model.StepWaitGuest || s.Kind == model.StepWaitGone) {
		v.Result = errRepeated
		m.failed = false // undoing the move works
		r.cur[s.Subject.VM] = m
	}
	return v
}

func (r *rerun) holds(id model.VMID) bool {
	for i := range r.h.members {
		if vm := r.h.members[i].vm; vm != nil && vm.ID == id {
			has, _ := vm.Holds()
			return has != model.NoVF
		}
	}
	return false
}

// begin returns what a move that begins repeats: a recorded one, or the mean of all.
func (r *rerun) begin(vm model.VMID, kind model.MoveKind, base sim.Timing) repeat {
	whole := 10*base.Kernel + base.Attach + base.Guest
	if kind == model.MoveUnplug {
		whole = 7*base.Kernel + base.Detach + base.Gone
	}
	if m := r.recorded(vm, kind); m != nil {
		if m.Undoing && kind == model.MovePlug {
			whole += base.Detach + base.Gone // its time includes undoing it
		}
		return repeat{took: m.Ended.Sub(m.Started), whole: whole, failed: m.Undoing}
	}
	if mean := r.means[kind]; mean > 0 {
		return repeat{took: mean, whole: whole}
	}
	return repeat{}
}

// recorded returns the VM's next recorded move of a kind; nil if there is none.
func (r *rerun) recorded(vm model.VMID, kind model.MoveKind) *model.MoveStatus {
	if !r.same {
		return nil
	}
	if r.next[vm] == nil {
		r.next[vm] = map[model.MoveKind]int{}
	}
	list := r.p.moves[vm]
	for i := r.next[vm][kind]; i < len(list); i++ {
		if list[i].Move.Kind == kind {
			r.next[vm][kind] = i + 1
			return &list[i]
		}
	}
	r.next[vm][kind] = len(list)
	return nil
}

// recall gives the core the memory of the recorded one if it has the same policy.
func (r *rerun) recall(core *loop.Core) error {
	if !r.same || r.p.memory == nil {
		return nil
	}
	return core.Recall(r.p.memory)
}

// rule gives the core the rules that were in force from the next sample on.
func (r *rerun) rule() {
	for _, f := range r.p.rules {
		if f.from == r.ticks && f.from > 0 {
			// A policy that does not exist was refused when the recording was made.
			_ = r.h.engine.Core.SetRules(r.p.rulesAt(r.ticks, r.rules))
		}
	}
}

// rulesOf returns the recorded rules at a sample; nil if there are none.
func (p *Replay) rulesOf(n int) *model.Rules {
	r, _ := at(p.rules, n)
	return r
}

// rulesAt returns the rules of a policy with the overrides recorded at a sample. The policy with which the recording began changes when
// the recorded one does.
func (p *Replay) rulesAt(n int, r model.Rules) model.Rules {
	begin, now := p.rulesOf(0), p.rulesOf(n)
	if begin == nil || now == nil {
		return r
	}
	if samePolicy(*begin, r) {
		return *now
	}
	r.Drain, r.VMs, r.Classes, r.Worth = now.Drain, now.VMs, now.Classes, now.Worth
	return r
}

func samePolicy(a, b model.Rules) bool {
	return a.Policy == b.Policy && a.Interval == b.Interval && maps.Equal(a.Params, b.Params)
}
