package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// StepKind names one change, or one wait for a change. Every Step is idempotent: if its result is already in place, it succeeds
// and changes nothing.
type StepKind string

// Kinds of Step, in the order in which a plug and an unplug use them.
const (
	StepCheckVirtio   StepKind = "check-virtio"    // the tap is up, in its bridge, and the domain can fail over
	StepBindVFIO      StepKind = "bind-vfio"       // bind the VF to vfio-pci
	StepSetVF         StepKind = "set-vf"          // VLAN, spoof check on, trust off, rate: everything but the MAC
	StepOpenDualPath  StepKind = "open-dual-path"  // both paths receive what the switch has for the guest; add-self does the rest
	StepSetMAC        StepKind = "set-mac"         // the VF's administrative MAC: from here on the NIC steers the MAC to the VF
	StepAttach        StepKind = "attach"          // hot-plug the VF as the pair's second path
	StepWaitGuest     StepKind = "wait-guest"      // until the guest's driver has opened the VF, and see DeviceStep.Port
	StepRouteToVF     StepKind = "route-to-vf"     // the switch sends the guest's frames to the VF
	StepCloseDualPath StepKind = "close-dual-path" // ends the dual path; the route stays
	StepAnnounce      StepKind = "announce"        // tells switches (and the bridge) where the MAC is now
	StepDetach        StepKind = "detach"          // asks the guest to release the VF
	StepWaitGone      StepKind = "wait-gone"       // until libvirt reports the device removed
	StepRouteToTap    StepKind = "route-to-tap"    // the switch sends the guest's frames to the tap
	StepClearVF       StepKind = "clear-vf"        // MAC, VLAN, rate, trust to zero: nothing of the last holder remains
	StepAddSelf       StepKind = "add-self"        // adds a PF filter for the MAC: frames from the wire and from VFs reach the bridge too
	StepDelSelf       StepKind = "del-self"        // removes that filter
	// StepFollowGuest directs route and PF filter to the path on which the guest listens, then ends the dual path. Undo and
	// repair use it, as they often cannot know that path in advance. While the guest has a VF that it does not use but may start
	// to use at any moment, both paths keep receiving.
	StepFollowGuest StepKind = "follow-guest"
	StepClearPort   StepKind = "clear-port" // removes leftovers of a port of the embedded switch whose tap is gone
	StepClearTap    StepKind = "clear-tap"  // removes our limits from a tap, or their leftovers
)

// Step is one self-contained change: an actuator needs nothing else to carry it out. Only the payloads that its kind needs are
// set.
type Step struct {
	ID      uint64        `json:"id,omitempty"` // set by the loop when it starts the Step; completions refer to it
	Kind    StepKind      `json:"kind"`
	Subject Subject       `json:"subject"`
	VF      VFStep        `json:"vf,omitzero"`
	Path    PathStep      `json:"path,omitzero"`
	Device  DeviceStep    `json:"device,omitzero"`
	Timeout time.Duration `json:"timeout_ns"`
	Flow    Flow          `json:"-"` // set when its Move begins
}

// Flow is how a Move continues from a Step that fails, or at which it is cancelled. Its zero value: retry, then end the Move as
// it is. It is not stored: after a restart the Move is planned again from the state at that time.
type Flow struct {
	Retry  int  // how many Steps before this one a retry begins
	Undo   int  // number of the list in Move.Undo that undoes the Move from here, from 1; 0: nothing to undo
	Skip   int  // in an undo: how many of the following Steps to skip too if it fails for good
	Waits  bool // it changes nothing and may be aborted
	Turns  bool // a Move that is cancelled here is undone; else it is finished
	Blames bool // its failure is the fault of the VF that it sets up
}

// Subject is what a Step changes: a VM, one of its NICs or, for leftovers of one that is gone, a VF, a PF or a tap. At most one
// Move at a time works on it.
type Subject struct {
	VM     VMID   `json:"vm,omitempty"`
	NIC    string `json:"nic,omitempty"`     // of repairs, which need not wait for other NICs of the VM
	VMName string `json:"vm_name,omitempty"` // for display
	VF     VFID   `json:"vf,omitzero"`       // of Steps without VM
	PF     string `json:"pf,omitempty"`      // of Steps without VM and VF
	Tap    string `json:"tap,omitempty"`     // of Steps about a tap that no VM has
}

// Key identifies the Subject.
func (s Subject) Key() string {
	switch {
	case s.NIC != "":
		return string(s.VM) + " " + s.NIC
	case s.VM != "":
		return string(s.VM)
	case s.VF != NoVF:
		return "vf " + s.VF.String()
	case s.Tap != "":
		return "tap " + s.Tap
	}
	return "pf " + s.PF
}

// VFStep is the payload of Steps that set up a virtual function: bind-vfio, set-vf, set-mac and clear-vf.
type VFStep struct {
	ID        VFID       `json:"id"`
	Address   PCIAddress `json:"pci_address"`
	MAC       MAC        `json:"mac,omitzero"`
	VLAN      int        `json:"vlan,omitempty"`
	MaxTxRate uint64     `json:"max_tx_rate_bits,omitempty"` // bits/s, 0: none
	MinTxRate uint64     `json:"min_tx_rate_bits,omitempty"` // bits/s, 0: none
	// Port is the VF's representor, where what it sends is limited to MaxPackets packets/s (0: not); "": it has none.
	Port       string `json:"port,omitempty"`
	MaxPackets uint64 `json:"max_packets_s,omitempty"`
}

