package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// StepKind names one change to the world, or one wait for it. Every Step is
// idempotent: doing it when it is already true succeeds and changes nothing.
type StepKind string

// The kinds of Step, in the order in which a plug and an unplug use them.
const (
	StepCheckVirtio   StepKind = "check-virtio"    // the tap is up, in its bridge, and the domain can fail over
	StepBindVFIO      StepKind = "bind-vfio"       // bind the VF to vfio-pci
	StepSetVF         StepKind = "set-vf"          // VLAN, spoof check on, trust off, rate: everything but the MAC
	StepOpenDualPath  StepKind = "open-dual-path"  // both paths receive what the switch has for the guest; the rest is add-self's
	StepSetMAC        StepKind = "set-mac"         // the VF's administrative MAC: from here on the NIC steers the MAC to the VF
	StepAttach        StepKind = "attach"          // hot-plug the VF as the pair's second path
	StepWaitGuest     StepKind = "wait-guest"      // until the guest's driver has opened the VF
	StepRouteToVF     StepKind = "route-to-vf"     // the switch sends the guest's frames to the VF
	StepCloseDualPath StepKind = "close-dual-path" // the dual path ends; the route stays
	StepAnnounce      StepKind = "announce"        // tell switches (and the bridge) where the MAC is now
	StepDetach        StepKind = "detach"          // ask the guest to give the VF up
	StepWaitGone      StepKind = "wait-gone"       // until libvirt reports the device removed
	StepRouteToTap    StepKind = "route-to-tap"    // the switch sends them to the tap
	StepClearVF       StepKind = "clear-vf"        // MAC, VLAN, rate, trust to zero: nothing of the last holder stays
	StepAddSelf       StepKind = "add-self"        // PF filter for the MAC: frames from the wire and from VFs reach the bridge too
	StepDelSelf       StepKind = "del-self"        // and back
	// What undoes a Move, or repairs, often cannot know which path the guest listens on by then:
	// route and PF filter to that path, then the dual path ends. While the guest has a VF
	// that it does not use, and may at any moment, both paths go on receiving.
	StepFollowGuest StepKind = "follow-guest"
	StepClearPort   StepKind = "clear-port" // what is left of a port of the embedded switch whose tap has gone
	StepClearTap    StepKind = "clear-tap"  // no limits of ours on a tap, or what is left of them
)

// Step is one change, complete in itself: an actuator needs nothing else to do it. Of
// the payloads those are set that the Step's kind needs.
type Step struct {
	ID      uint64        `json:"id,omitempty"` // given by the loop when it starts; completions name it
	Kind    StepKind      `json:"kind"`
	Subject Subject       `json:"subject"`
	VF      VFStep        `json:"vf,omitzero"`
	Path    PathStep      `json:"path,omitzero"`
	Device  DeviceStep    `json:"device,omitzero"`
	Timeout time.Duration `json:"timeout_ns"`
	Flow    Flow          `json:"-"` // set when its Move begins
}

// Flow says how a Move goes on from a Step that fails, or at which it is cancelled. Its
// zero value: try again, then end the Move as it is. It is not kept: after a restart the
// Move is planned anew from what is there then.
type Flow struct {
	Retry  int  // how many Steps before it a retry begins
	Undo   int  // number of the list in Move.Undo that takes the Move back from here, from 1; 0: nothing to take back
	Skip   int  // in an undo: how many Steps behind it to leave out too when it fails for good
	Waits  bool // it changes nothing and may be given up half way
	Turns  bool // a Move that is cancelled here is taken back; else it is finished
	Blames bool // that it fails is the fault of the VF that it sets up
}

// Subject is what is changed: a VM, one NIC of it or, for what is left of one that has gone,
// a VF, a PF or a tap. One Move at a time works on it.
type Subject struct {
	VM     VMID   `json:"vm,omitempty"`
	NIC    string `json:"nic,omitempty"`     // of repairs, which need not wait for other NICs of the VM
	VMName string `json:"vm_name,omitempty"` // for people
	VF     VFID   `json:"vf,omitzero"`       // of Steps without VM
	PF     string `json:"pf,omitempty"`      // of Steps without VM and VF
	Tap    string `json:"tap,omitempty"`     // of Steps about a tap that no VM has
}

