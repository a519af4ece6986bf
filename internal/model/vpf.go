package model

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// VirtualPF is the definition of an SR-IOV physical function that QEMU emulates for a VM, with
// its VFs (Virtual PF, section 3). It names what should be; the domain in libvirt has the devices.
type VirtualPF struct {
	VM      VMID        `json:"vm"`
	VMName  string      `json:"vm_name"` // as it was last seen
	Name    string      `json:"name"`    // unique in the VM: "vpf0"
	Model   VPFModel    `json:"model"`
	Backend VPFBackend  `json:"backend"`
	Network string      `json:"network"` // the bridge that its taps are ports of; of backend vdpa a VDPAWant.Manager
	MAC     MAC         `json:"mac"`     // of the PF itself
	ARI     bool        `json:"ari,omitempty"`
	VFs     []VirtualVF `json:"vfs"` // VFs[i] is number i in the guest (virtfn<i>)
	Channel bool        `json:"channel,omitempty"`
	Defined time.Time   `json:"defined"`
	By      string      `json:"by,omitempty"` // who defined it
}

// VirtualVF is one of its VFs: what the host has set for it, and what the guest asked for since.
type VirtualVF struct {
	MAC   MAC        `json:"mac"` // that QEMU gives it
	Port  PortPolicy `json:"port"`
	Grant *VFGrant   `json:"grant,omitempty"` // nil: nobody in the guest has it
}

// VPFModel is the device that QEMU emulates.
type VPFModel string

// The models. Every virtual VF of virtio has a tap (or vDPA device) of its own; all of an igb share one.
const (
	VPFVirtio VPFModel = "virtio"
	VPFIGB    VPFModel = "igb"
)

// VPFBackend is what carries a virtual VF's frames on the host.
type VPFBackend string

// The backends.
const (
	BackendTap  VPFBackend = "tap"
	BackendVDPA VPFBackend = "vdpa"
)

// Bounds of a virtual PF.
const (
	MaxVirtualVFs    = 255 // that QEMU takes, with ARI
	MaxVirtualVFsIGB = 7   // that the emulated 82576 has
	MaxFunctionVFs   = 7   // beside the PF in one slot, without ARI
	MaxPortMACs      = 8
	MaxPortAddresses = 8
	MaxTrunkRanges   = 8
)

// PFAlias and VFAlias name its devices in the domain. libvirt wants "ua-" in front.
func (p *VirtualPF) PFAlias() string { return VPFAlias(p.Name, -1) }

// VFAlias is that of VF number i.
func (p *VirtualPF) VFAlias(i int) string { return VPFAlias(p.Name, i) }

// VPFAlias is the alias of a virtual PF (vf is -1) or of one of its VFs.
func VPFAlias(name string, vf int) string {
	if vf < 0 {
		return vpfPrefix + name + "-pf"
	}
	return fmt.Sprintf("%s%s-vf%d", vpfPrefix, name, vf)
}

const vpfPrefix = "ua-vpf-"

// ParseVPFAlias reads such an alias; vf is -1 for the PF itself.
func ParseVPFAlias(alias string) (name string, vf int, ok bool) {
	rest, ok := strings.CutPrefix(alias, vpfPrefix)
	i := strings.LastIndexByte(rest, '-')
	if !ok || i <= 0 {
		return "", 0, false
	}
	name, vf = rest[:i], -1
	if rest[i+1:] != "pf" {
		if _, err := fmt.Sscanf(rest[i+1:], "vf%d", &vf); err != nil || vf < 0 {
			return "", 0, false
		}
	}
	return name, vf, VPFAlias(name, vf) == alias
}

// PortPolicy is what the embedded switch holds a virtual VF to. The zero value lets it
// send untagged frames from its own MAC alone, as soon as somebody in the guest has it.
type PortPolicy struct {
	MACs      []MAC        `json:"macs,omitempty"`      // that it may send from beside its own
	VLAN      int          `json:"vlan,omitempty"`      // access: 1-4094; 0: none
	Trunk     VLANs        `json:"trunk,omitempty"`     // tags that it may send and receives itself; not with VLAN
	NoSpoof   bool         `json:"no_spoof,omitempty"`  // source MACs are not checked (spoof check off)
	CheckARP  bool         `json:"check_arp,omitempty"` // ARP and ND speak for its MACs and Addresses alone
	Addresses []netip.Addr `json:"addresses,omitempty"` // that it may send from; empty: any
	Link      LinkMode     `json:"link,omitempty"`
	Isolated  bool         `json:"isolated,omitempty"` // it reaches no other isolated port of the bridge
	SLA       SLA          `json:"sla,omitzero"`       // inside what the VM's virtual PF has
}

