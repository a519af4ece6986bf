package libvirt

import (
	"context"
	"fmt"
	"strings"

	"sluice/internal/host/libvirt/qmp"
	"sluice/internal/model"
)

// QEMU keeps what the primary of a virtio NIC's failover was added with, and adds it again by itself each time the guest's driver starts,
// also after libvirt has detached it: after a reboot a guest has a VF back that libvirt does not list and cannot detach, if the VF was free
// at that moment (failover_add_primary in QEMU's hw/net/virtio-net.c). It is found when the VF, or its alias, is wanted.

// heldByQEMU reports whether an attach failed because some QEMU has the VF open, or a device of its alias.
func heldByQEMU(err error) bool {
	return strings.Contains(err.Error(), "resource busy") || strings.Contains(err.Error(), "Duplicate device ID")
}

// removeReadded asks the guests to give up what QEMU has added by itself and what is in the way of attaching the VF to vm, and returns in
// words what was asked; "" if there is nothing. The devices are gone once the guests answer. What others have added is left alone.
func (c *Conn) removeReadded(ctx context.Context, s *session, vm model.VMID, spec HostdevSpec) string {
	var asked []string
	for _, d := range c.inv.domains() {
		ask := s.monitor(ctx, d.ID)
		found, err := readded(ask, func(alias string, address model.PCIAddress) bool {
			return model.OwnAlias(alias) && (address == spec.Address || d.ID == vm && alias == spec.Alias)
		})
		if err != nil || len(found) == 0 {
			continue
		}
		now, err := c.fresh(ctx, s, d.ID) // after QEMU was asked: what libvirt attaches meanwhile is not removed
		for _, alias := range found {
			if err != nil || now.has(alias) {
				continue
			}
			if ask.Do("device_del", map[string]string{"id": alias}, &struct{}{}) == nil {
				asked = append(asked, fmt.Sprintf("QEMU of %s had added %s again by itself, and its guest is asked to give it up", d.Name, alias))
			}
		}
	}
	return strings.Join(asked, "; ")
}

// readded returns the aliases of the VFs of a QEMU that are in the way.
func readded(ask qmp.Ask, inTheWay func(string, model.PCIAddress) bool) (out []string, err error) {
	var devices []struct{ Name, Type string }
	if err := ask.Do("qom-list", map[string]string{"path": qmp.Peripherals}, &devices); err != nil {
		return nil, err
	}
	for _, x := range devices {
		if x.Type != "child<vfio-pci>" {
			continue
		}
		address, ok, err := ask.Get(x.Name, "host")
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, fmt.Errorf("QEMU has no address of %s", x.Name)
		case inTheWay(x.Name, model.PCIAddress(address)):
			out = append(out, x.Name)
		}
	}
	return out, nil
}
