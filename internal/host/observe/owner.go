package observe

import (
	"fmt"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// holder is the hostdev through which a domain has a PCI device.
type holder struct {
	vm      int // index of the domain
	hostdev *libvirt.Hostdev
}

// foreignAfter is how long a VF that was not open before must be so without a domain until
// it counts as someone else's: libvirt shows a device a moment after QEMU has it.
const foreignAfter = 5 * time.Second

// owner says whose a VF is and, for foreign ones, what shows it. held is nil and
// name "" when no domain has it; open is how long a process that is no domain has
// had it open.
func owner(vf *model.VF, use vf.Use, held *libvirt.Hostdev, name string, pool Pool, open time.Duration) (model.Owner, string) {
	switch {
	case held != nil && model.OwnAlias(held.Alias):
		return model.OwnerSluice, ""
	case held != nil:
		return model.OwnerForeign, fmt.Sprintf("%s has it as %s, not attached by Sluice", name, held.Alias)
	case !pool.Has(vf.ID):
		return model.OwnerForeign, model.NotInPool
	case use.HostNetdevUp:
		return model.OwnerForeign, "the host uses it: interface " + use.HostNetdev + " is up"
	case use.OtherNetns:
		return model.OwnerForeign, "its interface is in another network namespace"
	case open >= foreignAfter:
		return model.OwnerForeign, "a process that is no libvirt domain has it open"
	}
	return model.OwnerFree, ""
}

// pairOf returns the index of the NIC that the VF stands behind, or -1. What the
// domain's definition says comes before what MACs suggest.
func pairOf(nics []model.NIC, h *libvirt.Hostdev, vf model.MAC) int {
	for _, same := range []func(*model.NIC) bool{
		func(n *model.NIC) bool { return h.TeamingPersistent != "" && h.TeamingPersistent == n.Alias },
		func(n *model.NIC) bool { return h.Alias == model.VFAlias(n.MAC) },
		func(n *model.NIC) bool { return !h.MAC.IsZero() && h.MAC == n.MAC },
		func(n *model.NIC) bool { return !vf.IsZero() && vf == n.MAC },
	} {
		for i := range nics {
			if nics[i].VirtualPF == "" && same(&nics[i]) {
				return i
			}
		}
	}
	return -1
}
