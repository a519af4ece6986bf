// Package uplink is the interface between Sluice and what connects VMs' taps, a PF and its VFs, for example a Linux bridge in front of a
// legacy NIC. An Uplink reads and changes where frames go. Only the Uplink knows how its switch does that.
//
// The Uplink that serves a PF is detected; see Set.
package uplink

import (
	"context"
	"errors"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// Uplink steers frames on one kind of switch, with one kind of NIC.
type Uplink interface {
	// Kind returns its name, as in model.Uplink.
	Kind() string
	Reader
	Writer
}

// ErrAbsent means that the host has no switch of this kind at all.
var ErrAbsent = errors.New("there is none on this host")

// Reader reads the current state.
type Reader interface {
	// PF returns how a PF, which is one of links, is connected and, if its VFs cannot be used in this state, why, and the remedy. It also
	// sets the VFs' ports if they have their own (model.VF.Port). false: the PF is not connected by this kind of switch; then Why and Remedy
	// say what is missing. PF and Tap are called for each Snapshot and must not block.
	PF(links *Links, pf *model.PF) (model.Uplink, bool)
	// Tap returns the port and switch of a tap; false: no switch of this kind has it.
	Tap(links *Links, tap *netdev.Link) (Port, bool)
	// Connection returns how a VM's definition connects a tap to the switch of that name. If there is no such switch of this kind, the error
	// wraps model.ErrPermanent and says how to create it.
	Connection(ctx context.Context, name string) (model.TapConnection, error)
	// Routes returns the configured ports for the frames of MACs.
	Routes(ctx context.Context) ([]model.Route, error)
	// DualPaths returns the dual paths that exist, or partly remain, whichever process opened them.
	DualPaths(ctx context.Context) ([]model.DualPath, error)
	// CheckDualPaths returns why dual paths would end with this process, so that killing it during a move could cut the VM off; nil if they
	// would not. The error has the form "why; remedy".
	CheckDualPaths() error
	// Watch reports changes to the state returned by Reader that kernel.Host.Watch does not report; nil if there are none. The channel is
	// closed when ctx ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Port is a tap's port on a switch.
type Port struct {
	Switch string
	VLAN   int  // in which the switch keeps the tap; 0: none, or as libvirt says
	Up     bool // the switch passes frames
	// Refused is why no VF can stand in for it, in the form "why; remedy"; "": one can.
	Refused string
}

// Writer changes where the frames for one MAC go. Each method names a state and reads it back, so it succeeds if the state already holds.
// ToTap and ToOne, which end every undo, do not fail because something has gone away meanwhile.
//
// A caller makes before it breaks: ToBoth, then ToTap or ToVF when the guest has changed over, then ToOne.
type Writer interface {
	// Check fails unless the tap is up, held open by QEMU, and a port of the switch that the Step names. The error for a missing tap does
	// not wrap model.ErrGone, because the VM still exists.
	Check(ctx context.Context, p *model.PathStep) error
	// ToBoth makes tap and VF receive the guest's frames from the switch. note describes what is missing but tolerable.
	ToBoth(ctx context.Context, p *model.PathStep) (note string, err error)
	// ToOne ends the dual path; frames go where the last of the other methods sent them.
	ToOne(ctx context.Context, p *model.PathStep) error
	ToTap(ctx context.Context, p *model.PathStep) error
	ToVF(ctx context.Context, p *model.PathStep) error
	// Back sends the frames where they went while the guest was on virtio, which may be more than its tap.
	Back(ctx context.Context, p *model.PathStep) error
	// FromNIC makes the NIC pass frames for the MAC, from VFs and from the wire, to the switch as well. Only a legacy NIC needs this; note
	// says so if the NIC cannot. NotFromNIC ends it.
	FromNIC(ctx context.Context, p *model.PathStep) (note string, err error)
	NotFromNIC(ctx context.Context, p *model.PathStep) error
	// Announce informs switches beyond this one where the MAC is.
	Announce(ctx context.Context, p *model.PathStep) error
}

// Links is a snapshot of the host's interfaces.
type Links struct {
	ByName  map[string]*netdev.Link
	ByIndex map[int]*netdev.Link
}

// Index fills l from a list. It keeps pointers into the list, and reuses the memory of an earlier call.
func (l *Links) Index(list []netdev.Link) {
	if l.ByName == nil {
		l.ByName, l.ByIndex = make(map[string]*netdev.Link, len(list)), make(map[int]*netdev.Link, len(list))
	}
	clear(l.ByName)
	clear(l.ByIndex)
	for i := range list {
		l.ByName[list[i].Name], l.ByIndex[list[i].Index] = &list[i], &list[i]
	}
}

// Master returns the interface that another is a port of, or nil.
func (l *Links) Master(of *netdev.Link) *netdev.Link { return l.ByIndex[of.Master] }
