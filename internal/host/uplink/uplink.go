// Package uplink is the seam between Sluice and what connects VMs' taps, a PF and its VFs: a Linux bridge in front of a
// legacy NIC, say. An Uplink reads where frames go and changes it. Nothing else knows how its switch does that.
//
// Which Uplink serves a PF is found by looking; see Set.
package uplink

import (
	"context"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// Uplink steers one kind of switch, with one kind of NIC.
type Uplink interface {
	// Kind names it, as in model.Uplink.
	Kind() string
	Reader
	Writer
}

// Reader says how things are.
type Reader interface {
	// PF says how a PF is connected, and if its VFs cannot be used as it is, why, and what to do. It also names the VFs' ports, where
	// they have their own (model.VF.Port). false: by nothing of this kind. PF and Tap are called for each Snapshot: they wait for
	// nobody.
	PF(links *Links, pf *model.PF) (model.Uplink, bool)
	// Tap says which port of which switch a tap is; false: none of this kind.
	Tap(links *Links, tap *netdev.Link) (Port, bool)
	// Routes lists where switches were told to send the frames for a MAC.
	Routes(ctx context.Context) ([]model.Route, error)
	// DualPaths lists those that stand, or what is left of some, whichever process opened them.
	DualPaths(ctx context.Context) ([]model.DualPath, error)
	// CheckDualPaths says why dual paths would end with this process, so that a kill during a move could cut the VM off; nil
	// if they would not. The error has the form "why; remedy".
	CheckDualPaths() error
	// Watch tells of changes to what Reader says that kernel.Host.Watch does not tell of; nil where there are none. The channel is
	// closed when ctx ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Port is where a switch has a tap.
type Port struct {
	Switch string
	VLAN   int  // that the switch keeps the tap in; 0: none, or as libvirt says
	Up     bool // the switch passes frames
}

// Writer says where the frames for one MAC go. Each method names a state, which it reads back: it may find its work done
// already. Whatever went away meanwhile is no reason to fail for ToTap and ToOne, which come last in every undo.
//
// A caller makes before it breaks: ToBoth, then ToTap or ToVF when the guest has changed over, then ToOne.
type Writer interface {
	// Check fails unless the tap is up, held open by QEMU, and a port of the switch that the Step names. An error that says that
	// the tap is missing does not wrap model.ErrGone: the VM is there.
	Check(ctx context.Context, p *model.PathStep) error
	// ToBoth makes tap and VF receive what the switch has for the guest. note says what is missing of that and can be done without.
	ToBoth(ctx context.Context, p *model.PathStep) (note string, err error)
	// ToOne ends that; frames go where the last of the other methods sent them.
	ToOne(ctx context.Context, p *model.PathStep) error
	ToTap(ctx context.Context, p *model.PathStep) error
	ToVF(ctx context.Context, p *model.PathStep) error
	// Back sends them where they went while the guest was on virtio, which need not be its tap alone.
	Back(ctx context.Context, p *model.PathStep) error
	// FromNIC makes the NIC hand frames for the MAC, of VFs and of the wire, to the switch as well: only a legacy NIC has to be told, and
	// note says so where it cannot. NotFromNIC ends that.
	FromNIC(ctx context.Context, p *model.PathStep) (note string, err error)
	NotFromNIC(ctx context.Context, p *model.PathStep) error
	// Announce tells switches beyond this one where the MAC is.
	Announce(ctx context.Context, p *model.PathStep) error
}

// Links are the host's interfaces at one moment.
type Links struct {
	ByName  map[string]*netdev.Link
	ByIndex map[int]*netdev.Link
}

// Index makes Links of a list. It keeps pointers into the list, and uses the memory of an earlier call again.
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

// Master is the interface that another is a port of, or nil.
func (l *Links) Master(of *netdev.Link) *netdev.Link { return l.ByIndex[of.Master] }
