package uplink

import (
	"context"
	"fmt"
	"strings"

	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// FunctionSwitch is a switch other than a Linux bridge that takes functions of virtual PFs. It passes all VLANs at their ports; the
// programs at the taps do everything else, except isolation.
type FunctionSwitch interface {
	// FunctionPort returns the port of a tap; false: it is not a port of this switch. An error means that it may be one.
	FunctionPort(links *Links, tap string) (FunctionPort, bool, error)
	// Isolate begins or ends the isolation of a tap's port from other isolated ports.
	Isolate(ctx context.Context, tap string, on bool) error
}

// FunctionPort is the port of a function of a virtual PF.
type FunctionPort struct {
	Switch   string
	Isolated bool
	// Refused is why no function may use it, in the form "why; remedy"; "": one may.
	Refused string
}

// PortKernel is what FunctionPorts use of the kernel: the programs at taps, and Linux bridges.
type PortKernel interface {
	Links(ctx context.Context) ([]netdev.Link, error)
	SetSwitchPort(ctx context.Context, p model.SwitchPort) (model.SwitchPortState, error)
	RemoveSwitchPort(ctx context.Context, tap string) error
	SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error)
}

// FunctionPorts are the switch ports of virtual PFs, on Linux bridges and on another kind of switch.
type FunctionPorts struct {
	PortKernel
	Other FunctionSwitch
}

// SetSwitchPort is tap.Taps.SetSwitchPort for both kinds of switch.
func (f FunctionPorts) SetSwitchPort(ctx context.Context, want model.SwitchPort) (model.SwitchPortState, error) {
	links, err := f.links(ctx)
	if err != nil {
		return model.SwitchPortState{}, err
	}
	at, ok, err := f.Other.FunctionPort(links, want.Tap)
	if err == nil && !ok {
		return f.PortKernel.SetSwitchPort(ctx, want)
	}
	var now model.SwitchPortState
	if err == nil {
		now, err = f.set(ctx, want, at)
	}
	return now, sysif.Fail("make a switch port of", want.Tap, err)
}

// set makes a port of the other switch. One that may not be the function's gets the rules and nothing else.
func (f FunctionPorts) set(ctx context.Context, want model.SwitchPort, at FunctionPort) (now model.SwitchPortState, err error) {
	refusal := at.refusal(&want)
	if refusal == nil && want.Isolated && !at.Isolated { // before the new rules let through anything that the old ones did not
		if err := f.Other.Isolate(ctx, want.Tap, true); err != nil {
			return now, err
		}
	}
	rules := model.SwitchPort{Tap: want.Tap, Rules: want.Rules}
	if now, err = f.PortKernel.SetSwitchPort(ctx, rules); err != nil {
		return now, err
	}
	switch {
	case refusal != nil:
		return now, refusal
	case at.Isolated && !want.Isolated:
		if err := f.Other.Isolate(ctx, want.Tap, false); err != nil {
			return now, err
		}
	}
	links, err := f.links(ctx)
	if err == nil {
		err = f.complete(links, &now)
	}
	return now, err
}

// refusal is why a port cannot be the wanted one.
func (at *FunctionPort) refusal(want *model.SwitchPort) error {
	why, remedy, refused := strings.Cut(at.Refused, "; ")
	switch {
	case refused:
		return sysif.Permanent(why + ": " + remedy)
	case want.Bridge != "" && at.Switch != want.Bridge:
		return sysif.Permanent(fmt.Sprintf("it is a port of %s, not of %s: restart its VM, or: ovs-vsctl del-port %[3]s; "+
			"ovs-vsctl add-port %[2]s %[3]s", at.Switch, want.Bridge, want.Tap))
	}
	return nil
}

// RemoveSwitchPort is tap.Taps.RemoveSwitchPort for both kinds of switch. The rules go last: while they are there, it is tried again.
func (f FunctionPorts) RemoveSwitchPort(ctx context.Context, tap string) error {
	links, err := f.links(ctx)
	if err == nil {
		var at FunctionPort
		if at, _, err = f.Other.FunctionPort(links, tap); at.Isolated && at.Refused == "" { // else it is not Sluice that isolated it
			err = f.Other.Isolate(ctx, tap, false)
		}
	}
	if err != nil {
		return sysif.Fail("end the isolation of", tap, err)
	}
	return f.PortKernel.RemoveSwitchPort(ctx, tap)
}

// SwitchPorts is tap.Taps.SwitchPorts for both kinds of switch. A port that no function may use appears to be in no switch, so that nothing
// gets a carrier by it.
func (f FunctionPorts) SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error) {
	all, err := f.PortKernel.SwitchPorts(ctx)
	var links *Links
	for i := range all {
		if all[i].Detached != model.No || all[i].Bridge != "" {
			continue
		}
		if links == nil {
			if links, err = f.links(ctx); err != nil {
				return nil, err
			}
		}
		if err := f.complete(links, &all[i]); err != nil {
			return nil, sysif.Fail("read switch port", all[i].Tap, err)
		}
	}
	return all, err
}

// complete fills in the other switch's part of a port.
func (f FunctionPorts) complete(links *Links, now *model.SwitchPortState) error {
	at, ok, err := f.Other.FunctionPort(links, now.Tap)
	if ok && at.Refused == "" {
		now.Bridge, now.Isolated = at.Switch, at.Isolated
	}
	return err
}

func (f FunctionPorts) links(ctx context.Context) (*Links, error) {
	list, err := f.Links(ctx)
	links := &Links{}
	links.Index(list)
	return links, err
}
