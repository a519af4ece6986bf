package model

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// VirtualPF is the definition of an SR-IOV physical function that QEMU emulates for a VM, with its VFs (Virtual PF, section 3).
// It is the desired state; the domain in libvirt has the devices.
type VirtualPF struct {
	VM      VMID        `json:"vm"`
	VMName  string      `json:"vm_name"` // as last seen
	Name    string      `json:"name"`    // unique in the VM: "vpf0"
	Model   VPFModel    `json:"model"`
	Backend VPFBackend  `json:"backend"`
	Network string      `json:"network"` // the bridge that its taps are ports of; with backend vdpa a VDPAWant.Manager
	MAC     MAC         `json:"mac"`     // of the PF itself
	ARI     bool        `json:"ari,omitempty"`
	VFs     []VirtualVF `json:"vfs"` // VFs[i] is number i in the guest (virtfn<i>)
	Channel bool        `json:"channel,omitempty"`
	Defined time.Time   `json:"defined"`
	By      string      `json:"by,omitempty"` // who defined it
}

// VirtualVF is a VF of a virtual PF: what the host has configured for it, and what the guest has requested since.
type VirtualVF struct {
	MAC   MAC        `json:"mac"` // that QEMU gives it
	Port  PortPolicy `json:"port"`
	Grant *VFGrant   `json:"grant,omitempty"` // nil: nobody in the guest has it
}

// VPFModel is the device that QEMU emulates.
type VPFModel string

// Values of VPFModel. Every virtio virtual VF has its own tap (or vDPA device); those of an igb share one.
const (
	VPFVirtio VPFModel = "virtio"
	VPFIGB    VPFModel = "igb"
)

// VPFBackend is what carries a virtual VF's frames on the host.
type VPFBackend string

// Values of VPFBackend.
const (
	BackendTap  VPFBackend = "tap"
	BackendVDPA VPFBackend = "vdpa"
)

// Bounds of a virtual PF.
const (
	MaxVirtualVFs    = 255 // that QEMU supports, with ARI
	MaxVirtualVFsIGB = 7   // that the emulated 82576 has
	MaxFunctionVFs   = 7   // beside the PF in one slot, without ARI
	MaxPortMACs      = 8
	MaxPortAddresses = 8
	MaxTrunkRanges   = 8
)

// PFAlias returns the alias of the PF itself in the domain. libvirt requires the prefix "ua-".
func (p *VirtualPF) PFAlias() string { return VPFAlias(p.Name, -1) }

// VFAlias returns the alias of VF number i.
func (p *VirtualPF) VFAlias(i int) string { return VPFAlias(p.Name, i) }

// VPFAlias returns the alias of a virtual PF (vf is -1) or of one of its VFs.
func VPFAlias(name string, vf int) string {
	if vf < 0 {
		return vpfPrefix + name + "-pf"
	}
	return fmt.Sprintf("%s%s-vf%d", vpfPrefix, name, vf)
}

const vpfPrefix = "ua-vpf-"

// ParseVPFAlias parses such an alias; vf is -1 for the PF itself.
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

// PortPolicy is the policy that the embedded switch enforces on a virtual VF. The zero value lets it send untagged frames from
// its own MAC only, as soon as somebody in the guest has it.
type PortPolicy struct {
	MACs         []MAC        `json:"macs,omitempty"`      // that it may send from, beside its own
	VLAN         int          `json:"vlan,omitempty"`      // access: 1-4094; 0: none
	Trunk        VLANs        `json:"trunk,omitempty"`     // VLANs of tagged frames that it may send and receive; not with VLAN
	NoSpoofCheck bool         `json:"no_spoof,omitempty"`  // source MACs are not checked (spoof check off)
	CheckARP     bool         `json:"check_arp,omitempty"` // its ARP and ND may announce only its MACs and Addresses
	Addresses    []netip.Addr `json:"addresses,omitempty"` // that it may send from; empty: any
	Link         LinkMode     `json:"link,omitempty"`
	Isolated     bool         `json:"isolated,omitempty"` // it reaches no other isolated port of the bridge
	SLA          SLA          `json:"sla,omitzero"`       // within what the VM's virtual PF has
}

