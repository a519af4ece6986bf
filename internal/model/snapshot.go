package model

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"time"
)

// Snapshot is the observed state at one moment.
type Snapshot struct {
	Time time.Time `json:"time"`
	Read time.Time `json:"read"` // when slowly changing state (VF settings, filters) was read: later changes may not show
	PFs  []PF      `json:"pfs"`
	VMs  []VM      `json:"vms"`
	// Unread are running VMs that could not be read. They are not in VMs, and what is theirs seems to be nobody's.
	Unread []VMID `json:"unread,omitempty"`
	// Limited are taps with limits of ours that belong to no NIC of any VM, and leftover limits of taps that are gone.
	Limited []TapLimit `json:"limited,omitempty"`
	// Ports are taps that are ports of the embedded switch but belong to no virtual PF, and leftover ports of taps that are gone.
	Ports     []TapLimit `json:"ports,omitempty"`
	DualPaths []DualPath `json:"dual_paths,omitempty"` // those that belong to no NIC of any VM; the others show as NIC.DualPath
	// Routes are those to VFs of managed PFs, and others with a Kind, for MACs that no NIC of any VM has; the others show as NIC.Route.
	Routes   []Route   `json:"routes,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // what could not be read, and its consequences
}

// Problem is something that could not be observed or is misconfigured. Subject is a VM name, a VF, a PF or "" for the host;
// Remedy says what a user can do.
type Problem struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"`
	Info    bool   `json:"info,omitempty"` // for information only: it may be intended, or due to the hardware
}

// Problems counts the Problems of a list that are not for information only.
func Problems(list []Problem) (n int) {
	for i := range list {
		if !list[i].Info {
			n++
		}
	}
	return n
}

// TapConnection is how libvirt connects a VM's tap to a switch.
type TapConnection struct {
	Switch      string // its name
	VirtualPort string // the type of libvirt's <virtualport>, which any switch but a Linux bridge needs; "": none
	// NoFunctions is why the switch takes no functions of virtual PFs, in the form "why; remedy"; "": it takes them.
	NoFunctions string
}

// Route is where a switch is configured to send the frames for a MAC, for example by a static entry of a Linux bridge.
type Route struct {
	Network string `json:"network"` // the switch
	MAC     MAC    `json:"mac"`
	Port    string `json:"port"`
	VLAN    int    `json:"vlan,omitempty"`
	Kind    string `json:"kind,omitempty"` // Uplink.Kind of the switch, if only Sluice makes such routes there; "": others may, too
}

// DualPath means that both paths to a guest receive the frames that the switch has for it: its tap and the VFs of a PF.
type DualPath struct {
	Tap      string `json:"tap"`
	MAC      MAC    `json:"mac"`
	PF       string `json:"pf"`
	VLAN     int    `json:"vlan,omitempty"`
	Kind     string `json:"kind,omitempty"` // Uplink.Kind of what opened it
	Detached Tri    `json:"detached"`       // the tap is gone: this is a leftover
}

// TapLimit is a tap that is limited, or is a port of the embedded switch.
type TapLimit struct {
	Tap      string `json:"tap"`
	Detached Tri    `json:"detached"` // the tap is gone: nothing is limited any more
}

// PF is a physical function that has, or may have, VFs.
type PF struct {
	Name        string         `json:"name"`
	Index       int            `json:"ifindex"`
	Address     PCIAddress     `json:"pci_address"`
	Driver      string         `json:"driver"`
	MAC         MAC            `json:"mac"`
	Network     string         `json:"network"` // the bridge it is connected to, or the label that the config gives it
	Uplink      Uplink         `json:"uplink,omitzero"`
	NUMANode    int            `json:"numa_node"` // -1: unknown
	LinkUp      bool           `json:"link_up"`
	Speed       uint64         `json:"speed_bits"`             // bits/s that the driver reports, 0: none
	Carries     uint64         `json:"carries_bits,omitempty"` // bits/s that its link is taken to carry (see Carry); 0: Speed
	CarriesBy   CapacitySource `json:"carries_by,omitempty"`   // who says so; "": Speed applies
	CarriesNote string         `json:"carries_note,omitempty"` // as Capacity.Detail
	NumVFs      int            `json:"num_vfs"`
	TotalVFs    int            `json:"total_vfs"`
	Caps        Caps           `json:"caps"`
	Managed     bool           `json:"managed"` // listed in the config
	VFs         []VF           `json:"vfs"`
	Eswitch     EswitchMode    `json:"eswitch,omitempty"`
	SelfFDB     []MAC          `json:"self_fdb,omitempty"`   // unicast filters that someone added to the PF itself (`bridge fdb ... self`)
	SelfSlots   int            `json:"self_slots,omitempty"` // how many such filters the driver supports, 0: unknown
}

