package vpf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sluice/internal/model"
)

// CheckDefinition rejects an invalid definition with an error that says what would be valid.
func CheckDefinition(p *model.VirtualPF) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("virtual PF %q: %w", model.Shorten(p.Name), fmt.Errorf(format, args...))
	}
	if err := p.Check(); err != nil {
		return bad("%w", err)
	}
	for i := range p.VFs {
		err := CheckPort(&p.VFs[i].Port)
		if err == nil {
			err = CheckBackend(p, &p.VFs[i].Port)
		}
		if err != nil {
			return bad("VF %d: %w", i, err)
		}
	}
	return nil
}

// CheckPort rejects an invalid policy.
func CheckPort(p *model.PortPolicy) error {
	if err := checkMACs(p.MACs); err != nil {
		return err
	}
	if err := checkVLANs(p); err != nil {
		return err
	}
	if len(p.Addresses) > model.MaxPortAddresses {
		return fmt.Errorf("%d addresses are more than the maximum of %d", len(p.Addresses), model.MaxPortAddresses)
	}
	for _, a := range p.Addresses {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || a.Is4In6() ||
			a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return fmt.Errorf("%s is not an address that a host sends from", a)
		}
	}
	if p.Link != model.LinkAuto && p.Link != model.LinkUp && p.Link != model.LinkDown {
		return fmt.Errorf("link must be auto, up or down, not %q", model.Shorten(string(p.Link)))
	}
	return checkSLA(&p.SLA)
}

func checkMACs(list []model.MAC) error {
	if len(list) > model.MaxPortMACs {
		return fmt.Errorf("%d MACs are more than the %d that a VF may have besides its own", len(list), model.MaxPortMACs)
	}
	for i, m := range list {
		if err := CheckMAC(m); err != nil {
			return err
		}
		if slices.Contains(list[:i], m) {
			return fmt.Errorf("MAC %s is listed twice", m)
		}
	}
	return nil
}

// CheckMAC rejects a MAC that is not a unicast address.
func CheckMAC(m model.MAC) error {
	if m.IsZero() || m[0]&1 != 0 {
		return fmt.Errorf("MAC %s is not a unicast address", m)
	}
	return nil
}

func checkVLANs(p *model.PortPolicy) error {
	switch {
	case p.VLAN < 0 || p.VLAN > model.MaxVLAN:
		return fmt.Errorf("VLAN %d is not in 1-%d", p.VLAN, model.MaxVLAN)
	case p.VLAN != 0 && len(p.Trunk) > 0:
		return errors.New("a VF has an access VLAN or a trunk, not both")
	case len(p.Trunk) > model.MaxTrunkRanges:
		return fmt.Errorf("%d ranges are more than the %d that a trunk may have", len(p.Trunk), model.MaxTrunkRanges)
	}
	for _, r := range p.Trunk {
		if r.First < 1 || r.Last > model.MaxVLAN || r.First > r.Last {
			return fmt.Errorf("trunk %d-%d is not within 1-%d with the lower number first", r.First, r.Last, model.MaxVLAN)
		}
	}
	return nil
}

func checkSLA(s *model.SLA) error {
	if over := above(s.Guarantee, s.Limit); over != "" {
		return fmt.Errorf("the guarantee (%s) is above the limit: %s", s.Guarantee, over)
	}
	if s.Weight != 0 && !(s.Weight >= minWeight && s.Weight <= maxWeight) {
		return fmt.Errorf("weight %g is not in %g-%g", s.Weight, minWeight, float64(maxWeight))
	}
	return nil
}

// The same bounds as in sluice.yaml, because shares are divided by weights.
const minWeight, maxWeight = 0.001, 1000

// above describes how a exceeds a limit, where 0 means unlimited; "" if it does not.
func above(a, limit model.Rate) string {
	switch {
	case limit.Bits != 0 && a.Bits > limit.Bits:
		return fmt.Sprintf("%s is more than %s", model.Rate{Bits: a.Bits}, model.Rate{Bits: limit.Bits})
	case limit.Packets != 0 && a.Packets > limit.Packets:
		return fmt.Sprintf("%s is more than %s", model.Rate{Packets: a.Packets}, model.Rate{Packets: limit.Packets})
	}
	return ""
}