// LinkMode is what a virtual VF's link does.
type LinkMode string

// The modes.
const (
	LinkAuto LinkMode = ""     // up while somebody in the guest has it, or always where no channel is
	LinkUp   LinkMode = "up"   // always, as soon as the policy stands
	LinkDown LinkMode = "down" // never
)

// VFGrant is what somebody in the guest asked for and was given.
type VFGrant struct {
	Owner string     `json:"owner"`        // who holds it: a container and its interface, as the guest says
	Port  PortPolicy `json:"port"`         // as asked for, within host policy: counts instead of the host's
	MAC   MAC        `json:"mac,omitzero"` // that the pod's interface has, if not the VF's own
	Asked VFRequest  `json:"asked,omitzero"`
	Since time.Time  `json:"since"`
}

// VFRequest is what a guest asked for a virtual VF. The zero value, as a whole and of each field, asks for what the host has set.
type VFRequest struct {
	MAC       MAC          `json:"mac,omitzero"`
	VLAN      int          `json:"vlan,omitempty"`
	Trunk     VLANs        `json:"trunk,omitempty"`
	SpoofChk  *bool        `json:"spoof_check,omitempty"`
	CheckARP  *bool        `json:"check_arp,omitempty"`
	Isolated  *bool        `json:"isolated,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Down      bool         `json:"down,omitempty"` // the link is to be down
	Guarantee Rate         `json:"guarantee,omitzero"`
	Limit     Rate         `json:"limit,omitzero"`   // of what it sends
	Receive   Rate         `json:"receive,omitzero"` // the limit of what it receives
	Weight    float64      `json:"weight,omitempty"`
}

// Effective is what the switch holds the VF to now.
func (v *VirtualVF) Effective() PortPolicy {
	if v.Grant != nil {
		return v.Grant.Port
	}
	return v.Port
}

// SwitchPort is what stands, or should stand, on a tap. A frame from the guest belongs to the first Rule that has its source
// MAC; one that belongs to none is dropped, unless a Rule checks no source.
type SwitchPort struct {
	Tap      string       `json:"tap"`
	Bridge   string       `json:"bridge,omitempty"`
	Isolated bool         `json:"isolated,omitempty"`
	Rules    []SwitchRule `json:"rules"` // one, but of an igb, whose VFs share the tap
}

// SwitchRule is what one virtual VF may send and receive at a tap.
type SwitchRule struct {
	MACs      []MAC        `json:"macs"` // at least one
	VLAN      int          `json:"vlan,omitempty"`
	Trunk     VLANs        `json:"trunk,omitempty"`
	Spoof     bool         `json:"spoof,omitempty"` // any source MAC will do
	CheckARP  bool         `json:"check_arp,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Limit     Rate         `json:"limit,omitzero"`   // of what it sends, beside what the bandwidth controller lets the tap send
	Receive   Rate         `json:"receive,omitzero"` // of what it receives
}

// SwitchPortState is a SwitchPort as it is found on the host.
type SwitchPortState struct {
	SwitchPort
	Index    int          `json:"ifindex"`
	Detached Tri          `json:"detached"` // the tap has gone, or somebody has removed the programs
	Counts   []SwitchDrop `json:"counts"`   // by Rule; one more for frames that belong to none
}

// SwitchDrop counts frames of a Rule that were dropped, by reason, since the port was made.
type SwitchDrop struct {
	Spoof uint64 `json:"spoof"` // source MAC, ARP, ND or address that it may not use, or a group of bridges
	VLAN  uint64 `json:"vlan"`  // a tag that it may not use, or is not for it
	Rate  uint64 `json:"rate"`  // above Limit or Receive; what is above what the tap may carry is of its one rule, or of none
}