// EswitchMode is the mode of the NIC's embedded switch, named as in `devlink dev eswitch show`.
type EswitchMode string

// Values of EswitchMode.
const (
	EswitchUnknown   EswitchMode = ""          // the driver has no such modes, or does not report them
	EswitchLegacy    EswitchMode = "legacy"    // the NIC steers frames to VFs by their MAC and VLAN
	EswitchSwitchdev EswitchMode = "switchdev" // the host steers frames through a representor of each VF; a VF without one is cut off
	EswitchOnCard    EswitchMode = "on-card"   // the card's own processors steer, as on a DPU: its representors are there, not on this host
)

// Uplink is how a PF is connected to the switch that the VMs' taps are in.
type Uplink struct {
	Kind   string `json:"kind,omitempty"`   // kind of switch and NIC: it decides how frames are steered: "linux-bridge"; "": unsupported
	Switch string `json:"switch,omitempty"` // the bridge, "" for none
	Port   string `json:"port,omitempty"`   // its port that leads to the PF: the PF, or the bond that the PF is in
	// Representors means that each VF has its own port in the switch. Everything that a VF sends or receives then passes the
	// switch, and the PF needs no filters. A legacy NIC's PF needs them for frames of its VFs to reach the host.
	Representors bool `json:"representors,omitempty"`
	// VLANFromNetwork means that a network of libvirt may set the VLAN of a tap, and a VF must be in that VLAN itself. The XML of a VM that
	// migrates in does not have it.
	VLANFromNetwork bool `json:"vlan_from_network,omitempty"`
	// OnePort means that the switch takes in what a guest sends at one port only, that of its tap or of its VF.
	OnePort bool `json:"one_port,omitempty"`

	Why    string `json:"why,omitempty"`    // why no VM can use VFs of this PF; "" if VMs can
	Passes bool   `json:"passes,omitempty"` // the reason in Why may pass by itself, as when a bond changes its active port
	Remedy string `json:"remedy,omitempty"` // what a user can do about Why
	Note   string `json:"note,omitempty"`   // what else a user should know, in the form "what; remedy"
}

// Port returns the port of its switch that leads to the PF.
func (p *PF) Port() string { return cmp.Or(p.Uplink.Port, p.Name) }

// PortOf returns the port of the PF's switch through which frames for one of its VFs leave; "" for a VF that has lost its representor.
func (p *PF) PortOf(vf *VF) string {
	if p.Uplink.Representors {
		return vf.Port
	}
	return p.Port()
}

// Caps are the capabilities of a PF's driver for its VFs.
type Caps struct {
	MaxTxRate  Tri `json:"max_tx_rate"`
	MinTxRate  Tri `json:"min_tx_rate"`
	VFCounters Tri `json:"vf_counters"` // Yes only if the driver really counts: all drivers report zeros
	// VFPackets is whether a limit in packets/s at a VF's representor holds. It does not where the NIC forwards frames itself; only
	// `sluice qualify` shows it.
	VFPackets Tri `json:"vf_packets,omitempty"`
	Trust     Tri `json:"trust"`
}

// Owner says who owns a VF.
type Owner string

// Values of Owner.
const (
	OwnerFree    Owner = "free"    // in Sluice's pool, held by nobody
	OwnerSluice  Owner = "sluice"  // attached to a VM by Sluice, as its hostdev alias shows
	OwnerForeign Owner = "foreign" // somebody else's: outside the pool, attached by others, or in use by the host
)

// NotInPool is the OwnerWhy of a VF that `vfs:` intentionally leaves to others.
const NotInPool = "not in Sluice's pool"

