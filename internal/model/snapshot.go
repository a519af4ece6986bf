package model

import (
	"cmp"
	"time"
)

// Snapshot is what was seen of the world at one moment.
type Snapshot struct {
	Time      time.Time  `json:"time"`
	Read      time.Time  `json:"read"` // when what changes slowly (VF settings, filters) was read: later changes may not show
	PFs       []PF       `json:"pfs"`
	VMs       []VM       `json:"vms"`
	Limited   []TapLimit `json:"limited,omitempty"`    // taps of no NIC of any VM that have limits of ours, and what is left of some
	Ports     []TapLimit `json:"ports,omitempty"`      // taps of no virtual PF that are ports of the embedded switch, and what is left of some
	DualPaths []DualPath `json:"dual_paths,omitempty"` // those that belong to no NIC of any VM; the others show as NIC.DualPath
	Routes    []Route    `json:"routes,omitempty"`     // to VFs of managed PFs, for MACs that no NIC of any VM has; the others show as NIC.Route
	Problems  []Problem  `json:"problems,omitempty"`   // what could not be read, and what that means
}

// Problem is something that could not be observed or is set up wrongly. Subject is
// a VM name, a VF, a PF or "" for the host; Remedy says what a person can do.
type Problem struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"`
	Info    bool   `json:"info,omitempty"` // only worth knowing: it may be meant to be, or is in the nature of the hardware
}

// Problems counts those of a list that are more than worth knowing.
func Problems(list []Problem) (n int) {
	for i := range list {
		if !list[i].Info {
			n++
		}
	}
	return n
}

// Route says where a switch sends the frames for a MAC, because somebody told it to: a static
// entry of a Linux bridge, say.
type Route struct {
	Network string `json:"network"` // the switch
	MAC     MAC    `json:"mac"`
	Port    string `json:"port"`
	VLAN    int    `json:"vlan,omitempty"`
}

// DualPath is both paths to a guest receiving what its switch has for it: its tap and the VFs of a PF.
type DualPath struct {
	Tap      string `json:"tap"`
	MAC      MAC    `json:"mac"`
	PF       string `json:"pf"`
	VLAN     int    `json:"vlan,omitempty"`
	Kind     string `json:"kind,omitempty"` // Uplink.Kind of what opened it
	Detached Tri    `json:"detached"`       // the tap has gone: this is only what is left
}

// TapLimit is a tap that stands limited, or is a port of the embedded switch.
type TapLimit struct {
	Tap      string `json:"tap"`
	Detached Tri    `json:"detached"` // the tap has gone: nothing is held any more
}

// PF is a physical function that has, or may have, VFs.
type PF struct {
	Name      string      `json:"name"`
	Index     int         `json:"ifindex"`
	Address   PCIAddress  `json:"pci_address"`
	Driver    string      `json:"driver"`
	MAC       MAC         `json:"mac"`
	Network   string      `json:"network"` // the bridge it is behind, or the label the config gives it
	Uplink    Uplink      `json:"uplink,omitzero"`
	NUMANode  int         `json:"numa_node"` // -1: unknown
	LinkUp    bool        `json:"link_up"`
	Speed     uint64      `json:"speed_bits"`             // bits/s, 0: unknown
	Carries   uint64      `json:"carries_bits,omitempty"` // bits/s: what the config says that its link carries where that is less; 0: its speed
	NumVFs    int         `json:"num_vfs"`
	TotalVFs  int         `json:"total_vfs"`
	Caps      Caps        `json:"caps"`
	Managed   bool        `json:"managed"` // the config lists it
	VFs       []VF        `json:"vfs"`
	Eswitch   EswitchMode `json:"eswitch,omitempty"`
	SelfFDB   []MAC       `json:"self_fdb,omitempty"`   // unicast filters that someone gave the PF itself (`bridge fdb ... self`)
	SelfSlots int         `json:"self_slots,omitempty"` // how many such filters the driver takes, 0: unknown
}

// EswitchMode is the mode of the NIC's embedded switch, named as `devlink dev eswitch show` does.
type EswitchMode string

// The modes of an embedded switch.
const (
	EswitchUnknown   EswitchMode = ""          // the driver has no such modes, or does not tell
	EswitchLegacy    EswitchMode = "legacy"    // the NIC steers frames to VFs by their MAC and VLAN
	EswitchSwitchdev EswitchMode = "switchdev" // the host steers them, through a representor of each VF: without one a VF is cut off
)

