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
		return fmt.Errorf("%q is not a valid name: use up to 16 of a-z, 0-9 and -, beginning with a letter", Shorten(p.Name))
	case p.Model != VPFVirtio && p.Model != VPFIGB:
		return fmt.Errorf("there is no model %q: choose virtio or igb", Shorten(string(p.Model)))
	case p.Backend != BackendTap && p.Backend != BackendVDPA:
		return fmt.Errorf("there is no backend %q: choose tap or vdpa", Shorten(string(p.Backend)))
	case p.Backend == BackendTap && !bridgeName.MatchString(p.Network):
		return fmt.Errorf("its network must be the bridge of which its taps are ports, not %q", Shorten(p.Network))
	case p.Network == "":
		return errors.New("it has no network: for backend vdpa, name the management device that creates its devices")
	case n == 0:
		return errors.New("it has no VFs: request at least one")
	case p.Model == VPFIGB && p.Backend != BackendTap:
		return errors.New("an igb has one tap for all its VFs and supports no other backend: choose model virtio for vDPA")
	case p.Model == VPFIGB && n > MaxVirtualVFsIGB:
		return fmt.Errorf("%d VFs are more than the %d that an igb has: choose model virtio, or define several virtual PFs", n, MaxVirtualVFsIGB)
	case n > MaxVirtualVFs:
		return fmt.Errorf("%d VFs are more than the %d that QEMU supports: define several virtual PFs", n, MaxVirtualVFs)
	case n > MaxFunctionVFs && p.Model == VPFVirtio && !p.ARI:
		return fmt.Errorf("%d VFs are more than the %d functions that a slot has besides the PF: request ARI (--ari), which the guest must "+
			"support (Linux does), or define several virtual PFs", n, MaxFunctionVFs)
	}
	return nil
}