// SetAside is the OwnerWhy of a VF that `sluice qualify` has taken out of the pool.
const SetAside = "set aside for `sluice qualify`; if none is running, `sluice qualify --restore` gives it back"

// PerhapsAside is the OwnerWhy of a VF of which it is unknown whether `sluice qualify` has taken it out of the pool.
const PerhapsAside = "perhaps set aside for `sluice qualify`, whose journal cannot be read; `sluice doctor` says what to do"

// VF is one virtual function as the PF's driver, sysfs and libvirt show it.
type VF struct {
	ID         VFID       `json:"id"`
	Address    PCIAddress `json:"pci_address"`
	Port       string     `json:"port,omitempty"`         // its own port of the PF's switch, if it has one: its representor
	PortIndex  int        `json:"port_ifindex,omitempty"` // of Port if that is an interface of the host
	PortDown   bool       `json:"port_down,omitempty"`    // Port is set down, and so the VF has no carrier
	NoPort     string     `json:"no_port,omitempty"`      // why the VF has no Port though its switch has one for each VF, and the remedy
	Driver     string     `json:"driver"`                 // driver bound on the host: "vfio-pci", "igbvf", "" for none
	MAC        MAC        `json:"mac"`                    // the administrative MAC, zero if none is set
	VLAN       int        `json:"vlan"`
	MaxTxRate  uint64     `json:"max_tx_rate_bits"` // bits/s, 0: no limit
	MinTxRate  uint64     `json:"min_tx_rate_bits"`
	MaxPackets uint64     `json:"max_packets_s,omitempty"` // packets/s that pass its representor of what it sends, 0: no limit
	RateNode   string     `json:"rate_node,omitempty"`     // the devlink rate node that it is in, somebody's: it may get less than its rates
	SpoofCheck Tri        `json:"spoof_check"`
	Trust      Tri        `json:"trust"`
	Owner      Owner      `json:"owner"`
	OwnerWhy   string     `json:"owner_why,omitempty"` // the evidence for a foreign owner
	Holder     VMID       `json:"holder,omitempty"`
	InGuest    Tri        `json:"in_guest"` // a guest driver has the VF open (its interrupts are routed)
}

// VMState is a domain's state, as far as it matters here.
type VMState string

// Values of VMState.
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
	Ready    Tri       `json:"ready"`   // the guest OS responds (agent channel connected); Unknown without agent
	NUMANode int       `json:"numa_node"`
	VCPUs    int       `json:"vcpus"`
	NICs     []NIC     `json:"nics"`
	Ports    int       `json:"free_ports,omitempty"` // free hot-plug slots, one per further VF; 0: none, or not counted (see NIC.FreePort)
	SLAs     []NICSLA  `json:"slas,omitempty"`       // what the domain's metadata asks for
	InGuest  Tri       `json:"in_guest_limits"`      // limits can be set in the guest, by its agent; Unknown: not tried, or not configured
	CPU      float64   `json:"cpu"`                  // host CPUs in use, 0..vCPUs; never NaN, 0 if unknown
	CPUKnown bool      `json:"cpu_known"`
}

// Failover is how a guest falls back from a VF to virtio.
type Failover string

// Values of Failover.
const (
	FailoverNone    Failover = ""
	FailoverTeaming Failover = "teaming" // libvirt <teaming>: the guest's net_failover
	FailoverBond    Failover = "bond"    // active-backup bond configured in the guest
)

