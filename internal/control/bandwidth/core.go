package bandwidth

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// Options configure the controller.
type Options struct {
	Mode      model.Mode
	Allocator string
	Period    time.Duration // between two readings
	Packets   uint64        // packets/s that the host carries on virtio; 0: unknown
	NoTree    bool          // each tap is limited by itself, although a tree of taps could share for the Allocator
	Off       bool          // SLAs are not enforced: their limits are lifted, and only World.Tiers apply
}

// Reading is the total that one path of a NIC has transferred, as seen from the guest. A Reading without VM is of the port of
// the PF named NIC.NIC: its tx is all that left the host there.
type Reading struct {
	NIC       model.NICID
	Path      model.Path
	Device    int       // counters of another Device start afresh
	At        time.Time // when it was read
	TxPackets uint64
	RxPackets uint64
	TxBytes   uint64 // layer 2, without preamble, gap and checksum
	RxBytes   uint64
	Proof     model.Proof
	Dropped   model.Dropped // of these packets, those dropped by the policer of the tap or representor
}

// World is what the controller needs to know of the host beside counters: it changes with inventory, rules and moves. The Core
// keeps no reference to the Snapshot.
type World struct {
	Snapshot *model.Snapshot
	Rules    model.Rules
	Tiers    []model.Limit      // VF limits of the placement policy, sorted by CompareKeys: caps like SLAs' limits
	Active   []model.MoveStatus // moves under way: the path of their NICs is about to change
	// Enforcer names the enforcer for a Limit, and whether it can apply it; nil: none can. It must not block.
	Enforcer func(model.LimitKey) (name string, can model.Tri)
}

// Core is the bandwidth controller: a state machine that derives rates from readings, runs an Allocator for each link, and
// returns the Limits to apply. It has no clock, no goroutine and no randomness, and is not safe for concurrent use.
type Core struct {
	opts   Options
	kind   kind   // of the Allocator
	nics   []*nic // by ID
	byID   map[model.NICID]*nic
	vms    [][]*nic     // the NICs of each VM that has packets/s to divide among several
	parts  []float64    // scratch for that
	vpfs   []*virtualPF // by ID
	byPF   map[model.NICID]*virtualPF
	links  []*uplink                 // by PF
	totals map[string]*model.Carried // by PF, also of links that nobody shares now
	born   int                       // number of NICs seen so far

	at      time.Time // of the last Tick
	period  time.Duration
	lowered []Order // the batch: reductions go first
	raised  []Order
	orders  uint64 // so far
	changes uint64

	problems []model.Problem // of SLAs and admission control
}

// NewCore returns a Core without any NICs.
func NewCore(o Options) (*Core, error) {
	c := &Core{byID: map[model.NICID]*nic{}, byPF: map[model.NICID]*virtualPF{}, totals: map[string]*model.Carried{}}
	return c, c.SetOptions(o)
}

// SetOptions changes the options. Another Allocator starts without state; limits in force stay until it has decided.
func (c *Core) SetOptions(o Options) error {
	k, err := findKind(o.Allocator)
	if err != nil {
		return err
	}
	if o.Allocator != c.opts.Allocator {
		for _, l := range c.links {
			l.alloc = k.make()
		}
		for _, v := range c.vpfs {
			v.tx.alloc, v.rx.alloc = k.make(), k.make()
		}
	}
	c.opts, c.kind = o, k
	c.activate()
	return nil
}

// Enforces reports whether limits are applied, not only computed.
func (c *Core) Enforces() bool { return c.opts.Mode != model.ModeObserve }

// Quiet reports that nothing is promised, limited or divided, and that no limit is in force: no reading can lead to a limit.
// Follow and Applied may change that.
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

// Tick processes the readings of a period and returns what to apply now: changes and leases to renew; nothing in observe mode.
// The slice is valid until the next call.
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

// decide computes the desired limits.
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

// link returns the link of a PF, or nil.
func (c *Core) link(pf string) *uplink {
	if i := slices.IndexFunc(c.links, func(l *uplink) bool { return l.pf == pf }); i >= 0 {
		return c.links[i]
	}
	return nil
}
