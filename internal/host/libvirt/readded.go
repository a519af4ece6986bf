package libvirt

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// QEMU keeps what the primary of a virtio NIC's failover was added with, and adds it again by itself each time the guest's driver starts,
// also after libvirt has detached it: after a reboot a guest has a VF back that libvirt does not list and cannot detach, if the VF was free
// at that moment (failover_add_primary in QEMU's hw/net/virtio-net.c). It is found when the VF, or its alias, is wanted.

// heldByQEMU reports whether an attach failed because some QEMU has the VF open, or a device of its alias.
func heldByQEMU(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "resource busy") || strings.Contains(err.Error(), "Duplicate device ID"))
}

// removeReadded asks the guests to give up what QEMU has added by itself and what is in the way of attaching the VF to vm, and returns in
// words what was asked; "" if there is nothing. The devices are gone once the guests answer.
func (c *Conn) removeReadded(ctx context.Context, s *session, vm model.VMID, spec HostdevSpec) string {
	var asked []string
	for _, d := range c.inv.domains() {
		ask := func(command string) (string, error) {
			return onDomain(ctx, s.hotplug, d.ID, "ask QEMU", func(c *client, d lv.Domain) (string, error) {
				return c.QEMUDomainMonitorCommand(d, command, 0)
			})
		}
		found, err := readded(ask, func(alias string, address model.PCIAddress) bool {
			return address == spec.Address || d.ID == vm && alias == spec.Alias
		})
		if err != nil || len(found) == 0 {
			continue
		}
		now, err := c.fresh(ctx, s, d.ID) // after QEMU was asked: what libvirt attaches meanwhile is not removed
		for _, alias := range found {
			if err != nil || now.has(alias) {
				continue
			}
			if _, err := command(ask, "device_del", map[string]string{"id": alias}); err == nil {
				asked = append(asked, fmt.Sprintf("QEMU of %s had added %s again by itself, and its guest is asked to give it up", d.Name, alias))
			}
		}
	}
	return strings.Join(asked, "; ")
}

// readded returns the aliases of the VFs of a QEMU that are in the way. ask sends a command and returns the answer.
func readded(ask func(string) (string, error), inTheWay func(string, model.PCIAddress) bool) (out []string, err error) {
	text, err := command(ask, "qom-list", map[string]string{"path": "/machine/peripheral"})
	if err != nil {
		return nil, err
	}
	var devices []struct{ Name, Type string }
	if err := json.Unmarshal(text, &devices); err != nil {
		return nil, fmt.Errorf("QEMU's list of devices cannot be read: %w", err)
	}
	for _, x := range devices {
		if x.Type != "child<vfio-pci>" {
			continue
		}
		text, err := command(ask, "qom-get", map[string]string{"path": "/machine/peripheral/" + x.Name, "property": "host"})
		if err != nil {
			return nil, err
		}
		var address model.PCIAddress
		if err := json.Unmarshal(text, &address); err != nil {
			return nil, fmt.Errorf("QEMU's address of %s cannot be read: %w", x.Name, err)
		}
		if inTheWay(x.Name, address) {
			out = append(out, x.Name)
		}
	}
	return out, nil
}

// command sends a QMP command and returns what the answer carries.
func command(ask func(string) (string, error), name string, arguments map[string]string) (json.RawMessage, error) {
	request, err := json.Marshal(map[string]any{"execute": name, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	text, err := ask(string(request))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Return json.RawMessage `json:"return"`
		Error  *struct {
			Desc string `json:"desc"`
		} `json:"error"`
	}
	switch err := json.Unmarshal([]byte(text), &answer); {
	case err == nil && answer.Error != nil:
		return nil, fmt.Errorf("QEMU answers %s: %s", name, answer.Error.Desc)
	case err != nil || answer.Return == nil:
		return nil, fmt.Errorf("QEMU's answer to %s cannot be read: %s", name, model.Shorten(text))
	}
	return answer.Return, nil
}
