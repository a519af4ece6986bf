package ovs

import (
	"fmt"
	"strings"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// bonded is the Uplink of a PF in a bond of the kernel that is a port of Open vSwitch.
func bonded(pf *model.PF, bond *netdev.Link, br *bridgeRow) model.Uplink {
	return model.Uplink{
		Switch: br.Name, Port: bond.Name,
		Why: fmt.Sprintf("%s is in bond %s of mode %s, which is a port of Open vSwitch: frames for a VF would have to leave by the VF's own PF",
			pf.Name, bond.Name, bond.Bond.Mode),
		Remedy: "make the PF a port of its own, or connect an active-backup bond and the VMs' taps by a Linux bridge",
	}
}

// offloads is a note on NICs that forward frames of Open vSwitch themselves.
func (t *topology) offloads() string {
	if !t.offload {
		return ""
	}
	return "Open vSwitch lets the NIC forward frames itself (hw-offload=true), with which Sluice was never tried; if moves lose frames or " +
		"limits in packets/s do not hold: ovs-vsctl set Open_vSwitch . other_config:hw-offload=false, then restart ovs-vswitchd"
}

// refuse returns why frames cannot be steered to a PF's VFs, and the remedy.
func (s *Switch) refuse(t *topology, pf *model.PF, p *port) (why, remedy string) {
	b := p.bridge
	switch {
	case t.neutron[b.Name]:
		return neutronAgent(pf, b.Name)
	case p.kind != "":
		return fmt.Sprintf("%s is a port of type %s, which no interface of the host is", pf.Name, p.kind),
			"use Open vSwitch's kernel datapath, or Sluice in mode observe"
	case inUserspace(b) && !s.userspace:
		return fmt.Sprintf("the datapath of %s is in user space, where no frame passes the programs that send it to a VF", b.Name),
			"use Open vSwitch's kernel datapath: ovs-vsctl set bridge " + b.Name + " datapath_type=system"
	case managed(b):
		return fmt.Sprintf("a controller decides where %s sends frames, and a VF of %s would go round what it forbids", b.Name, pf.Name),
			"use a bridge without controller and with fail_mode standalone, or OVN with a NIC in mode switchdev"
	case pf.Eswitch == model.EswitchSwitchdev:
		return fmt.Sprintf("%s is in mode switchdev, in which each VF has a port of its own, which Sluice steers under OVN only",
				pf.Name),
			fmt.Sprintf("use mode legacy, while %[1]s has no VFs: echo 0 > /sys/class/net/%[1]s/device/sriov_numvfs; "+
				"devlink dev eswitch set pci/%[2]s mode legacy", pf.Name, pf.Address)
	case len(p.Interfaces) > 1:
		return fmt.Sprintf("%s is in bond %s of Open vSwitch, which may send frames through another NIC than that of the VF", pf.Name, p.Name),
			"make the PF a port of its own, or use an active-backup bond of the kernel in a Linux bridge"
	case p.Tag != nil || p.VLANMode != nil && *p.VLANMode != "trunk":
		return fmt.Sprintf("%s is an access port of VLAN %d: what a VF sends does not pass it and would carry no tag", pf.Name, tagOf(p)),
			"make it a trunk, and the VMs' ports access ports: ovs-vsctl clear port " + pf.Name + " tag vlan_mode"
	}
	return "", ""
}

// managed reports whether a controller decides where a bridge sends frames.
func managed(b *bridgeRow) bool {
	return len(b.Controller) > 0 || b.FailMode != nil && *b.FailMode == "secure"
}

// neutronAgent is why no VF is used where Neutron's Open vSwitch agent writes the flows.
func neutronAgent(pf *model.PF, what string) (why, remedy string) {
	return fmt.Sprintf("Neutron's Open vSwitch agent controls %s, and a VF of %s would go round its flows", what, pf.Name),
		"use ML2/OVN with a NIC in mode switchdev, or Sluice in mode observe"
}

// inUserspace reports whether the datapath of a bridge is in user space.
func inUserspace(b *bridgeRow) bool { return b.Datapath == "netdev" }

// trunk reports whether a port carries tagged frames.
func trunk(p *port) bool {
	return len(p.Trunks) > 0 || p.VLANMode != nil && *p.VLANMode != "access"
}

// trunkPort is why no VF can stand in for a trunk port.
func trunkPort(tap string) string {
	return "tap " + tap + " is a trunk port, and a VF carries one VLAN; make it an access port (ovs-vsctl clear port " + tap +
		" trunks vlan_mode, and in the VM's definition), or forbid VFs to this VM (forbid: true in sluice.yaml)"
}

// ofNeutron reports whether an interface is one of those by which Neutron's Open vSwitch agent connects its bridges.
func ofNeutron(i *interfaceRow) bool {
	return i.Type == "patch" && (strings.HasPrefix(i.Name, "int-") || strings.HasPrefix(i.Name, "phy-") || i.Name == "patch-tun" ||
		i.Name == "patch-int")
}

// dpdkPort returns the port by which DPDK drives a PCI device, false if none does.
func (t *topology) dpdkPort(at model.PCIAddress) (name string, p port, ok bool) {
	for _, i := range t.interfaces {
		dev, _, _ := strings.Cut(i.Options["dpdk-devargs"], ",")
		if p, isPort := t.ports[i.Name]; isPort && dev == string(at) && at != "" {
			return i.Name, p, true
		}
	}
	return "", port{}, false
}