// NIC is a virtio interface of a VM, together with the VF behind it if there is one: the pair.
type NIC struct {
	Alias    string   `json:"alias"`
	MAC      MAC      `json:"mac"`
	Tap      string   `json:"tap"`
	TapIndex int      `json:"tap_ifindex"`
	Network  string   `json:"network"` // the bridge that its tap is a port of
	VLAN     int      `json:"vlan"`
	Failover Failover `json:"failover"`
	FreePort Tri      `json:"free_port"`         // a free hot-plug slot exists
	LinkUp   Tri      `json:"link_up"`           // the tap is up and in its bridge: the virtio path works
	Refused  string   `json:"refused,omitempty"` // why no VF can be behind it, given how it is connected, in the form "why; remedy"
	VF       VFID     `json:"vf"`                // NoVF if none
	VFAlias  string   `json:"vf_alias,omitempty"`
	VFOwner  Owner    `json:"vf_owner,omitempty"`
	Route    string   `json:"route,omitempty"`     // the port that its switch is configured to send its frames to; "" if not configured
	RouteBy  string   `json:"route_by,omitempty"`  // as Route.Kind
	DualPath bool     `json:"dual_path,omitempty"` // both paths receive its frames: a move is under way, or ended badly
	// A function of a virtual PF is not a pair: it never has a VF behind it.
	VirtualPF string  `json:"virtual_pf,omitempty"` // the virtual PF of which it is a function
	Function  int     `json:"function,omitempty"`   // 0: the PF itself; n: its VF number n-1
	Carrier   Tri     `json:"carrier,omitempty"`    // of a function: QEMU passes frames, in both directions; No: none
	Share     SLA     `json:"share,omitzero"`       // its guarantees and limits within those of its virtual PF
	Moved     *Moved  `json:"moved,omitempty"`      // of a function that has a tap
	Virtio    Traffic `json:"virtio"`
	VFPath    Traffic `json:"vf_path"`
}

// Moved counts what a tap has moved since it was created. rx is what the guest received. tx is what it sent, including what was
// dropped at the tap.
type Moved struct {
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
}

// Load returns what the pair moved on both paths, in both directions.
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

// Source is where a measurement comes from.
type Source string

// Values of Source.
const (
	SourceNone  Source = ""
	SourceTap   Source = "tap"   // the host's counters of the tap
	SourcePF    Source = "pf"    // the PF's counters of the VF
	SourceAgent Source = "agent" // reported by the guest
	SourceSim   Source = "sim"
)

// Proof is how well a measurement is proved, by who counted it.
type Proof string

// Values of Proof, from none to the best.
const (
	ProofNone         Proof = ""
	ProofGuest        Proof = "guest"        // reported by the guest, and nothing supports it
	ProofCorroborated Proof = "corroborated" // reported by the guest, and consistent with what the host counts
	ProofKernel       Proof = "kernel"       // counted by the host's kernel
	ProofHardware     Proof = "hardware"     // counted by the NIC
)

var proofs = map[Proof]int{ProofNone: 0, ProofGuest: 1, ProofCorroborated: 2, ProofKernel: 3, ProofHardware: 4}

// Weaker reports whether p proves less than q.
func (p Proof) Weaker(q Proof) bool { return proofs[p] < proofs[q] }

// Traffic is a rate on one path. Directions are the guest's: rx is what it receives.
type Traffic struct {
	RxPPS   float64   `json:"rx_pps"`
	TxPPS   float64   `json:"tx_pps"`
	RxBytes float64   `json:"rx_bytes_s"`
	TxBytes float64   `json:"tx_bytes_s"`
	Source  Source    `json:"source,omitempty"`
	At      time.Time `json:"at,omitzero"` // time of the report, if it is older than the Snapshot
	Known   bool      `json:"known"`       // false: there are no two usable samples
	Proof   Proof     `json:"proof,omitempty"`
	Note    string    `json:"note,omitempty"`
	// Denied are the packets/s that the guest claims and that are not believed; at least 1 if nothing that it claims is believed.
	Denied  float64 `json:"denied_pps,omitempty"`
	Waiting uint64  `json:"waiting_bytes,omitempty"` // bytes in the guest's send queue, as it reports; for display only

	Carried Carried `json:"-"` // counted by the loop; not recorded
}

// Carried is what a path of a NIC, or a link, has carried since the daemon started.
type Carried struct{ RxPackets, TxPackets, RxBytes, TxBytes float64 }

// Add adds what the path carried in so many seconds at these rates, if they are known.
func (c *Carried) Add(t *Traffic, seconds float64) {
	if !t.Known {
		return
	}
	c.RxPackets += t.RxPPS * seconds
	c.TxPackets += t.TxPPS * seconds
	c.RxBytes += t.RxBytes * seconds
	c.TxBytes += t.TxBytes * seconds
}

// Gone reports whether no VM with that ID runs.
func (s *Snapshot) Gone(id VMID) bool { return s.FindVM(id) == nil && !slices.Contains(s.Unread, id) }

