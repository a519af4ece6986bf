package model

import (
	"fmt"
	"strings"
	"time"
)

// StepKind names one change to the world, or one wait for it. Every Step is
// idempotent: doing it when it is already true succeeds and changes nothing.
type StepKind string

// The kinds of Step, in the order in which a plug and an unplug use them.
const (
	StepCheckVirtio StepKind = "check-virtio" // the tap is up, in its bridge, and the domain can fail over
	StepBindVFIO    StepKind = "bind-vfio"    // bind the VF to vfio-pci
	StepSetVF       StepKind = "set-vf"       // VLAN, spoof check on, trust off, rate: everything but the MAC
	StepOpenWindow  StepKind = "open-window"  // both paths receive what the bridge has: FDB entry to the tap, mirror from the tap to the PF; the rest is add-self's
	StepSetMAC      StepKind = "set-mac"      // the VF's administrative MAC: from here on the NIC steers the MAC to the VF
	StepAttach      StepKind = "attach"       // hot-plug the VF as the pair's second leg
	StepWaitGuest   StepKind = "wait-guest"   // until the guest's driver has opened the VF
	StepFDBToVF     StepKind = "fdb-to-vf"    // the bridge sends the MAC to the PF, where the VF's filter takes it
	StepCloseWindow StepKind = "close-window" // end the mirror; the FDB entry stays
	StepAnnounce    StepKind = "announce"     // tell switches (and the bridge) where the MAC is now
	StepDetach      StepKind = "detach"       // ask the guest to give the VF up
	StepWaitGone    StepKind = "wait-gone"    // until libvirt reports the device removed
	StepFDBToTap    StepKind = "fdb-to-tap"   // the bridge sends the MAC to the tap
	StepClearVF     StepKind = "clear-vf"     // MAC, VLAN, rate, trust to zero: nothing of the last holder stays
	StepAddSelf     StepKind = "add-self"     // PF filter for the MAC: frames from the wire and from VFs reach the bridge too
	StepDelSelf     StepKind = "del-self"     // and back
	StepSetRate     StepKind = "set-rate"     // what set-vf sets, with a new rate, for a VF in use
)

// Step is one change, complete in itself: an actuator needs nothing else to do it.
type Step struct {
	ID      uint64        `json:"id,omitempty"` // given by the loop when it starts; completions name it
	Kind    StepKind      `json:"kind"`
	VM      VMID          `json:"vm,omitempty"`
	VMName  string        `json:"vm_name,omitempty"`
	NIC     string        `json:"nic,omitempty"`
	MAC     MAC           `json:"mac,omitzero"`
	Tap     string        `json:"tap,omitempty"`
	Network string        `json:"network,omitempty"`
	Team    Failover      `json:"failover,omitempty"`
	VF      VFID          `json:"vf,omitzero"`
	Address PCIAddress    `json:"pci_address,omitempty"`
	VLAN    int           `json:"vlan,omitempty"`
	Rate    uint64        `json:"max_tx_rate_bits,omitempty"` // bits/s, 0: none
	Timeout time.Duration `json:"timeout_ns"`
}

// String prints the Step as one line.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	if s.VMName != "" {
		b.WriteString(" " + s.VMName)
	}
	if s.VF.PF != "" {
		b.WriteString(" vf " + s.VF.String())
	}
	switch s.Kind {
	case StepSetMAC, StepFDBToVF, StepFDBToTap, StepAnnounce, StepOpenWindow, StepCloseWindow, StepAddSelf, StepDelSelf:
		fmt.Fprintf(&b, " mac %s", s.MAC)
	case StepSetVF:
		fmt.Fprintf(&b, " vlan %d spoofchk on trust off", s.VLAN)
		if s.Rate > 0 {
			fmt.Fprintf(&b, " max_tx_rate %d Mbit/s", s.Rate/1e6)
		}
	case StepSetRate:
		fmt.Fprintf(&b, " max_tx_rate %d Mbit/s", s.Rate/1e6)
	case StepAttach, StepDetach, StepBindVFIO:
		fmt.Fprintf(&b, " (%s)", s.Address)
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
	MoveRetune MoveKind = "retune" // the VF stays where it is and gets another rate
)

// Move is an ordered list of Steps for one VM and one VF. A plug whose VF is still
// held by another waits for that VM's unplug.
type Move struct {
	Kind   MoveKind `json:"kind"`
	VM     VMID     `json:"vm,omitempty"`
	VMName string   `json:"vm_name,omitempty"`
	VF     VFID     `json:"vf"`
	Reason Reason   `json:"reason"`
	Steps  []Step   `json:"steps"`
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
// Repair is empty where the thing is not Sluice's to mend.
type Finding struct {
	Code    string `json:"code"` // stable, for example "stale-mac"
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Repair  []Step `json:"repair,omitempty"`
}
