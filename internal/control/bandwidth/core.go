package bandwidth

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// Options are the knobs of the controller.
type Options struct {
	Mode      model.Mode
	Allocator string
	Period    time.Duration // between two readings
	Packets   uint64        // packets/s that the host carries on virtio; 0: not known
	Off       bool          // SLAs are not kept: what stands is lifted, and only World.Tiers are
}

// Reading is what one path of a NIC has moved so far, as the guest sees it. One without VM is of
// a PF's port, whose name NIC.NIC is: its tx is all that left the host there.
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
	Dropped   model.Dropped // of these packets, what the policer of the tap dropped
}

// World is what the controller needs to know of the host beside counters: it changes with
// inventory, rules and moves. The Core keeps nothing of the Snapshot.
type World struct {
	Snapshot *model.Snapshot
	Rules    model.Rules
	Tiers    []model.Limit      // what the placement policy lets VFs send, sorted by CompareKeys: caps like SLAs' limits
	Active   []model.MoveStatus // moves under way: the path of their NICs is about to change
	// Enforcer names the enforcer that a Limit would have, and whether one can hold it; nil: none can. It answers at once.
	Enforcer func(model.LimitKey) (name string, can model.Tri)
}

// Core is the bandwidth controller: a state machine that makes rates of readings, has an
// Allocator share each link, and says which Limits to apply. It has no clock, no
// goroutine and no randomness, and is not safe for concurrent use.
type Core struct {
	opts  Options
	nics  []*nic // by ID
	byID  map[model.NICID]*nic
	vms   []vmGroup    // those whose NICs share packets/s
	vpfs  []*virtualPF // by ID
	byPF  map[model.NICID]*virtualPF
	links []*uplink // by PF
	born  int       // NICs seen so far

	at      time.Time // of the last Tick
	period  time.Duration
	lowered []Order // the batch: what takes something away goes first
	raised  []Order
	orders  uint64 // so far
	changes uint64

	problems []model.Problem // of SLAs and what is promised of them
}

// NewCore makes a Core that follows nothing yet.
func NewCore(o Options) (*Core, error) {
	c := &Core{byID: map[model.NICID]*nic{}, byPF: map[model.NICID]*virtualPF{}}
	return c, c.SetOptions(o)
}

// SetOptions changes the knobs. Another Allocator begins anew; limits that stand stay until
// it has decided.
func (c *Core) SetOptions(o Options) error {
	if _, err := NewAllocator(o.Allocator); err != nil {
		return err
	}
	if o.Allocator != c.opts.Allocator {
		for _, l := range c.links {
			l.alloc, _ = NewAllocator(o.Allocator) // it was made just now
		}
		for _, v := range c.vpfs {
			v.setAllocator(o.Allocator)
		}
	}
	c.opts = o
	return nil
}

// Enforces says that limits are set, not only decided.
func (c *Core) Enforces() bool { return c.opts.Mode != model.ModeObserve }

// Quiet says that nothing is promised, limited or divided, and that no limit stands: whatever is read, no limit follows.
// Follow and Applied may change it.
func (c *Core) Quiet() bool {
	if len(c.vpfs) > 0 {
		return false
	}
	for _, l := range c.links {
		if l.active || l.tree || !l.root.settled(c.at) {
			return false
		}
	}
	for _, n := range c.nics {
		if n.promises() || !n.own.Limit.IsZero() || !n.own.Receive.IsZero() || n.tier > 0 {
			return false
		}
		for i := range n.limits {
			if !n.limits[i].settled(c.at) {
				return false
			}
		}
	}
	return true
}

// Tick takes the readings of a period and returns what is to be applied now: what changed and
// leases to renew, in observe mode nothing. The slice is valid until the next call.
func (c *Core) Tick(now time.Time, readings []Reading) []Order {
	c.decide(now, readings)
	c.lowered, c.raised = c.lowered[:0], c.raised[:0]
	if !c.Enforces() {
		return nil
	}
	for _, l := range c.links {
		c.emit(now, &l.root)
	}
	for _, n := range c.nics {
		for i := range n.limits {
			c.emit(now, &n.limits[i])
		}
	}
	c.lowered = append(c.lowered, c.raised...)
	return c.lowered
}

// decide finds out what is to stand.
func (c *Core) decide(now time.Time, readings []Reading) {
	c.period = c.opts.Period
	if !c.at.IsZero() && now.After(c.at) {
		c.period = now.Sub(c.at)
	}
	c.at = now
	c.measure(now, readings)
	c.dividePackets()
	for _, l := range c.links {
		c.share(now, l)
	}
	for _, v := range c.vpfs {
		c.divide(now, v)
	}
	c.judge(now)
	for _, n := range c.nics {
		n.want()
	}
	for _, l := range c.links {
		l.wantRoot()
	}
}

// find returns the NIC, or nil.
func (c *Core) find(id model.NICID) *nic { return c.byID[id] }

// link returns the link of a PF, or nil.
func (c *Core) link(pf string) *uplink {
	for _, l := range c.links {
		if l.pf == pf {
			return l
		}
	}
	return nil
}

// sortNICs puts the NICs in order of ID.
func (c *Core) sortNICs() {
	slices.SortFunc(c.nics, func(a, b *nic) int { return a.id.Compare(b.id) })
}