// NICs returns all NICs, with their VMs.
func (s *Snapshot) NICs() iter.Seq2[*VM, *NIC] {
	return func(yield func(*VM, *NIC) bool) {
		for i := range s.VMs {
			for k := range s.VMs[i].NICs {
				if !yield(&s.VMs[i], &s.VMs[i].NICs[k]) {
					return
				}
			}
		}
	}
}

// FindVM returns the VM with that ID, or nil.
func (s *Snapshot) FindVM(id VMID) *VM {
	i := sort.Search(len(s.VMs), func(i int) bool { return s.VMs[i].ID >= id })
	if i < len(s.VMs) && s.VMs[i].ID == id {
		return &s.VMs[i]
	}
	return nil
}

// FindPF returns the PF with that name, or nil.
func (s *Snapshot) FindPF(name string) *PF {
	return first(s.PFs, func(p *PF) bool { return p.Name == name })
}

// first returns the first element for which is returns true, or nil.
func first[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// FindPort returns the PF whose VFs, or one of whose VFs, are behind that port of a switch, or nil. It prefers PFs that the
// config lists.
func (s *Snapshot) FindPort(port string) *PF {
	var found *PF
	for i := range s.PFs {
		if pf := &s.PFs[i]; pf.leadsTo(port) && (found == nil || pf.Managed && !found.Managed) {
			found = pf
		}
	}
	return found
}

// leadsTo reports whether that port of the switch leads to VFs of the PF.
func (p *PF) leadsTo(port string) bool {
	if !p.Uplink.Representors {
		return p.Port() == port
	}
	return port != "" && first(p.VFs, func(vf *VF) bool { return vf.Port == port }) != nil
}

// PolicesVFs reports whether packets/s can be limited on every VF that a NIC of the network could get: No if one PF's VFs have no
// representors there or `sluice qualify` has shown that it does not hold.
func (s *Snapshot) PolicesVFs(network string) Tri {
	some := No
	for i := range s.PFs {
		pf := &s.PFs[i]
		switch can := pf.Caps.VFPackets; {
		case !pf.Managed || pf.Network != network:
		case !pf.Uplink.Representors || can == No || pf.Caps.MaxTxRate == No:
			return No
		case some != Unknown:
			some = can
		}
	}
	return some
}

// VirtioPF returns the PF whose link carries what a NIC sends on its virtio path, or nil: a PF that connects the NIC's network,
// preferably one in use (unlike the passive port of a bond), and then one that the config lists.
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
		return &pf.VFs[i] // all VFs exist, so each is at its index
	}
	return first(pf.VFs, func(vf *VF) bool { return vf.ID == id })
}

// VFBehind returns the VF behind a NIC of a VM, and the NIC; nil for what does not exist.
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

// ForeignVFs returns the VFs that a VM has and somebody else attached, also those behind none of its NICs.
func (s *Snapshot) ForeignVFs(id VMID) (list []*VF) {
	for i := range s.PFs {
		for k := range s.PFs[i].VFs {
			if vf := &s.PFs[i].VFs[k]; vf.Holder == id && vf.Owner == OwnerForeign {
				list = append(list, vf)
			}
		}
	}
	return list
}

// FindNIC returns the NIC with that alias, or nil.
func (v *VM) FindNIC(alias string) *NIC {
	return first(v.NICs, func(n *NIC) bool { return n.Alias == alias })
}

// Filter is a unicast address for which a PF accepts frames.
type Filter struct {
	PF  string `json:"pf"`
	MAC MAC    `json:"mac"`
}

// InUse reports whether any VF of the PF is in a guest, ours or not.
func (p *PF) InUse() bool { return first(p.VFs, func(vf *VF) bool { return vf.Holder != "" }) != nil }

// Ours returns the VF behind the NIC if Sluice attached it, or NoVF.
func (n *NIC) Ours() VFID {
	if n == nil || n.VFOwner != OwnerSluice {
		return NoVF
	}
	return n.VF
}

// Held returns the first NIC that has a VF behind it, whoever attached that, or nil.
func (v *VM) Held() *NIC { return first(v.NICs, func(n *NIC) bool { return n.VF != NoVF }) }
