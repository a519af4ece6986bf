package libvirt

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"sluice/internal/model"
)

// parseDomain parses a domain's live XML, which does not contain State and Started. A source network whose switch the XML does not name
// stays in NIC.Network as "net:NAME".
func parseDomain(doc string) (Domain, error) {
	var x libvirtxml.Domain
	if err := x.Unmarshal(doc); err != nil {
		return Domain{}, fmt.Errorf("read domain XML: %w", err)
	}
	found, err := scanDevices(doc)
	if err != nil {
		return Domain{}, fmt.Errorf("read domain XML: %w", err)
	}
	d := Domain{aliases: found.aliases}
	d.ID, d.Name = model.VMID(x.UUID), x.Name
	d.Ports = freeSlots(found.use, &x)
	d.NUMANode, d.VCPUs = numaNode(x.NUMATune), vcpus(x.VCPU)
	if x.Devices == nil {
		return d, nil
	}
	d.Ready = agentState(x.Devices.Channels)
	for i := range x.Devices.Interfaces {
		if err := d.addInterface(&x.Devices.Interfaces[i]); err != nil {
			return Domain{}, err
		}
		d.noteMAC(&x.Devices.Interfaces[i])
	}
	for i := range x.Devices.Hostdevs {
		d.addHostdev(&x.Devices.Hostdevs[i])
	}
	return d, nil
}

// noteMAC takes down the MAC of an interface of whatever kind.
func (d *Domain) noteMAC(x *libvirtxml.DomainInterface) {
	if x.MAC == nil {
		return
	}
	mac, err := model.ParseMAC(x.MAC.Address)
	if err != nil {
		return
	}
	if d.macs == nil {
		d.macs = map[model.MAC]string{}
	}
	d.macs[mac] = cmp.Or(aliasName(x.Alias), "an interface")
}

// VHostUser is model.NIC.Refused of a NIC whose frames go between QEMU and a switch in user space.
const VHostUser = "it is a vhost-user interface, whose frames pass no interface of the host; " +
	"use <interface type='bridge'> with <virtualport type='openvswitch'/> on a bridge of Open vSwitch's kernel datapath"

const unresolved = "net:"

// addInterface adds virtio NICs, hostdevs, and the functions of virtual PFs, which may be of another model.
func (d *Domain) addInterface(x *libvirtxml.DomainInterface) error {
	if x.Source != nil && x.Source.Hostdev != nil {
		return d.addHostdevInterface(x)
	}
	name, vf, function := model.ParseVPFAlias(aliasName(x.Alias))
	if x.Model == nil || x.MAC == nil || !function && !strings.HasPrefix(x.Model.Type, "virtio") {
		return nil
	}
	mac, err := model.ParseMAC(x.MAC.Address)
	if err != nil {
		return err
	}
	n := model.NIC{
		Alias: aliasName(x.Alias), MAC: mac,
		Network: sourceNetwork(x.Source), VLAN: vlanTag(x.VLan),
		FreePort: model.TriOf(d.Ports > 0),
	}
	switch {
	case x.Source != nil && x.Source.VHostUser != nil: // its target is the switch's port, and no interface of the host
		n.Refused = VHostUser
	case x.Target != nil:
		n.Tap = x.Target.Dev
	}
	if x.Teaming != nil && x.Teaming.Type == "persistent" {
		n.Failover = model.FailoverTeaming
	}
	if function {
		n.VirtualPF, n.Function = name, vf+1
		n.Carrier = model.TriOf(x.Link == nil || x.Link.State != "down")
	}
	d.NICs = append(d.NICs, n)
	return nil
}

func (d *Domain) addHostdevInterface(x *libvirtxml.DomainInterface) error {
	if x.Source.Hostdev.PCI == nil {
		return nil
	}
	h := Hostdev{
		Alias: aliasName(x.Alias), Managed: x.Managed == "yes", Interface: true,
		Address: sourceAddress(x.Source.Hostdev.PCI), TeamingPersistent: transientOf(x.Teaming),
	}
	if x.MAC != nil {
		mac, err := model.ParseMAC(x.MAC.Address)
		if err != nil {
			return err
		}
		h.MAC = mac
	}
	d.Hostdevs = append(d.Hostdevs, h)
	return nil
}

