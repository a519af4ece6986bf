package tap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// SetSwitchPort makes the tap a port of the embedded switch that is held to these rules, or changes it in place, and
// returns what is true then. It is idempotent, and all of it stays when the process ends. While it changes no frame passes that
// neither the old nor the new rules let through; the rates of rules may take effect a moment earlier.
//
// What a guest sends belongs to the first rule that has its source MAC, else to the first that checks none. What
// a guest receives belongs to the first rule that has its destination, or for all that is in its VLAN; unicast to somebody else
// is dropped without being counted. On a bridge that filters VLANs the tap becomes a tagged member of those of its rules alone. A tag in front of another, one of VLAN 0 and one of another type than 802.1Q never pass.
func (h *Taps) SetSwitchPort(ctx context.Context, p model.SwitchPort) (model.SwitchPortState, error) {
	if err := checkPort(&p); err != nil {
		return model.SwitchPortState{}, sysif.Fail("make a switch port of", p.Tap, err)
	}
	var now model.SwitchPortState // not the result: if ctx ends, this is still being written
	err := h.k.Busy.Exclusive(ctx, "tap "+p.Tap, func() (err error) {
		if p.Isolated { // before its new rules let anything pass that the old ones did not
			if err = h.bridges.IsolateFirst(ctx, p.Tap); err != nil {
				return err
			}
		}
		if now, err = h.taps.setPort(p, tapQuestions{ctx, h, p.Tap}); err != nil {
			return err
		}
		if err = h.bridges.SetPort(ctx, &p); err != nil {
			return err
		}
		return h.bridges.ReadPort(ctx, &now)
	})
	if err != nil {
		return model.SwitchPortState{}, sysif.Fail("make a switch port of", p.Tap, err)
	}
	return now, nil
}

// RemoveSwitchPort takes the rules off a tap, or what is left of them where the tap has gone, and ends its isolation. Limits
// stay, and so do its VLANs where the bridge filters those. That there is no switch port is no error.
func (h *Taps) RemoveSwitchPort(ctx context.Context, tap string) error {
	err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() error {
		was, err := h.taps.portOf(tap)
		if err == nil && was.Isolated && was.Detached == model.No {
			err = h.bridges.SetPort(ctx, &model.SwitchPort{Tap: tap, Rules: was.Rules})
		}
		return errors.Join(err, h.taps.removePort(tap, tapQuestions{ctx, h, tap}))
	})
	return sysif.Fail("remove switch port", tap, err)
}

// SwitchPorts lists what stands, whichever process made it, sorted by tap.
func (h *Taps) SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error) {
	var all []model.SwitchPortState
	taps, err := h.taps.ports()
	if err != nil {
		return nil, sysif.Fail("list", "switch ports", err)
	}
	for _, tap := range taps {
		var now model.SwitchPortState
		err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() (err error) {
			if now, err = h.taps.portOf(tap); err == nil && now.Detached == model.No {
				err = h.bridges.ReadPort(ctx, &now)
			}
			return err
		})
		if err != nil {
			return nil, sysif.Fail("look at switch port", tap, err)
		}
		if now.Tap != "" {
			all = append(all, now)
		}
	}
	return all, nil
}

// mostMACs is how many a rule has at most: the VF's own, its pod's, and those beside them.
const mostMACs = model.MaxPortMACs + 2

// checkPort says what of a port cannot be.
func checkPort(p *model.SwitchPort) error {
	if p.Tap == "" {
		return sysif.Permanent("a switch port needs a tap")
	}
	if n := len(p.Rules); n < 1 || n > maxRules {
		return sysif.Permanent(fmt.Sprintf("it has %d rules; want 1 to %d", n, maxRules))
	}
	for i := range p.Rules {
		if err := checkRule(&p.Rules[i]); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return nil
}

func checkRule(r *model.SwitchRule) error {
	if n := len(r.MACs); n < 1 || n > mostMACs {
		return sysif.Permanent(fmt.Sprintf("it has %d MACs; want 1 to %d", n, mostMACs))
	}
	for _, m := range r.MACs {
		if err := sysif.WantUnicast(m); err != nil {
			return fmt.Errorf("MAC %s: %w", m, err)
		}
	}
	if len(r.Addresses) > model.MaxPortAddresses {
		return sysif.Permanent(fmt.Sprintf("it has %d addresses; want at most %d", len(r.Addresses), model.MaxPortAddresses))
	}
	for _, a := range r.Addresses {
		if !usable(a) {
			return sysif.Permanent(fmt.Sprintf("%s is no address that a guest sends from: want a unicast one without a zone", a))
		}
	}
	return checkVLANs(r)
}

func usable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func checkVLANs(r *model.SwitchRule) error {
	switch {
	case r.VLAN < 0 || r.VLAN > model.MaxVLAN:
		return sysif.Permanent(fmt.Sprintf("VLAN %d: want 1 to %d, or 0 for none", r.VLAN, model.MaxVLAN))
	case r.VLAN != 0 && len(r.Trunk) > 0:
		return sysif.Permanent("it has an access VLAN and a trunk; want one of them")
	case len(r.Trunk) > model.MaxTrunkRanges:
		return sysif.Permanent(fmt.Sprintf("its trunk has %d ranges; want at most %d", len(r.Trunk), model.MaxTrunkRanges))
	}
	for _, v := range r.Trunk {
		if v.First < 1 || v.Last > model.MaxVLAN || v.Last < v.First {
			return sysif.Permanent(fmt.Sprintf("VLANs %d to %d: want some of 1 to %d", v.First, v.Last, model.MaxVLAN))
		}
	}
	return nil
}
