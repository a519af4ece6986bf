package model

import (
	"errors"
	"fmt"
	"regexp"
)

var (
	// vpfName becomes part of aliases, which are IDs in QEMU, and of names of vDPA devices.
	vpfName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)
	// bridgeName matches names of Linux interfaces.
	bridgeName = regexp.MustCompile(`^[^\s/:]{1,15}$`)
)

// Check reports what is wrong with the definition by itself, and what would be right. It does not check the policies of its VFs.
func (p *VirtualPF) Check() error {
	n := len(p.VFs)
	switch {
	case !vpfName.MatchString(p.Name):
		return fmt.Errorf("%q is no name for it: want up to 16 of a-z, 0-9 and -, a letter first", Shorten(p.Name))
	case p.Model != VPFVirtio && p.Model != VPFIGB:
		return fmt.Errorf("there is no model %q: take virtio or igb", Shorten(string(p.Model)))
	case p.Backend != BackendTap && p.Backend != BackendVDPA:
		return fmt.Errorf("there is no backend %q: take tap or vdpa", Shorten(string(p.Backend)))
	case p.Backend == BackendTap && !bridgeName.MatchString(p.Network):
		return fmt.Errorf("it has no network: that is the name of a bridge, for its taps to be ports of, not %q", Shorten(p.Network))
	case p.Network == "":
		return errors.New("it has no network: of backend vdpa that is what makes its devices")
	case n == 0:
		return errors.New("it has no VFs: ask for one at least")
	case p.Model == VPFIGB && p.Backend != BackendTap:
		return errors.New("an igb has one tap for all, and taps only: take the model virtio for vDPA")
	case p.Model == VPFIGB && n > MaxVirtualVFsIGB:
		return fmt.Errorf("%d VFs are more than the %d that an igb has: take the model virtio, or define several", n, MaxVirtualVFsIGB)
	case n > MaxVirtualVFs:
		return fmt.Errorf("%d VFs are more than the %d that QEMU takes: define several virtual PFs", n, MaxVirtualVFs)
	case n > MaxFunctionVFs && p.Model == VPFVirtio && !p.ARI:
		return fmt.Errorf("%d VFs are more than the %d functions beside the PF in a slot: ask for ARI (--ari), which the guest must know (Linux does), or define several virtual PFs", n, MaxFunctionVFs)
	}
	return nil
}
