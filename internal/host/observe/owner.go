package observe

import (
	"fmt"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// holder is the hostdev that gives a domain a PCI device.
type holder struct {
	vm      int // index of the domain
	hostdev *libvirt.Hostdev
}

// foreignAfter is how long a VF that was not open before must be open without a domain before it counts as foreign: libvirt shows a device
// slightly later than QEMU opens it.
const foreignAfter = 5 * time.Second

// owner returns who owns a VF and, for foreign ones, the evidence. held is nil and name "" if no domain has it; open is how long a process
// outside of any domain has had it open.
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
		return model.OwnerForeign, "a process other than a libvirt domain has it open"
	}
	return model.OwnerFree, ""
}

// pairOf returns the index of the NIC that the VF belongs to, or -1. The domain's definition takes precedence over matching MACs.
func pairOf(nics []model.NIC, h *libvirt.Hostdev, vf model.MAC) int {
	for _, same := range []func(*model.NIC) bool{
		func(n *model.NIC) bool { return h.TeamingPersistent != "" && h.TeamingPersistent == n.Alias },
		func(n *model.NIC) bool { return h.Alias == model.PassthroughAlias(n.MAC) },
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