// Uplink is how a PF is connected to the switch that the VMs' taps are in.
type Uplink struct {
	Kind   string `json:"kind,omitempty"`   // of switch and NIC, by what steers it: "linux-bridge"; "": nothing can
	Switch string `json:"switch,omitempty"` // the bridge, "" for none
	Port   string `json:"port,omitempty"`   // its port that leads to the PF: the PF, or the bond that the PF is in
	// Representors says that each VF has a port of its own in the switch. Then all that a VF sends or gets passes the switch, and
	// the PF needs no filters; with a legacy NIC it does, for frames of its VFs to reach the host.
	Representors bool   `json:"representors,omitempty"`
	Why          string `json:"why,omitempty"`    // why no VM can use VFs of this PF, "" when nothing is in the way
	Passes       bool   `json:"passes,omitempty"` // what Why says may pass by itself, as when a bond changes its active port
	Remedy       string `json:"remedy,omitempty"` // what a person can do about that
}

// Port is the port of its switch that leads to the PF.
func (p *PF) Port() string { return cmp.Or(p.Uplink.Port, p.Name) }

// PortOf is the port of the PF's switch that frames for one of its VFs leave through.
func (p *PF) PortOf(vf *VF) string { return cmp.Or(vf.Port, p.Port()) }

// Caps are the abilities of a PF's driver for its VFs.
type Caps struct {
	MaxTxRate  Tri `json:"max_tx_rate"`
	MinTxRate  Tri `json:"min_tx_rate"`
	VFCounters Tri `json:"vf_counters"` // Yes only where the driver really counts: zeros are emitted by all
	Trust      Tri `json:"trust"`
}

// Owner says whose a VF is.
type Owner string

// The owners of a VF.
const (
	OwnerFree    Owner = "free"    // in Sluice's pool, held by nobody
	OwnerSluice  Owner = "sluice"  // attached to a VM by Sluice (its hostdev alias says so)
	OwnerForeign Owner = "foreign" // somebody else's: outside the pool, attached by others, or in use by the host
)

// NotInPool is the OwnerWhy of a VF that `vfs:` leaves to others: that is meant to be.
const NotInPool = "not in Sluice's pool"

// SetAside is why a VF is foreign that `sluice qualify` has taken out of the pool.
const SetAside = "set aside for `sluice qualify`; if none is at work, `sluice qualify --restore` gives it back"

// PerhapsAside is why a VF is foreign of which it cannot be told whether that has taken it.
const PerhapsAside = "perhaps set aside for `sluice qualify`, whose journal cannot be read; `sluice doctor` says what to do"

// VF is one virtual function as the PF's driver, sysfs and libvirt show it.
type VF struct {
	ID         VFID       `json:"id"`
	Address    PCIAddress `json:"pci_address"`
	Port       string     `json:"port,omitempty"` // its own port of the PF's switch, where it has one: its representor
	Driver     string     `json:"driver"`         // driver bound on the host: "vfio-pci", "igbvf", "" for none
	MAC        MAC        `json:"mac"`            // the administrative MAC, zero when none is set
	VLAN       int        `json:"vlan"`
	MaxTxRate  uint64     `json:"max_tx_rate_bits"` // bits/s, 0: no limit
	MinTxRate  uint64     `json:"min_tx_rate_bits"`
	SpoofCheck Tri        `json:"spoof_check"`
	Trust      Tri        `json:"trust"`
	Owner      Owner      `json:"owner"`
	OwnerWhy   string     `json:"owner_why,omitempty"` // for foreign ones: what shows it
	Holder     VMID       `json:"holder,omitempty"`
	InGuest    Tri        `json:"in_guest"` // a guest driver has the VF open (its interrupts are routed)
}

// VMState is what matters of a domain's state.
type VMState string

// The states of a VM.
const (
	VMRunning   VMState = "running"
	VMPaused    VMState = "paused"
	VMMigrating VMState = "migrating"
	VMStopped   VMState = "stopped"
)

// VM is a libvirt domain.
type VM struct {
	ID       VMID      `json:"uuid"`
	Name     string    `json:"name"`
	State    VMState   `json:"state"`
	Started  time.Time `json:"started"` // when it was first seen running
	Ready    Tri       `json:"ready"`   // the guest OS answers (agent channel connected); Unknown without agent
	NUMANode int       `json:"numa_node"`
	VCPUs    int       `json:"vcpus"`
	NICs     []NIC     `json:"nics"`
	Ports    int       `json:"free_ports,omitempty"` // free hot-plug slots, one for each further VF; 0: none, or not counted (see the NICs' FreePort)
	SLAs     []NICSLA  `json:"slas,omitempty"`       // what the domain's metadata asks for
	InGuest  Tri       `json:"in_guest_limits"`      // limits can be set in the guest, through its agent; Unknown: not tried, or not asked for
	CPU      float64   `json:"cpu"`                  // host CPUs in use, 0..vCPUs; NaN-free, 0 when unknown
	CPUKnown bool      `json:"cpu_known"`
}

