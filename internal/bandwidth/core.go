package bandwidth

import (
	"time"

	"sluice/internal/model"
)

// Options are the knobs of the controller.
type Options struct {
	Mode      model.Mode
	Allocator string
	Period    time.Duration // between two readings
	Packets   uint64        // packets/s that the host carries on virtio; 0: not known
}

// Reading is what one path of a NIC has moved so far, as the guest sees it.
type Reading struct {
	NIC       model.NICID
	Path      model.Path
	Device    int       // a Reading of another Device than the one before begins anew
	At        time.Time // when it was read
	TxPackets uint64
	RxPackets uint64
	TxBytes   uint64 // layer 2, without preamble, gap and checksum
	RxBytes   uint64
	Proof     model.Proof
}

// World is what the controller needs to know of the host beside counters: it changes with
// inventory, rules and moves. It is not changed after it was handed over.
type World struct {
	Snapshot *model.Snapshot
	Rules    model.Rules
	Tiers    []model.Limit      // what the placement policy lets VFs send: caps like SLAs' limits
	Active   []model.MoveStatus // moves under way: the path of their NICs is about to change
	// Enforcer names the enforcer that a Limit would have, and whether one can hold it.
	Enforcer func(*model.Snapshot, model.LimitKey) (name string, can model.Tri)
}
