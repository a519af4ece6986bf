package api

import "time"

// VirtualPF is an SR-IOV physical function that QEMU emulates for a VM: GET /v1/vpf, sorted by VM and name.
type VirtualPF struct {
	VM        string            `json:"domain"`
	ID        string            `json:"uuid"`
	Name      string            `json:"name"`
	Model     string            `json:"model"`   // "virtio" or "igb"
	Backend   string            `json:"backend"` // "tap" or "vdpa"
	Network   string            `json:"network"` // the bridge
	MAC       string            `json:"mac"`
	Channel   bool              `json:"channel"` // its guest can request virtual VFs
	Defined   time.Time         `json:"defined"`
	By        string            `json:"by,omitempty"`  // who defined it
	Running   bool              `json:"running"`       // its VM runs, with all of its functions
	Why       string            `json:"why,omitempty"` // why it is not running
	Functions []VirtualFunction `json:"functions"`     // the PF itself, then VF 0, 1, ...
	Problems  []Problem         `json:"problems"`
}

// VirtualFunction is a virtual PF itself or one of its VFs.
type VirtualFunction struct {
	VF       int        `json:"vf"` // -1: the PF itself
	Alias    string     `json:"alias"`
	MAC      string     `json:"mac"`
	Tap      string     `json:"tap,omitempty"`
	Link     string     `json:"link"`            // as the guest sees it: "up", "down", "unknown"
	Stands   bool       `json:"stands"`          // the policy, read back from the kernel, is as configured
	Owner    string     `json:"owner,omitempty"` // who in the guest holds it
	Policy   PortPolicy `json:"policy"`          // the one in force: what the guest was granted, else what the host has set
	Drops    PortDrops  `json:"dropped_packets"`
	Problems []Problem  `json:"problems"`
	Why      string     `json:"why,omitempty"` // why its link is down
}

// LinkAuto is the link setting that is up while somebody in the guest holds the virtual VF.
const LinkAuto = "auto"

// PortPolicy is what the embedded switch enforces on a virtual VF. Rates are written with their units.
type PortPolicy struct {
	MACs       []string `json:"macs,omitempty"`      // that it may send from besides its own
	VLAN       int      `json:"vlan,omitempty"`      // access; 0: none
	Trunk      string   `json:"trunk,omitempty"`     // VLANs that the guest tags itself: "10-20,30"
	SpoofCheck bool     `json:"spoof_check"`         // it may send only from its MACs
	CheckARP   bool     `json:"check_arp"`           // ARP and ND packets may carry only its MACs and addresses
	Addresses  []string `json:"addresses,omitempty"` // IP addresses that it may send from; empty: any
	Link       string   `json:"link"`                // LinkAuto, "up" or "down"
	Isolated   bool     `json:"isolated"`            // it cannot reach other isolated ports of its bridge
	Guarantee  string   `json:"guarantee,omitempty"` // out of the guarantee of its virtual PF
	Limit      string   `json:"limit,omitempty"`
	Receive    string   `json:"receive,omitempty"`
	Weight     float64  `json:"weight,omitempty"`
}

// PortDrops counts frames that the switch dropped, by reason, since the port was created.
type PortDrops struct {
	Spoof uint64 `json:"spoof"` // source MAC, ARP, ND or address that it may not use
	VLAN  uint64 `json:"vlan"`
	Rate  uint64 `json:"rate"`
}

// DefineVPF is the body of POST /v1/vpf/define; the answer is the VirtualPF. The VM must be shut off.
type DefineVPF struct {
	VM        string `json:"vm"`             // name or UUID
	Name      string `json:"name,omitempty"` // "": vpf0
	VFs       int    `json:"vfs"`
	Model     string `json:"model,omitempty"`   // "": virtio
	Backend   string `json:"backend,omitempty"` // "": tap
	Network   string `json:"network"`
	ARI       bool   `json:"ari,omitempty"`        // more VFs than one slot has functions
	NoChannel bool   `json:"no_channel,omitempty"` // its guest cannot make requests, and the VFs' links are always up
}

// UndefineVPF is the body of POST /v1/vpf/undefine. The VM must be shut off.
type UndefineVPF struct {
	VM   string `json:"vm"`
	Name string `json:"name,omitempty"` // "": the VM's only one
}

// SetVPF is the body of POST /v1/vpf/set. Omitted fields stay unchanged.
type SetVPF struct {
	VM   string     `json:"vm"`
	Name string     `json:"name,omitempty"` // "": the VM's only one
	VFs  []int      `json:"vfs,omitempty"`  // empty: every VF
	Set  PortChange `json:"set"`
}

// PortChange changes parts of a PortPolicy: an empty string or list clears a part, null leaves it unchanged.
type PortChange struct {
	MACs       *[]string `json:"macs,omitempty"`
	VLAN       *int      `json:"vlan,omitempty"`
	Trunk      *string   `json:"trunk,omitempty"`
	SpoofCheck *bool     `json:"spoof_check,omitempty"`
	CheckARP   *bool     `json:"check_arp,omitempty"`
	Addresses  *[]string `json:"addresses,omitempty"`
	Link       *string   `json:"link,omitempty"`
	Isolated   *bool     `json:"isolated,omitempty"`
	Guarantee  *string   `json:"guarantee,omitempty"`
	Limit      *string   `json:"limit,omitempty"`
	Receive    *string   `json:"receive,omitempty"`
	Weight     *float64  `json:"weight,omitempty"`
}
