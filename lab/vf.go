package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// VFs per PF.
const VFs = 7

// VFAddress is the PCI address of VF n of a PF, as 0000:01:10.0.
func (h *Host) VFAddress(ctx context.Context, pf string, n int) (string, error) {
	out, err := h.Run(ctx, fmt.Sprintf("readlink /sys/class/net/%s/device/virtfn%d", pf, n))
	return path.Base(strings.TrimSpace(out)), err
}

// HostdevXML returns the device XML for the VF at a PCI address. With a pair (the alias of a guest's virtio NIC, ua-net0) the device is
// the transient half of that pair; with "" it is a VF alone, for the bond of vm5 and the team of vm6.
func HostdevXML(pciAddress, alias, pair string) (string, error) {
	var domain, bus, slot, function string
	_, err := fmt.Sscanf(strings.NewReplacer(":", " ", ".", " ").Replace(pciAddress), "%s %s %s %s", &domain, &bus, &slot, &function)
	if err != nil {
		return "", fmt.Errorf("PCI address %q: %w", pciAddress, err)
	}
	teaming := ""
	if pair != "" {
		teaming = fmt.Sprintf("<teaming type='transient' persistent='%s'/>", pair)
	}
	return fmt.Sprintf("<hostdev mode='subsystem' type='pci' managed='no'>"+
		"<source><address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/></source>%s<alias name='%s'/></hostdev>",
		domain, bus, slot, function, teaming, alias), nil
}

// AttachVF manually gives VF n of a PF to a guest with virsh, as alias ua-vf0.
func (h *Host) AttachVF(ctx context.Context, vm, pf string, n int) error {
	address, err := h.VFAddress(ctx, pf, n)
	if err != nil {
		return err
	}
	pair := "ua-net0"
	if vm == "vm5" || vm == "vm6" {
		pair = ""
	}
	xml, err := HostdevXML(address, "ua-vf0", pair)
	if err != nil {
		return err
	}
	file := "/run/lab/" + vm + "-vf.xml"
	if err := h.WriteFile(ctx, file, xml); err != nil {
		return err
	}
	_, err = h.Run(ctx, fmt.Sprintf("ip link set %s vf %d mac %s && virsh -q attach-device %s %s --live", pf, n, MAC(vm), vm, file))
	return err
}

// DetachVF asks a guest to release the VF that AttachVF gave it. The guest may not have done so yet when it returns; see HasVF.
func (h *Host) DetachVF(ctx context.Context, vm string) error {
	_, err := h.Run(ctx, "virsh -q detach-device-alias "+vm+" ua-vf0 --live")
	return err
}

// HasVF reports whether libvirt lists a PCI device for a guest.
func (h *Host) HasVF(ctx context.Context, vm string) (bool, error) {
	out, err := h.Run(ctx, "virsh dumpxml "+vm)
	return strings.Contains(out, "<hostdev ") || strings.Contains(out, "<interface type='hostdev'"), err
}

// GuestVF returns the name and the carrier of the VF's device inside a guest; the name is "" while there is none.
func (h *Host) GuestVF(ctx context.Context, vm string) (name string, carrier bool, err error) {
	out, err := h.GuestExec(ctx, vm, `for d in /sys/class/net/*; do
		[ "$(basename "$(readlink "$d/device/driver")")" = igbvf ] && echo "${d##*/} $(cat "$d/carrier" 2>/dev/null || echo 0)"
	done; true`)
	if err != nil || out == "" {
		return "", false, err
	}
	fields := strings.Fields(out)
	return fields[0], len(fields) > 1 && fields[1] == "1", nil
}

// VFCount is the traffic of one VF, by the PF's own registers.
type VFCount struct {
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
}

// VFCounters reads the counters of all VFs of a PF from its registers. They are independent evidence for tests: no software on a host
// with igb can see them, since the driver does not expose them. They wrap at 32 bits.
func (h *Host) VFCounters(ctx context.Context, pf string) ([]VFCount, error) {
	out, err := h.Run(ctx, "labprobe vfcounters /sys/class/net/"+pf+"/device/resource0")
	if err != nil {
		return nil, err
	}
	var counts []VFCount
	err = json.Unmarshal([]byte(out), &counts)
	return counts, err
}

// Counter reads a counter of a network device of the host, such as rx_packets.
func (h *Host) Counter(ctx context.Context, dev, name string) (uint64, error) {
	out, err := h.Run(ctx, fmt.Sprintf("cat /sys/class/net/%s/statistics/%s", dev, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(out), 10, 64)
}
