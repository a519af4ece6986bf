package answer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Explain says why a VM (name or UUID) holds a VF or not, in one sentence and in detail. If there is no such VM, the error
// is an *api.Error.
func Explain(v *model.View, ref string) (api.Explanation, error) {
	vm, err := Find(v, ref)
	if err != nil {
		return api.Explanation{}, err
	}
	x := NewIndex(v)
	r := x.Reason(vm.ID)
	e := api.Explanation{
		VM: x.VM(vm), Reason: ReasonOf(&r), Paths: x.paths(vm), Shares: shares(BandwidthOf(v).NICs, vm.ID),
		VirtualPFs: shares(BandwidthOf(v).VirtualPFs, vm.ID), Changes: x.changes(vm, r),
	}
	e.Sentence, e.Worth = x.sentence(vm, r), x.worth(vm, &r)
	e.Figures = convert(r.Figures(), func(f *model.Figure) api.Figure { return api.Figure(*f) })
	e.Links = x.linksOf(e.Shares)
	if r.NIC == "" {
		e.Learned = learned(vm.Name, &r)
	}
	if r.Code == model.CodeVeto {
		e.Veto = r.Detail
	}
	if o := x.override(vm); o != nil {
		request := overrideOf(o)
		e.Override = &request
	}
	if m := x.active[vm.ID]; m != nil {
		under := report(m)
		e.UnderWay = &under
	}
	if i := slices.IndexFunc(x.Recent, func(m model.MoveStatus) bool { return m.Move.VM == vm.ID }); i >= 0 {
		last := report(&x.Recent[i])
		e.LastMove = &last
	}
	return e, nil
}

// Sentence is Explain's sentence for a Reason that need not be the current one; "" if there is no such VM.
func Sentence(v *model.View, id model.VMID, r model.Reason) string {
	x := NewIndex(v)
	if vm := x.Snapshot.FindVM(id); vm != nil {
		return x.sentence(vm, r)
	}
	return ""
}

// sentence combines what the VM has with what it should have, which differ while a move is pending and in observe mode.
func (x *Index) sentence(vm *model.VM, r model.Reason) string {
	has := x.pair(vm)
	if has != nil && has.VF == model.NoVF {
		has = nil
	}
	behind := ""
	if r.NIC != "" {
		behind = " behind " + r.NIC
	}
	switch {
	case r.Code == "":
		return vm.Name + ": nothing is decided yet"
	case has == nil && r.Hold:
		return vm.Name + " is on virtio and " + x.will("gets", "would get") + " a VF" + behind + ": " + r.Because()
	case has != nil && !r.Hold:
		return vm.Name + " has VF " + has.VF.String() + behind + " and " + x.will("gives", "would give") + " it up: " + r.Because()
	}
	return vm.Name + " " + r.String()
}

// verdict is the Reason as half a sentence about what is so: what a NIC should have and does not is yet to come, or would be.
func (x *Index) verdict(nic *model.NIC, r *model.Reason) string {
	has, behind := nic != nil && nic.VF != model.NoVF, ""
	if r.NIC != "" {
		behind = " behind " + r.NIC
	}
	switch {
	case r.Hold && !has:
		return x.will("gets", "would get") + " a VF" + behind + ": " + r.Because()
	case has && !r.Hold:
		return x.will("gives", "would give") + " up its VF" + behind + ": " + r.Because()
	}
	return r.String()
}

// will picks the wording for what is done or, in observe mode, would be done.
func (x *Index) will(does, would string) string {
	if x.Mode == model.ModeObserve {
		return would
	}
	return does
}

func (x *Index) paths(vm *model.VM) []api.Path {
	return convert(vm.NICs, func(n *model.NIC) api.Path {
		p := api.Path{
			NIC: n.Alias, MAC: n.MAC.String(), Tap: n.Tap, Network: n.Network, Failover: string(n.Failover),
			VirtualPF: n.VirtualPF, Function: n.Function, VF: vfName(n.VF), Virtio: trafficOf(&n.Virtio), VFPath: trafficOf(&n.VFPath),
		}
		if r := x.ofNIC(vm.ID, n.Alias); r != nil {
			p.Why, p.Learned = x.verdict(n, r), learned(vm.Name+" on "+n.Alias, r)
		}
		return p
	})
}

// ofNIC returns the reason of one NIC if its VM has several that may have a VF; otherwise nil.
func (x *Index) ofNIC(vm model.VMID, alias string) *model.Reason {
	if x.Target == nil {
		return nil
	}
	for i := range x.Target.NICs {
		if r := &x.Target.NICs[i]; r.VM == vm && r.NIC == alias {
			return r
		}
	}
	return nil
}

// learned says what the policy learned about the bursts of the VM or NIC called name; "" if nothing.
func learned(name string, r *model.Reason) string {
	if r.Bursts.Seen == 0 {
		return ""
	}
	return "bursts of " + name + " " + r.Bursts.String()
}

