package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// Do implements server.Backend.
func (b *Backend) Do(ctx context.Context, c server.Command) (api.Result, error) {
	switch c.Verb {
	case api.VerbReload:
		if b.Reload == nil {
			return api.Result{}, &api.Error{Text: "there is no configuration to reload", Remedy: "use `sluice run`"}
		}
		notes, err := b.TryReload()
		if err != nil {
			return api.Result{}, &api.Error{Text: err.Error(), Remedy: "fix that and try again"}
		}
		return api.Result{Text: "configuration reloaded", Details: notes}, nil
	case api.VerbRepair:
		err := b.call(ctx, b.core.Repair)
		return b.observing(api.Result{Text: "at the next tick Sluice repairs what it may repair"}, movedNothing), err
	case api.VerbPin, api.VerbRelease, api.VerbDrain:
		o := b.override(c)
		err := b.change(ctx, c, func(list []model.Override) ([]model.Override, error) { return append(without(list, c), o), nil })
		if err != nil {
			return api.Result{}, err
		}
		return b.observing(b.announce(ctx, &o), movedNothing), nil
	case api.VerbUnpin, api.VerbUndrain:
		return b.takeBack(ctx, c)
	case api.VerbSetSLA:
		return b.setSLA(ctx, c)
	case api.VerbClearSLA:
		return b.clearSLA(ctx, c)
	}
	return api.Result{}, &api.Error{Text: fmt.Sprintf("unknown command %q", c.Verb)}
}

// override returns the override that a command requests. Times are those of the backend's clock.
func (b *Backend) override(c server.Command) model.Override {
	o := model.Override{
		Kind: model.OverrideKind(c.Verb), VM: c.VM, VMName: c.VMName, By: c.User, UID: c.UID, NIC: c.NIC, SLA: c.SLA,
		At: b.Now().Round(0).Truncate(time.Second), Reason: c.Reason, Until: c.Until,
	}
	if c.For > 0 {
		o.Until = b.Now().Add(c.For).Round(0).Truncate(time.Second)
	}
	return o
}

// announce says what follows from an override that is in force, and what prevents it.
func (b *Backend) announce(ctx context.Context, o *model.Override) api.Result {
	if o.Kind == model.OverrideDrain {
		return api.Result{Text: "all VFs are being taken back, and none is assigned until " + ending(o, "`sluice drain --undo`")}
	}
	var r model.Reason
	if err := b.call(ctx, func(now time.Time) { r = b.core.Foresee(now, o.VM) }); err != nil {
		r = model.Reason{}
	}
	v, _ := b.View()
	vm := v.Snapshot.FindVM(o.VM)
	return promise(o, r, vm != nil && vm.Held() != nil)
}

// promise says what follows from a pin or release, given what is decided about the VM and whether it has a VF.
func promise(o *model.Override, r model.Reason, has bool) api.Result {
	end := ending(o, "`sluice unpin`")
	known := r.Code != "" && r.Code != model.CodeMoving
	switch pin := o.Kind == model.OverridePin; {
	case pin && r.Code == model.CodeNotRunning:
		return api.Result{Text: o.VMName + " is pinned until " + end + ": it gets a VF once it runs"}
	case pin && known && !r.Hold:
		return api.Result{Text: o.VMName + " is pinned until " + end + ", but it cannot get a VF: " + r.Because(), Obstacle: r.Because()}
	case pin && r.Code == "":
		return api.Result{Text: o.VMName + " is pinned until " + end + "; `sluice explain " + o.VMName + "` says what follows"}
	case pin && has:
		return api.Result{Text: o.VMName + " is pinned: it keeps its VF until " + end}
	case pin:
		return api.Result{Text: o.VMName + " is pinned: it gets a VF, and keeps it until " + end}
	case known && r.Hold:
		return api.Result{Text: o.VMName + " is released until " + end + ", but it keeps its VF: " + r.Because(), Obstacle: r.Because()}
	case has:
		return api.Result{Text: o.VMName + " gives its VF up and gets none until " + end}
	}
	return api.Result{Text: o.VMName + " gets no VF until " + end}
}

// takeBack withdraws an override.
func (b *Backend) takeBack(ctx context.Context, c server.Command) (api.Result, error) {
	there := slices.ContainsFunc(b.overrides.List(), func(o model.Override) bool { return concerns(&o, c) })
	text := "VFs are assigned again"
	switch {
	case c.Verb == api.VerbUnpin && !there:
		return api.Result{Text: c.VMName + " was neither pinned nor released: there is nothing to undo"}, nil
	case !there:
		return api.Result{Text: "VFs were not being taken back: there is nothing to undo"}, nil
	case c.Verb == api.VerbUnpin:
		text = "the policy decides about " + c.VMName + " again"
	}
	return b.observing(api.Result{Text: text}, movedNothing), b.change(ctx, c,
		func(list []model.Override) ([]model.Override, error) { return without(list, c), nil })
}

// without returns a copy without the overrides that the command replaces or withdraws.
func without(list []model.Override, c server.Command) []model.Override {
	return slices.DeleteFunc(slices.Clone(list), func(o model.Override) bool { return concerns(&o, c) })
}

// concerns reports whether an override has the same subject as a command: the whole host, the VF of a VM, or the VM's SLA.
// An SLA is replaced by one for the same NIC pattern; clearing without a NIC clears all.
func concerns(o *model.Override, c server.Command) bool {
	switch c.Verb {
	case api.VerbDrain, api.VerbUndrain:
		return o.Kind == model.OverrideDrain
	case api.VerbSetSLA, api.VerbClearSLA:
		if o.Kind != model.OverrideSLA || o.NIC != c.NIC && (c.Verb == api.VerbSetSLA || c.NIC != "") {
			return false
		}
	default:
		if !o.Places() {
			return false
		}
	}
	if o.VM != "" && c.VM != "" {
		return o.VM == c.VM
	}
	return o.VMName == c.VMName
}

// change stores the changed overrides on disk and applies them to placement.
func (b *Backend) change(ctx context.Context, c server.Command, edit func([]model.Override) ([]model.Override, error)) error {
	return b.overrides.change(edit, func() error {
		var failed error
		err := b.call(ctx, func(time.Time) {
			if failed = b.core.SetRules(b.overrides.Over(b.rules())); failed == nil && c.VM != "" && c.Verb != api.VerbSetSLA &&
				c.Verb != api.VerbClearSLA {
				b.core.Forgive(c.VM)
			}
		})
		return errors.Join(err, failed)
	})
}

// What the user is told in observe mode.
const (
	movedNothing   = "observe mode: nothing is changed; `sluice plan` shows what would be"
	limitedNothing = "observe mode: nothing is limited; `sluice bw` shows what would be"
)

// observing adds a note to the result in observe mode.
func (b *Backend) observing(r api.Result, note string) api.Result {
	if v, _ := b.View(); v.Mode == model.ModeObserve {
		r.Details = append(r.Details, note)
	}
	return r
}