// Failover says how a guest falls back from a VF to virtio.
type Failover string

// The kinds of failover.
const (
	FailoverNone    Failover = ""
	FailoverTeaming Failover = "teaming" // libvirt <teaming>: the guest's net_failover
	FailoverBond    Failover = "bond"    // active-backup bond set up in the guest
)

// NIC is a virtio interface of a VM, with the VF behind it if there is one: the pair.
type NIC struct {
	Alias    string   `json:"alias"`
	MAC      MAC      `json:"mac"`
	Tap      string   `json:"tap"`
	TapIndex int      `json:"tap_ifindex"`
	Network  string   `json:"network"` // the bridge its tap is a port of
	VLAN     int      `json:"vlan"`
	Failover Failover `json:"failover"`
	FreePort Tri      `json:"free_port"` // a free hot-plug slot exists
	LinkUp   Tri      `json:"link_up"`   // the tap is up and in its bridge: the virtio path can carry
	VF       VFID     `json:"vf"`        // NoVF when none
	VFAlias  string   `json:"vf_alias,omitempty"`
	VFOwner  Owner    `json:"vf_owner,omitempty"`
	Route    string   `json:"route,omitempty"`     // the port of its switch that its frames are sent to; "" where nobody told the switch
	DualPath bool     `json:"dual_path,omitempty"` // both paths receive its frames: a move is under way, or did not end well
	// A function of a virtual PF is no pair: it never has a VF behind it.
	VirtualPF string  `json:"virtual_pf,omitempty"` // whose function it is
	Function  int     `json:"function,omitempty"`   // 0: the PF itself; n: its VF number n-1
	Carrier   Tri     `json:"carrier,omitempty"`    // of a function: QEMU lets frames through; without it none passes, either way
	Share     SLA     `json:"share,omitzero"`       // what it is promised and allowed inside what its virtual PF has
	Moved     *Moved  `json:"moved,omitempty"`      // of a function that has a tap
	Virtio    Traffic `json:"virtio"`
	VFPath    Traffic `json:"vf_path"`
}

// Moved is what a tap has moved since it was made. rx is what the guest received; of what it sent, that which was
// dropped at the tap is part.
type Moved struct {
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
}

// Load is what the pair moved on both paths, in both directions.
func (n *NIC) Load() (pps, bytes float64, known bool) {
	if !n.Virtio.Known || (n.VF != NoVF && !n.VFPath.Known) {
		return 0, 0, false
	}
	pps = n.Virtio.RxPPS + n.Virtio.TxPPS
	bytes = n.Virtio.RxBytes + n.Virtio.TxBytes
	if n.VF != NoVF {
		pps += n.VFPath.RxPPS + n.VFPath.TxPPS
		bytes += n.VFPath.RxBytes + n.VFPath.TxBytes
	}
	return pps, bytes, true
}

// Source says where a figure comes from.
type Source string

// The sources of a figure.
const (
	SourceNone  Source = ""
	SourceTap   Source = "tap"   // the host's counters of the tap
	SourcePF    Source = "pf"    // the PF's counters of the VF
	SourceAgent Source = "agent" // the guest said so
	SourceSim   Source = "sim"
)

// Proof says how far a figure is proved, by who counted it.
type Proof string

// The proofs of a figure, from none to the best.
const (
	ProofNone         Proof = ""
	ProofGuest        Proof = "guest"        // the guest says so, and nothing supports it
	ProofCorroborated Proof = "corroborated" // the guest says so, and what the host counts leaves room for it
	ProofKernel       Proof = "kernel"       // the host's kernel counted it
	ProofHardware     Proof = "hardware"     // the NIC counted it
)

var proofs = map[Proof]int{ProofNone: 0, ProofGuest: 1, ProofCorroborated: 2, ProofKernel: 3, ProofHardware: 4}

// Weaker says whether p proves less than q.
func (p Proof) Weaker(q Proof) bool { return proofs[p] < proofs[q] }

// Traffic is a rate on one path. rx and tx are the guest's: rx is what it receives.
type Traffic struct {
	RxPPS   float64   `json:"rx_pps"`
	TxPPS   float64   `json:"tx_pps"`
	RxBytes float64   `json:"rx_bytes_s"`
	TxBytes float64   `json:"tx_bytes_s"`
	Source  Source    `json:"source,omitempty"`
	At      time.Time `json:"at,omitzero"` // when it was said, where it is older than the Snapshot
	Known   bool      `json:"known"`       // false: no two usable samples
	Proof   Proof     `json:"proof,omitempty"`
	Note    string    `json:"note,omitempty"`
	Denied  float64   `json:"denied_pps,omitempty"`    // packets/s that the guest speaks of and that are not believed; at least 1 where nothing that it says is
	Waiting uint64    `json:"waiting_bytes,omitempty"` // in the guest's queue to be sent, by the guest's word: shown, and nothing is decided by it
}