func (d *Domain) addHostdev(x *libvirtxml.DomainHostdev) {
	if x.SubsysPCI == nil {
		return
	}
	d.Hostdevs = append(d.Hostdevs, Hostdev{
		Alias: aliasName(x.Alias), Managed: x.Managed == "yes",
		Address: sourceAddress(x.SubsysPCI.Source), TeamingPersistent: transientOf(x.SubsysPCI.Teaming),
	})
}

func aliasName(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	return a.Name
}

func transientOf(t *libvirtxml.DomainInterfaceTeaming) string {
	if t == nil || t.Type != "transient" {
		return ""
	}
	return t.Persistent
}

// sourceNetwork returns the name of the switch, which the live XML of an interface of type network usually contains too. See also
// domxml.SwitchOf, which does this for XML that is edited.
func sourceNetwork(s *libvirtxml.DomainInterfaceSource) string {
	switch {
	case s == nil:
		return ""
	case s.Bridge != nil:
		return s.Bridge.Bridge
	case s.Network != nil && s.Network.Bridge != "":
		return s.Network.Bridge
	case s.Network != nil && s.Network.Network != "":
		return unresolved + s.Network.Network
	}
	return ""
}

// vlanTag returns the tag of an access port, 0 for a trunk.
func vlanTag(v *libvirtxml.DomainInterfaceVLan) int {
	if v == nil || len(v.Tags) != 1 || v.Trunk == "yes" {
		return 0
	}
	return int(v.Tags[0].ID)
}

func sourceAddress(s *libvirtxml.DomainHostdevSubsysPCISource) model.PCIAddress {
	if s == nil || s.Address == nil {
		return ""
	}
	a := s.Address
	return model.PCIAddress(fmt.Sprintf("%04x:%02x:%02x.%x", num(a.Domain), num(a.Bus), num(a.Slot), num(a.Function)))
}

func num(p *uint) uint {
	if p == nil {
		return 0
	}
	return *p
}

// agentState reports whether the guest has opened the agent's channel.
func agentState(channels []libvirtxml.DomainChannel) model.Tri {
	for _, c := range channels {
		if c.Target == nil || c.Target.VirtIO == nil || c.Target.VirtIO.Name != "org.qemu.guest_agent.0" {
			continue
		}
		return model.TriOf(c.Target.VirtIO.State == "connected")
	}
	return model.Unknown
}

// numaNode returns the single node to which the domain's memory is bound, or -1.
func numaNode(n *libvirtxml.DomainNUMATune) int {
	if n == nil || n.Memory == nil {
		return -1
	}
	if m := n.Memory.Mode; m != "" && m != "strict" && m != "restrictive" {
		return -1
	}
	node, err := strconv.Atoi(n.Memory.Nodeset)
	if err != nil || node < 0 {
		return -1
	}
	return node
}

func vcpus(v *libvirtxml.DomainVCPU) int {
	switch {
	case v == nil:
		return 0
	case v.Current > 0:
		return int(v.Current)
	}
	return int(v.Value)
}

// deviceXML returns the hot-plug document of a VF.
func deviceXML(s HostdevSpec) (string, error) {
	addr, err := parseAddress(s.Address)
	if err != nil {
		return "", err
	}
	dev := libvirtxml.DomainHostdev{
		Managed: "no",
		Alias:   &libvirtxml.DomainAlias{Name: s.Alias},
		SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
			Driver: &libvirtxml.DomainHostdevSubsysPCIDriver{Name: "vfio"},
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: addr},
		},
	}
	if s.TeamingPersistent != "" {
		dev.SubsysPCI.Teaming = &libvirtxml.DomainInterfaceTeaming{Type: "transient", Persistent: s.TeamingPersistent}
	}
	return dev.Marshal()
}

func parseAddress(a model.PCIAddress) (*libvirtxml.DomainAddressPCI, error) {
	var dom, bus, slot, fn uint
	_, err := fmt.Sscanf(string(a), "%x:%x:%x.%x", &dom, &bus, &slot, &fn)
	if err != nil || string(a) != fmt.Sprintf("%04x:%02x:%02x.%x", dom, bus, slot, fn) {
		return nil, fmt.Errorf("PCI address %q: want the form 0000:01:10.3", a)
	}
	return &libvirtxml.DomainAddressPCI{Domain: &dom, Bus: &bus, Slot: &slot, Function: &fn}, nil
}