// Key tells Subjects apart.
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

// VFStep is the payload of Steps that set up a virtual function: bind-vfio, set-vf,
// set-mac and clear-vf.
type VFStep struct {
	ID        VFID       `json:"id"`
	Address   PCIAddress `json:"pci_address"`
	MAC       MAC        `json:"mac,omitzero"`
	VLAN      int        `json:"vlan,omitempty"`
	MaxTxRate uint64     `json:"max_tx_rate_bits,omitempty"` // bits/s, 0: none
}

// PathStep is the payload of Steps that say where the host sends the frames for a MAC:
// check-virtio, the dual path, the route, the PF's filter and announcements; of clear-tap and clear-port it has the tap.
type PathStep struct {
	MAC         MAC    `json:"mac"`
	VLAN        int    `json:"vlan,omitempty"`
	Tap         string `json:"tap,omitempty"`
	Network     string `json:"network,omitempty"`
	PF          string `json:"pf,omitempty"`
	Uplink      string `json:"uplink,omitempty"`       // the switch's port that leads to the VF; "": the PF itself
	Kind        string `json:"kind,omitempty"`         // Uplink.Kind of the PF
	Representor bool   `json:"representor,omitempty"`  // Uplink.Representors of the PF: it needs no filter
	VirtioRoute string `json:"virtio_route,omitempty"` // the port that the frames are sent to while the guest is on virtio, "" where the switch is told nothing: what follow-guest goes back to
}

// Port is the port of the switch that frames for the VF leave through.
func (p *PathStep) Port() string { return cmp.Or(p.Uplink, p.PF) }

// DeviceStep is the payload of Steps that hot-plug: check-virtio, attach, wait-guest,
// detach, wait-gone and follow-guest.
type DeviceStep struct {
	NIC      string     `json:"nic"` // the virtio NIC that the VF is paired with
	MAC      MAC        `json:"mac"`
	Failover Failover   `json:"failover,omitempty"`
	VF       VFID       `json:"vf,omitzero"`
	Address  PCIAddress `json:"pci_address,omitempty"`
}

// VFID is the VF that the Step sets up or hot-plugs; NoVF where it does neither.
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
	case StepBindVFIO:
		fmt.Fprintf(&b, " (%s)", s.VF.Address)
	case StepAttach, StepDetach:
		fmt.Fprintf(&b, " (%s)", s.Device.Address)
	}
	return b.String()
}

// MoveKind says what a Move does.
type MoveKind string

// The kinds of Move.
const (
	MovePlug   MoveKind = "plug"
	MoveUnplug MoveKind = "unplug"
	MoveRepair MoveKind = "repair"
)

// Move is an ordered list of Steps for one VM and one VF. A plug whose VF is still
// held by another waits for that VM's unplug.
type Move struct {
	Kind   MoveKind `json:"kind"`
	VM     VMID     `json:"vm,omitempty"`
	VMName string   `json:"vm_name,omitempty"`
	NIC    string   `json:"nic,omitempty"` // alias of the NIC that gets or loses the VF
	VF     VFID     `json:"vf"`
	Reason Reason   `json:"reason"`
	Steps  []Step   `json:"steps"`
	Undo   [][]Step `json:"-"` // what leaves the world sound when a Step failed: see Flow
	Gone   []Step   `json:"-"` // the same when the VM has gone
}

// UndoAt lists the Steps that take the Move back from the Step with that index.
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

// Finding is something fsck found: a leaked or wrongly set VF, a stale filter.
// Repair is empty where the thing is not Sluice's to repair, or repaired by what Remedy says.
type Finding struct {
	Code    string `json:"code"` // stable, for example "stale-mac"
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Repair  []Step `json:"repair,omitempty"`
	Remedy  string `json:"remedy,omitempty"` // what repairs it, where no Step does
}

// Name tells it from other findings. The Reason of the Move that repairs it has it as Detail.
func (f *Finding) Name() string { return f.Subject + " " + f.Text }
