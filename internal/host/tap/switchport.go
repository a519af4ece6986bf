package tap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// SetSwitchPort makes the tap a port of the embedded switch with these rules, or changes it in place, and returns the resulting
// state. It is idempotent, and the port outlives the process. During a change no frame passes that both the old and the new rules
// reject; the rates of rules may take effect slightly earlier.
//
// A frame from the guest belongs to the first rule with its source MAC, else to the first rule that does not check sources. A
// frame to the guest belongs to the first rule with its destination MAC or, if multicast or broadcast, to the first in its VLAN;
// unicast to another MAC is dropped without being counted. On a bridge that filters VLANs the tap becomes a tagged member of only
// the VLANs of its rules. Double-tagged frames, priority-tagged frames (VLAN 0) and tags of types other than 802.1Q never pass.
func (h *Taps) SetSwitchPort(ctx context.Context, p model.SwitchPort) (model.SwitchPortState, error) {
	if err := checkPort(&p); err != nil {
		return model.SwitchPortState{}, sysif.Fail("make a switch port of", p.Tap, err)
	}
	var now model.SwitchPortState // not the result: still being written if ctx ends
	err := h.k.Busy.Exclusive(ctx, "tap "+p.Tap, func() (err error) {
		if p.Isolated { // before the new rules let through anything that the old ones did not
			if err = h.bridges.IsolateFirst(ctx, p.Tap); err != nil {
				return err
			}
		}
		if now, err = h.taps.setPort(ctx, p); err != nil {
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

// RemoveSwitchPort removes the rules from a tap, or their remains if the tap has gone, and ends its isolation. Limits stay, and
// so does its VLAN membership if the bridge filters VLANs. It is not an error if there is no switch port.
func (h *Taps) RemoveSwitchPort(ctx context.Context, tap string) error {
	err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() error {
		was, err := h.taps.portOf(tap)
		if err == nil && was.Isolated && was.Detached == model.No {
			err = h.bridges.SetPort(ctx, &model.SwitchPort{Tap: tap, Rules: was.Rules})
		}
		return errors.Join(err, h.taps.removePort(ctx, tap))
	})
	return sysif.Fail("remove switch port", tap, err)
}

// SwitchPorts lists the switch ports, whichever process made them, sorted by tap.
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
			return nil, sysif.Fail("read switch port", tap, err)
		}
		if now.Tap != "" {
			all = append(all, now)
		}
	}
	return all, nil
}

// mostMACs is the most a rule can have: the VF's own, its pod's, and the additional ones.
const mostMACs = model.MaxPortMACs + 2

// checkPort returns what is invalid about a port.
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
			return sysif.Permanent(fmt.Sprintf("%s cannot be a source address: want a unicast address without a zone", a))
		}
	}
	return checkVLANs(r)
}

func usable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
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
			return sysif.Permanent(fmt.Sprintf("VLANs %d to %d: want a range within 1 to %d", v.First, v.Last, model.MaxVLAN))
		}
	}
	return nil
}