// PortFields are settings of a PortPolicy, as far as a guest's grant has them too.
type PortFields uint

// The settings. An access VLAN and a trunk are one.
const (
	PortMACs PortFields = 1 << iota
	PortVLANs
	PortSpoof
	PortARP
	PortAddresses
	PortIsolated
	PortGuarantee
	PortLimit
	PortReceive
	PortWeight
)

// LinkMode is when a virtual VF's link is up.
type LinkMode string

// Values of LinkMode.
const (
	LinkAuto LinkMode = ""     // up while somebody in the guest has it, or always without a channel
	LinkUp   LinkMode = "up"   // always, once the policy is in place
	LinkDown LinkMode = "down" // never
)

// VFGrant is what somebody in the guest requested and was granted.
type VFGrant struct {
	Owner string     `json:"owner"`        // who holds it: a container and its interface, as the guest reports
	Port  PortPolicy `json:"port"`         // as requested, within host policy: replaces the host's
	MAC   MAC        `json:"mac,omitzero"` // of the pod's interface, if not the VF's own
	Asked VFRequest  `json:"asked,omitzero"`
	Since time.Time  `json:"since"`
}

// VFRequest is what a guest requested for a virtual VF. The zero value, as a whole and of each field, requests what the host has
// configured.
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
	Limit     Rate         `json:"limit,omitzero"`   // on what it sends
	Receive   Rate         `json:"receive,omitzero"` // on what it receives
	Weight    float64      `json:"weight,omitempty"`
}

// Effective returns the policy that the switch enforces on the VF now.
func (v *VirtualVF) Effective() PortPolicy {
	if v.Grant != nil {
		return v.Grant.Port
	}
	return v.Port
}

// SwitchPort is the actual or desired state of a tap's port. A frame from the guest belongs to the first Rule that has its source
// MAC; a frame that belongs to none is dropped, unless a Rule does not check the source.
type SwitchPort struct {
	Tap      string       `json:"tap"`
	Bridge   string       `json:"bridge,omitempty"`
	Isolated bool         `json:"isolated,omitempty"`
	Rules    []SwitchRule `json:"rules"` // one, except for an igb, whose VFs share the tap
}

// SwitchRule is what one virtual VF may send and receive at a tap.
type SwitchRule struct {
	MACs         []MAC        `json:"macs"` // at least one
	VLAN         int          `json:"vlan,omitempty"`
	Trunk        VLANs        `json:"trunk,omitempty"`
	NoSpoofCheck bool         `json:"spoof,omitempty"` // it may send from any source MAC
	CheckARP     bool         `json:"check_arp,omitempty"`
	Addresses    []netip.Addr `json:"addresses,omitempty"`
	Limit        Rate         `json:"limit,omitzero"`   // on what it sends, beside the bandwidth controller's limit on the tap
	Receive      Rate         `json:"receive,omitzero"` // on what it receives
}

// SwitchPortState is a SwitchPort as found on the host.
type SwitchPortState struct {
	SwitchPort
	Index    int          `json:"ifindex"`
	Detached Tri          `json:"detached"` // the tap is gone, or somebody has removed the programs
	Counts   []SwitchDrop `json:"counts"`   // by Rule; one more for frames that belong to none
}

// SwitchDrop counts the dropped frames of a Rule, by reason, since the port was created.
type SwitchDrop struct {
	Spoof uint64 `json:"spoof"` // a source MAC, ARP, ND or address that it may not use, or a group of bridges
	VLAN  uint64 `json:"vlan"`  // a tag that it may not use, or that is not for it
	Rate  uint64 `json:"rate"`  // above Limit or Receive; frames above the tap's limit count for its only rule, or for none
}
