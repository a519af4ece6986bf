package vpf

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"sluice/internal/model"
)

var (
	nameForm    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)
	networkForm = regexp.MustCompile(`^[^\s/:]{1,15}$`) // of an interface of Linux
)

// CheckDefinition says what is wrong with a definition, and what would be right.
func CheckDefinition(p *model.VirtualPF) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("virtual PF %q: %w", model.Shorten(p.Name), fmt.Errorf(format, args...))
	}
	most, why := model.MaxFunctionVFs, "it has in one PCI slot; --ari allows more"
	switch {
	case p.Model == model.VPFIGB:
		most, why = model.MaxVirtualVFsIGB, "the emulated 82576 has"
	case p.ARI:
		most, why = model.MaxVirtualVFs, "QEMU takes"
	}
	switch {
	case !nameForm.MatchString(p.Name):
		return bad("a name is a small letter and up to 15 letters, digits and - after it, such as vpf0")
	case p.Model != model.VPFVirtio && p.Model != model.VPFIGB:
		return bad("the model is %s or %s, not %q", model.VPFVirtio, model.VPFIGB, model.Shorten(string(p.Model)))
	case p.Backend != model.BackendTap && p.Backend != model.BackendVDPA:
		return bad("the backend is %s or %s, not %q", model.BackendTap, model.BackendVDPA, model.Shorten(string(p.Backend)))
	case p.Model == model.VPFIGB && p.Backend == model.BackendVDPA:
		return bad("an igb has taps only: use --model virtio for vDPA")
	case p.Backend == model.BackendTap && !networkForm.MatchString(p.Network):
		return bad("the network is the name of a bridge, not %q", model.Shorten(p.Network))
	case len(p.VFs) < 1:
		return bad("it has no VF: ask for 1 to %d", most)
	case len(p.VFs) > most:
		return bad("%d VFs are more than the %d that %s", len(p.VFs), most, why)
	}
	for i := range p.VFs {
		err := CheckPort(&p.VFs[i].Port)
		if err == nil {
			err = checkBackend(p, &p.VFs[i].Port)
		}
		if err != nil {
			return bad("VF %d: %w", i, err)
		}
	}
	return nil
}

// CheckPort says what is wrong with a policy.
func CheckPort(p *model.PortPolicy) error {
	if err := checkMACs(p.MACs); err != nil {
		return err
	}
	if err := checkVLANs(p); err != nil {
		return err
	}
	if len(p.Addresses) > model.MaxPortAddresses {
		return fmt.Errorf("%d addresses are more than %d", len(p.Addresses), model.MaxPortAddresses)
	}
	for _, a := range p.Addresses {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || a.Is4In6() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return fmt.Errorf("%s is no address that a host sends from", a)
		}
	}
	if p.Link != model.LinkAuto && p.Link != model.LinkUp && p.Link != model.LinkDown {
		return fmt.Errorf("link is auto, up or down, not %q", model.Shorten(string(p.Link)))
	}
	return checkSLA(&p.SLA)
}

func checkMACs(list []model.MAC) error {
	if len(list) > model.MaxPortMACs {
		return fmt.Errorf("%d MACs are more than the %d that a VF may have beside its own", len(list), model.MaxPortMACs)
	}
	for i, m := range list {
		if err := checkMAC(m); err != nil {
			return err
		}
		if slices.Contains(list[:i], m) {
			return fmt.Errorf("MAC %s is there twice", m)
		}
	}
	return nil
}

func checkMAC(m model.MAC) error {
	if m.IsZero() || m[0]&1 != 0 {
		return fmt.Errorf("MAC %s is no address of one interface", m)
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
			return fmt.Errorf("trunk %d-%d is not within 1-%d, the lower first", r.First, r.Last, model.MaxVLAN)
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

// As in sluice.yaml: shares are divided by weights.
const minWeight, maxWeight = 0.001, 1000

// above says in what a exceeds a limit, of which 0 is none; "" if in nothing.
func above(a, limit model.Rate) string {
	switch {
	case limit.Bits != 0 && a.Bits > limit.Bits:
		return fmt.Sprintf("%s is more than %s", model.Rate{Bits: a.Bits}, model.Rate{Bits: limit.Bits})
	case limit.Packets != 0 && a.Packets > limit.Packets:
		return fmt.Sprintf("%s is more than %s", model.Rate{Packets: a.Packets}, model.Rate{Packets: limit.Packets})
	}
	return ""
}
