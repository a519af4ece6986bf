package plan

import (
	"slices"
	"strings"

	"sluice/internal/model"
)

// causeOf finds what a Move that Diff plans is due to. The Reason says why the NIC should have a VF or not as things are; the Cause
// says what makes it change now. A VM that must give way to one that lost its own VF, or that a person pinned, has that one's cause.
func causeOf(snap *model.Snapshot, target *model.Target, m *model.Move) model.Cause {
	if c, ok := own(snap, m.VM, m.NIC, &m.Reason); ok {
		return c
	}
	if m.Kind == model.MovePlug {
		return plugCause(snap, m)
	}
	to := assigned(target, m.VF)
	if to == nil || to.VM == m.VM {
		return model.Cause{Kind: model.CausePolicy, Detail: m.Reason.Because()}
	}
	c := model.Cause{Kind: model.CausePolicy}
	if why := reasonOf(target, to); why != nil {
		if root, ok := own(snap, to.VM, to.NIC, why); ok {
			c = root
		}
	}
	c.Other = to.VM
	if vm := snap.FindVM(to.VM); vm != nil {
		c.OtherNm = vm.Name
	}
	return c
}

// own finds the cause of a change of a NIC in the NIC itself, in the VF that it has, or in what people ask for it; false if there is
// none, and the policy compared it with others.
func own(snap *model.Snapshot, vm model.VMID, alias string, why *model.Reason) (model.Cause, bool) {
	switch why.Code {
	case model.CodeDrain:
		return model.Cause{Kind: model.CauseDrain, By: why.By}, true
	case model.CodeReleased:
		return model.Cause{Kind: model.CauseRelease, By: why.By}, true
	case model.CodeForbidden:
		return model.Cause{Kind: model.CauseRelease, Detail: "forbidden"}, true
	case model.CodeBackoff, model.CodeNotRunning:
		return model.Cause{Kind: model.CauseGuest, Detail: why.Because()}, true
	}
	if vf := heldBy(snap, vm, alias); vf != model.NoVF {
		if c, broken := brokenPF(snap, vf.PF); broken {
			return c, true
		}
		if has := snap.FindVF(vf); has != nil && has.NoPort != "" {
			return model.Cause{Kind: model.CauseSwitch, PF: vf.PF, Detail: "VF " + vf.String() + " cannot be used: " + has.NoPort}, true
		}
	}
	switch why.Code {
	case model.CodePinned:
		return model.Cause{Kind: model.CausePin, By: why.By}, true
	case model.CodeSLA:
		return model.Cause{Kind: model.CauseSLA, Detail: why.Detail}, true
	}
	return model.Cause{}, false
}

// brokenPF returns why no VF of a PF can be used, if that is so.
func brokenPF(snap *model.Snapshot, name string) (model.Cause, bool) {
	switch pf := snap.FindPF(name); {
	case pf == nil:
		return model.Cause{Kind: model.CausePFGone, PF: name}, true
	case !pf.LinkUp:
		return model.Cause{Kind: model.CauseLinkDown, PF: name}, true
	case pf.Uplink.Why != "":
		return model.Cause{Kind: model.CauseSwitch, PF: name, Detail: pf.Uplink.Why}, true
	case !pf.Managed:
		return model.Cause{Kind: model.CauseReload, PF: name, Detail: name + " is not in sluice.yaml any more"}, true
	}
	return model.Cause{}, false
}

// plugCause is the cause of a plug that the policy decided.
func plugCause(snap *model.Snapshot, m *model.Move) model.Cause {
	c := model.Cause{Kind: model.CausePolicy, Detail: "a VF is free"}
	if vf := snap.FindVF(m.VF); vf != nil && vf.Holder != "" && vf.Holder != m.VM {
		if vm := snap.FindVM(vf.Holder); vm != nil {
			c.Detail = "takes over from " + vm.Name
		}
	}
	return c
}

func heldBy(snap *model.Snapshot, id model.VMID, alias string) model.VFID {
	if vm := snap.FindVM(id); vm != nil {
		return vm.FindNIC(alias).Ours()
	}
	return model.NoVF
}

// assigned finds who is to have a VF.
func assigned(target *model.Target, vf model.VFID) *model.Assignment {
	i := slices.IndexFunc(target.Assign, func(a model.Assignment) bool { return a.VF == vf })
	if i < 0 {
		return nil
	}
	return &target.Assign[i]
}

func reasonOf(target *model.Target, a *model.Assignment) *model.Reason {
	i, found := slices.BinarySearchFunc(target.Reasons, a.VM, func(r model.Reason, vm model.VMID) int {
		return strings.Compare(string(r.VM), string(vm))
	})
	if !found {
		return nil
	}
	return target.NIC(i, a.NIC)
}

// restarted is the cause of a Move that an earlier run began.
func restarted(m *model.Move) model.Cause {
	if m.Cause.Kind == "" || m.Cause.Kind == model.CauseRestart {
		return model.Cause{Kind: model.CauseRestart, Detail: m.Cause.Detail}
	}
	return model.Cause{Kind: model.CauseRestart, Detail: m.Cause.String()}
}