// changes lists what would reverse the verdict.
func (x *Index) changes(vm *model.VM, r model.Reason) []string {
	list := reasonChanges(vm.Name, r, x.Rounds)
	o := x.override(vm)
	if o != nil && r.Code != model.CodeReleased {
		list = append(list, fmt.Sprintf("`sluice unpin %s` undoes the %s", vm.Name, o.Kind))
	}
	if o != nil && !o.Until.IsZero() {
		list = append(list, fmt.Sprintf("time: the %s ends at %s", o.Kind, o.Until.Format(time.DateTime)))
	}
	if x.Mode == model.ModeObserve && (vm.Held() != nil) != r.Hold {
		list = append(list, "mode: enforce in sluice.yaml; in observe mode nothing is moved")
	}
	return list
}

// reasonChanges returns the changes that follow from the Reason's code and from whether the policy works in rounds.
func reasonChanges(name string, r model.Reason, rounds bool) []string {
	pin := fmt.Sprintf("`sluice pin %s`", name)
	switch r.Code {
	case model.CodeEnough:
		return []string{"more VMs than VFs on its network: then the policy ranks them"}
	case model.CodePinned:
		return []string{fmt.Sprintf("`sluice release %s`, or removing its pin from sluice.yaml", name)}
	case model.CodeForbidden:
		return []string{"removing its forbid rule from sluice.yaml", pin}
	case model.CodeTurn:
		return []string{"the end of its turn" + next(rounds) + rival(r), fmt.Sprintf("`sluice release %s`", name)}
	case model.CodeWaiting:
		return []string{"its turn" + next(rounds), "more VFs in pfs: of sluice.yaml", pin}
	case model.CodeRank:
		return []string{"another VM that gains more" + next(rounds) + rival(r), fmt.Sprintf("`sluice release %s`", name)}
	case model.CodeKept:
		paying := "a move that gains enough" + next(rounds) + rival(r)
		if r.Hold {
			return []string{paying, fmt.Sprintf("`sluice release %s`", name)}
		}
		return []string{paying, "more VFs in pfs: of sluice.yaml", pin}
	case model.CodeOutranked:
		return []string{"gaining more than one of those with a VF" + next(rounds) + rival(r), "more VFs in pfs: of sluice.yaml", pin}
	}
	return otherChanges(name, r, rounds)
}

// next says when a rank takes effect: at the next round, or at once for policies that decide at every sample.
func next(rounds bool) string {
	if rounds {
		return " at the next round"
	}
	return ""
}

func otherChanges(name string, r model.Reason, rounds bool) []string {
	switch r.Code {
	case model.CodeVeto:
		return []string{"removing what forbids moving it: `sluice doctor` has the remedy"}
	case model.CodeBlind:
		return []string{"its load becoming known: `sluice doctor` has the remedy"}
	case model.CodeForeign:
		return []string{"its VF being detached by whoever attached it: Sluice leaves it alone"}
	case model.CodeNoVF:
		return []string{"a free VF of a PF on its network with its link up: see `sluice vfs`"}
	case model.CodeBackoff:
		return []string{"time: the next attempt is " + when(r.Until), "removing what made the move fail" + bracket(r.Detail)}
	case model.CodeMoving:
		return []string{"the end of the current move"}
	case model.CodeDrain:
		return []string{"`sluice drain --undo`"}
	case model.CodeSLA:
		if !r.Until.IsZero() { // its guest did not keep its limit on a VF
			return []string{"time: it may have a VF again " + when(r.Until)}
		}
		path := map[bool]string{true: "virtio", false: "a VF"}[r.Hold]
		return []string{fmt.Sprintf("an SLA that can be kept on %s: `sluice sla show %s` lists the present one", path, name)}
	case model.CodeBudget:
		return []string{map[bool]string{true: "the next round", false: "time: a later sample may have room for a move"}[rounds] + until(r.Until)}
	case model.CodeNotRunning:
		return []string{"starting it: virsh start " + name}
	case model.CodeReleased:
		return []string{fmt.Sprintf("`sluice unpin %s` lets the policy decide again", name), fmt.Sprintf("`sluice pin %s`", name)}
	}
	return []string{}
}

// rival names the VM that it has to exceed, or that has to exceed it.
func rival(r model.Reason) string {
	if r.Other == "" {
		return ""
	}
	who := cmp.Or(r.OtherNm, string(r.Other))
	if r.Hold {
		return ": the next in line is " + who
	}
	return ": the least of them is " + who
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", " + when(t)
}

func when(t time.Time) string {
	if t.IsZero() {
		return "at an unknown time"
	}
	return "at " + t.Format(time.TimeOnly)
}

func bracket(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