// PathStep is the payload of Steps about where the host sends the frames for a MAC: check-virtio, the dual path, the route, the
// PF's filter and announcements. For clear-tap and clear-port it holds the tap.
type PathStep struct {
	MAC         MAC    `json:"mac"`
	VLAN        int    `json:"vlan,omitempty"`
	Tap         string `json:"tap,omitempty"`
	Network     string `json:"network,omitempty"`
	PF          string `json:"pf,omitempty"`
	Uplink      string `json:"uplink,omitempty"`      // the switch's port that leads to the VF; "": the PF itself
	Kind        string `json:"kind,omitempty"`        // Uplink.Kind of the PF
	Representor bool   `json:"representor,omitempty"` // Uplink.Representors of the PF: it needs no filter
	// VirtioRoute is the port that frames are sent to while the guest is on virtio, to which follow-guest returns; "": no static
	// entry.
	VirtioRoute string `json:"virtio_route,omitempty"`
}

// Port returns the port of the switch through which frames for the VF leave.
func (p *PathStep) Port() string { return cmp.Or(p.Uplink, p.PF) }

// DeviceStep is the payload of Steps that hot-plug: check-virtio, attach, wait-guest, detach, wait-gone and follow-guest.
type DeviceStep struct {
	NIC      string     `json:"nic"` // the virtio NIC that the VF is paired with
	MAC      MAC        `json:"mac"`
	Failover Failover   `json:"failover,omitempty"`
	VF       VFID       `json:"vf,omitzero"`
	Address  PCIAddress `json:"pci_address,omitempty"`
	// Port is the VF's representor if Uplink.OnePort of its PF is set, else "". wait-guest and follow-guest also wait there for frames of the
	// guest, which sends through its virtio NIC until its VF has a link, up to seconds after its driver has opened it.
	Port string `json:"port,omitempty"`
}

// SilentFor is how long a guest whose driver has opened its VF may send nothing through it before it is taken to have nothing to send.
// A VF reports its link up to two seconds after it can receive.
const SilentFor = 3 * time.Second

// VFID returns the VF that the Step sets up or hot-plugs; NoVF if it does neither.
func (s *Step) VFID() VFID {
	if s.VF.ID != NoVF {
		return s.VF.ID
	}
	return s.Device.VF
}

// String prints the Step as one line.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	if s.Subject.VMName != "" {
		b.WriteString(" " + s.Subject.VMName)
	}
	if vf := s.VFID(); vf != NoVF {
		b.WriteString(" vf " + vf.String())
	}
	switch s.Kind {
	case StepSetMAC:
		fmt.Fprintf(&b, " mac %s", s.VF.MAC)
	case StepRouteToVF, StepRouteToTap, StepAnnounce, StepOpenDualPath, StepCloseDualPath, StepAddSelf, StepDelSelf, StepFollowGuest:
		fmt.Fprintf(&b, " pf %s mac %s", s.Path.PF, s.Path.MAC)
	case StepClearTap, StepClearPort:
		b.WriteString(" tap " + s.Path.Tap)
	case StepSetVF:
		fmt.Fprintf(&b, " vlan %d spoofchk on trust off", s.VF.VLAN)
		if s.VF.MaxTxRate > 0 {
			fmt.Fprintf(&b, " max_tx_rate %d Mbit/s", WholeMbit(s.VF.MaxTxRate)/1e6)
		}
		if s.VF.MaxPackets > 0 {
			fmt.Fprintf(&b, " police %d packets/s", s.VF.MaxPackets)
		}
	case StepBindVFIO:
		fmt.Fprintf(&b, " (%s)", s.VF.Address)
	case StepAttach, StepDetach:
		fmt.Fprintf(&b, " (%s)", s.Device.Address)
	}
	return b.String()
}

// MoveKind is what a Move does.
type MoveKind string

// Kinds of Move.
const (
	MovePlug   MoveKind = "plug"
	MoveUnplug MoveKind = "unplug"
	MoveRepair MoveKind = "repair"
)

// Move is an ordered list of Steps for one VM and one VF. A plug whose VF is still held by another VM waits for that VM's unplug.
type Move struct {
	Kind   MoveKind `json:"kind"`
	VM     VMID     `json:"vm,omitempty"`
	VMName string   `json:"vm_name,omitempty"`
	NIC    string   `json:"nic,omitempty"` // alias of the NIC that gets or loses the VF
	VF     VFID     `json:"vf"`
	Reason Reason   `json:"reason"`
	Cause  Cause    `json:"cause,omitzero"`
	Steps  []Step   `json:"steps"`
	Undo   [][]Step `json:"-"` // restores a consistent state after a Step failed: see Flow
	Gone   []Step   `json:"-"` // the same if the VM is gone
}

// UndoAt lists the Steps that undo the Move from the Step with that index.
func (m *Move) UndoAt(step int, gone bool) []Step {
	switch n := m.Steps[step].Flow.Undo; {
	case gone:
		return m.Gone
	case n > 0:
		return m.Undo[n-1]
	}
	return nil
}

// String prints the Move and its Steps, one per line.
func (m Move) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", m.Kind, m.VMName, m.VF)
	for _, s := range m.Steps {
		b.WriteString("  " + s.String() + "\n")
	}
	return b.String()
}

// Finding is something that fsck found: a leaked or wrongly configured VF, a stale filter. Repair is empty if Sluice must not
// repair it, or if Remedy says how to.
type Finding struct {
	Code    string `json:"code"` // stable, for example "stale-mac"
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Repair  []Step `json:"repair,omitempty"`
	Remedy  string `json:"remedy,omitempty"` // how to repair it, if no Step does
}

// Name identifies the finding. The Reason of the Move that repairs it has it as Detail.
func (f *Finding) Name() string { return f.Subject + " " + f.Text }