// FindVM returns the VM with that ID, or nil.
func (s *Snapshot) FindVM(id VMID) *VM {
	lo, hi := 0, len(s.VMs)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.VMs[mid].ID < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.VMs) && s.VMs[lo].ID == id {
		return &s.VMs[lo]
	}
	return nil
}

// FindPF returns the PF with that name, or nil.
func (s *Snapshot) FindPF(name string) *PF {
	for i := range s.PFs {
		if s.PFs[i].Name == name {
			return &s.PFs[i]
		}
	}
	return nil
}

// FindPort returns the PF whose VFs, or one of them, are behind that port of a switch, one that the
// config lists if there is any, or nil.
func (s *Snapshot) FindPort(port string) *PF {
	var found *PF
	for i := range s.PFs {
		if pf := &s.PFs[i]; pf.leadsTo(port) && (found == nil || pf.Managed && !found.Managed) {
			found = pf
		}
	}
	return found
}

// leadsTo says whether that port of the switch leads to VFs of the PF.
func (p *PF) leadsTo(port string) bool {
	if !p.Uplink.Representors {
		return p.Port() == port
	}
	for i := range p.VFs {
		if p.VFs[i].Port == port && port != "" {
			return true
		}
	}
	return false
}

// VirtioPF returns the PF whose link carries what a NIC sends on its virtio path: one that leads out of the
// NIC's network, in use before one that is not (as the passive port of a bond), and listed by the
// config before others. nil if there is none.
func (s *Snapshot) VirtioPF(n *NIC) *PF {
	var best *PF
	rank := -1
	for i := range s.PFs {
		pf := &s.PFs[i]
		if n.Network == "" || pf.Uplink.Switch != n.Network && pf.Network != n.Network {
			continue
		}
		r := 0
		for k, good := range []bool{pf.Managed, pf.LinkUp, pf.Uplink.Why == "", pf.Uplink.Switch == n.Network} {
			if good {
				r += 1 << k
			}
		}
		if r > rank {
			best, rank = pf, r
		}
	}
	return best
}

// FindVF returns the VF with that ID, or nil.
func (s *Snapshot) FindVF(id VFID) *VF {
	pf := s.FindPF(id.PF)
	if pf == nil {
		return nil
	}
	if i := id.Index; i >= 0 && i < len(pf.VFs) && pf.VFs[i].ID.Index == i {
		return &pf.VFs[i] // all are there, so each is at its index
	}
	for i := range pf.VFs {
		if pf.VFs[i].ID == id {
			return &pf.VFs[i]
		}
	}
	return nil
}

// VFBehind finds the VF behind a NIC of a VM, and the NIC; nil where there is none.
func (s *Snapshot) VFBehind(id VMID, nic string) (*VF, *NIC) {
	vm := s.FindVM(id)
	if vm == nil {
		return nil, nil
	}
	n := vm.FindNIC(nic)
	if n == nil {
		return nil, nil
	}
	return s.FindVF(n.VF), n
}

// FindNIC returns the NIC with that alias, or nil.
func (v *VM) FindNIC(alias string) *NIC {
	for i := range v.NICs {
		if v.NICs[i].Alias == alias {
			return &v.NICs[i]
		}
	}
	return nil
}

// Filter is a unicast address that a PF takes frames for.
type Filter struct {
	PF  string `json:"pf"`
	MAC MAC    `json:"mac"`
}

// Shared is what of the PF's link there is to share out, in bits/s; 0: unknown.
func (p *PF) Shared() uint64 { return cmp.Or(p.Carries, p.Speed) }

// InUse says whether any VF of the PF is in a guest, ours or not.
func (p *PF) InUse() bool {
	for i := range p.VFs {
		if p.VFs[i].Holder != "" {
			return true
		}
	}
	return false
}

// Ours returns the VF behind the NIC if Sluice attached it, or NoVF.
func (n *NIC) Ours() VFID {
	if n == nil || n.VFOwner != OwnerSluice {
		return NoVF
	}
	return n.VF
}

// Held returns the first NIC that has a VF behind it, whoever attached that, or nil.
func (v *VM) Held() *NIC {
	for i := range v.NICs {
		if v.NICs[i].VF != NoVF {
			return &v.NICs[i]
		}
	}
	return nil
}
