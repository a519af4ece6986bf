package bandwidth

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// nic is the state of a NIC, grouped by purpose.
type nic struct {
	id     model.NICID
	vmName string
	age    int // rank by arrival
	link   *uplink
	gone   bool

	promise
	function
	attachment
	counts
	grant
	limits [4]limitState // by slot
	conduct
}

// promise is what a NIC's SLA and the placement policy ask for, and what of that is admitted.
type promise struct {
	sla      model.SLA // according to the rules
	own      model.SLA // the same, with the admitted guarantee and the NIC's part of the VM's packets/s
	promised model.Rate
	tier     uint64 // bits/s to which the placement policy limits its VF; 0: unlimited
}

// attachment is which path a NIC has, and whether that is about to change.
type attachment struct {
	vf       model.VFID    // its VF, whoever attached it
	ours     bool          // attached by Sluice
	byHand   uint64        // bits/s to which its VF is limited that somebody else attached; 0: it is not
	inGuest  model.Tri     // its guest uses it
	claimed  model.Traffic // what is known of the VF path if there are no counters
	left     bool          // it sends on virtio and its VF is no longer counted: the next Snapshot will not show the VF
	plugging bool          // a plug is under way, or next
	leaving  bool          // a plug is under way
	moved    time.Time     // last observed change of its path
	expected time.Time     // when its plug was last announced as next; zero: not since its last VF
	recent   bool          // expected was recently
}

// grant is what a NIC may send, and what it lacks of its guarantee.
type grant struct {
	allow     Allowance // what it may currently send
	shared    bool      // it belongs to the group of its link's tree
	squeezed  bool      // it is short because of senders that cannot be limited
	short     float64   // bits/s
	shortFrom time.Time
}

// uplink is a PF's link and everything that sends through it.
type uplink struct {
	sharers
	pf           string
	speed        uint64         // bits/s that it is taken to carry; 0: unknown
	rated        uint64         // bits/s that its driver last reported, also while it is down
	said         model.Capacity // the same, with its source
	alloc        Allocator
	nics         []*nic // by ID
	wanted       bool   // somebody is to have a part of it, or the Allocator always divides
	weighted     bool   // weights decide about parts of it
	active       bool   // it can be divided too: the Allocator runs
	kernel       bool   // what shares by itself may do so: a tree of taps, the VFs by their minimum rates
	tree         bool   // the taps do
	group        Allowance
	taps         tapPackets
	told         float64 // bits/s: the speed last passed to the allocator
	uncontrolled float64 // bits/s of NICs that cannot be limited
	carried      float64 // bits/s of all
	total        *model.Carried
	up           bool // it has a carrier
	packets      bool // packets/s of its VFs can be limited
	guards       bool // the NIC gives VFs a guarantee
	root         limitState
	port         pathCount
	host         float64   // bits/s that the host itself sends there
	overFrom     time.Time // since when more leaves the port than is counted while a NIC is short
	gone         bool
}

// pathIndex is the array index of a path.
func pathIndex(p model.Path) int {
	if p == model.PathVF {
		return 1
	}
	return 0
}

// slot is the array index of a limit.
func slot(p model.Path, d model.Direction) int {
	i := 2 * pathIndex(p)
	if d == model.Rx {
		i++
	}
	return i
}

// slots lists the paths and directions by slot.
var slots = [4]struct {
	path model.Path
	dir  model.Direction
}{{model.PathVirtio, model.Tx}, {model.PathVirtio, model.Rx}, {model.PathVF, model.Tx}, {model.PathVF, model.Rx}}

// Limits yields the keys of all Limits that the Core may use for a Snapshot.
func Limits(snap *model.Snapshot) iter.Seq[model.LimitKey] {
	return func(yield func(model.LimitKey) bool) {
		for i := range snap.PFs {
			if !yield(rootKey(snap.PFs[i].Name)) {
				return
			}
		}
		for vm, nic := range snap.NICs() {
			for _, s := range slots {
				if !yield(model.LimitKey{VM: vm.ID, NIC: nic.Alias, Path: s.path, Dir: s.dir}) {
					return
				}
			}
		}
	}
}

// rootKey is the key of the limit of all taps behind a PF together.
func rootKey(pf string) model.LimitKey {
	return model.LimitKey{PF: pf, Path: model.PathVirtio, Dir: model.Tx}
}

// Follow updates what changes slowly. Call it with each new Snapshot, and when rules or moves change.
func (c *Core) Follow(now time.Time, w World) {
	for _, n := range c.nics {
		n.gone = true
	}
	for _, l := range c.links {
		l.gone = true
		l.nics = l.nics[:0]
	}
	for _, v := range c.vpfs {
		v.functions, v.gone = v.functions[:0], true
	}
	c.vms = c.vms[:0]
	if c.opts.Off {
		w.Rules = model.Rules{}
	}
	ports, claims, kept := Fit(w.Snapshot, &w.Rules)
	w.Rules = kept
	asked := claims.asked(w.Snapshot, &w.Rules)
	if c.opts.Off { // metadata contains SLAs too
		for i := range asked {
			asked[i].SLA = model.SLA{}
		}
	}
	admitted := Admit(asked, c.opts.Packets)
	c.problems = slices.Concat(admitted.Problems, ports.problems(), claims.problems())
	for i, next := 0, 0; i < len(w.Snapshot.VMs); i++ {
		if vm := &w.Snapshot.VMs[i]; vm.State != model.VMStopped {
			end := next + len(vm.NICs)
			for end < len(asked) && asked[end].Whole {
				end++
			}
			c.followVM(now, &w, vm, asked[next:end], admitted.Promised[next:end])
			next = end
		}
	}
	maps.DeleteFunc(c.byID, func(_ model.NICID, n *nic) bool { return n.gone })
	c.nics = slices.DeleteFunc(c.nics, func(n *nic) bool { return n.gone })
	c.links = slices.DeleteFunc(c.links, func(l *uplink) bool { return l.gone })
	maps.DeleteFunc(c.byPF, func(_ model.NICID, v *virtualPF) bool { return v.gone })
	c.vpfs = slices.DeleteFunc(c.vpfs, func(v *virtualPF) bool { return v.gone })
	slices.SortFunc(c.nics, func(a, b *nic) int { return a.id.Compare(b.id) })
	slices.SortFunc(c.links, func(a, b *uplink) int { return cmp.Compare(a.pf, b.pf) })
	for _, m := range w.Active {
		n := c.byID[model.NICID{VM: m.Move.VM, NIC: m.Move.NIC}]
		if n == nil {
			continue
		}
		n.moved = now
		n.leaving = n.leaving || m.Move.Kind == model.MovePlug
		n.plugging = n.plugging || n.leaving
	}
	for _, l := range c.links {
		slices.SortFunc(l.nics, func(a, b *nic) int { return a.id.Compare(b.id) })
		l.root.follow(&w)
	}
	c.activate()
}

// followVM updates the NICs of a VM from a Snapshot, with what they ask for and are promised.
func (c *Core) followVM(now time.Time, w *World, vm *model.VM, asked []Asked, promised []model.Rate) {
	var packets []*nic
	for i := len(vm.NICs); i < len(asked); i++ {
		if v := c.followVirtual(&asked[i], promised[i]); v.sla.Guarantee.Packets > 0 || v.sla.Limit.Packets > 0 {
			packets = append(packets, &v.nic)
		}
	}
	for i := range vm.NICs {
		in := &vm.NICs[i]
		id := model.NICID{VM: vm.ID, NIC: in.Alias}
		n := c.byID[id]
		if n == nil {
			n = &nic{id: id, age: c.born}
			n.allow, n.seen = Unlimited, now
			n.vf = in.VF // no move, if it was there before it was seen
			c.born++
			c.byID[id] = n
			c.nics = append(c.nics, n)
		}
		n.gone = false
		n.vmName = vm.Name
		n.sla, n.promised = asked[i].SLA, promised[i]
		n.own = n.sla
		n.own.Guarantee = n.promised
		n.follow(now, w, in)
		if in.VirtualPF != "" {
			c.byPF[model.NICID{VM: vm.ID, NIC: model.VPFAlias(in.VirtualPF, -1)}].join(n, c.linkOf(w.Snapshot, in))
			continue
		}
		if n.link = c.linkOf(w.Snapshot, in); n.link != nil {
			n.link.nics = append(n.link.nics, n)
		} else {
			n.hasEnough()
		}
		if n.sla.Guarantee.Packets > 0 || n.sla.Limit.Packets > 0 {
			packets = append(packets, n)
		}
	}
	if len(packets) > 1 {
		c.vms = append(c.vms, packets)
	}
}

// follow updates the NIC from a Snapshot.
func (n *nic) follow(now time.Time, w *World, in *model.NIC) {
	if n.vf != in.VF {
		n.moved = now
		for _, d := range []model.Direction{model.Tx, model.Rx} {
			if s := &n.limits[slot(model.PathVF, d)]; s.by == maxTxRate { // it belonged to another VF
				s.forget()
			} else {
				s.Failed = reconcile.Failure{}
			}
		}
	}
	if n.ours && in.VF == model.NoVF {
		n.expected = time.Time{} // that plug is complete
	}
	n.vf, n.ours = in.VF, in.Ours() != model.NoVF
	n.whole, n.noCarrier = nil, in.Carrier == model.No
	n.claimed, n.inGuest, n.leaving, n.byHand = in.VFPath, model.Unknown, false, 0
	n.plugging = !n.expected.IsZero() && now.Sub(n.expected) < plugMemory
	n.recent = !n.expected.IsZero() && now.Sub(n.expected) < guestMemory
	n.tier = model.VFRate(w.Tiers, n.id)
	for i := range n.limits {
		s := &n.limits[i]
		s.key = model.LimitKey{VM: n.id.VM, NIC: n.id.NIC, Path: slots[i].path, Dir: slots[i].dir}
		s.follow(w)
	}
	if vf := w.Snapshot.FindVF(in.VF); vf != nil {
		n.inGuest = vf.InGuest
		n.readBack(w.Snapshot.Read, vf)
	}
}

// readBack compares what was applied to a VF with what the Snapshot shows of it.
func (n *nic) readBack(read time.Time, vf *model.VF) {
	s := &n.limits[slot(model.PathVF, model.Tx)]
	if !n.ours {
		n.byHand = vf.MaxTxRate
	}
	if s.by != maxTxRate || !n.ours {
		return
	}
	seen, wrong := s.Has, false
	has := seen.Tightest()
	if model.WholeMbit(has.Bits) != vf.MaxTxRate || has.Packets != vf.MaxPackets && (n.polices() || vf.MaxPackets != 0) {
		seen, wrong = model.Limit{LimitKey: s.key, Rate: model.Rate{Bits: vf.MaxTxRate, Packets: vf.MaxPackets}}, true
	}
	if n.link != nil && n.link.guards && vf.RateNode == "" && s.worked && vf.MinTxRate != s.least {
		wrong = true
	}
	switch counts := s.Saw(read, seen); {
	case counts && wrong: // it stays wrong until applied again: later Snapshots are compared with seen
		s.sawOther(read)
	case counts && !s.wrong:
		s.sawSame(read)
	}
}

// polices reports whether packets/s that the NIC sends on a VF can be limited.
func (n *nic) polices() bool { return n.link != nil && n.link.packets }

// maxTxRate is the enforcer whose limits have no lease and are visible in Snapshots.
const maxTxRate = "max_tx_rate"

// linkOf is the link that a NIC shares: that of its VF's PF, else of the PF that leads out of its bridge.
func (c *Core) linkOf(snap *model.Snapshot, in *model.NIC) *uplink {
	pf := pfOf(snap, in)
	if pf == nil {
		return nil
	}
	l := c.link(pf.Name)
	if l == nil {
		l = &uplink{pf: pf.Name, alloc: c.kind.make(), group: Unlimited, total: c.totals[pf.Name]}
		if l.total == nil {
			l.total = new(model.Carried)
			c.totals[pf.Name] = l.total
		}
		l.root.key = rootKey(pf.Name)
		c.links = append(c.links, l)
	}
	l.gone, l.up, l.speed, l.said = false, pf.LinkUp, pf.Shared(), pf.Capacity()
	l.packets, l.guards = pf.Caps.VFPackets == model.Yes, pf.Caps.MinTxRate == model.Yes
	l.rated = cmp.Or(pf.Speed, l.rated)
	return l
}

// pfOf is the PF whose link a NIC shares, or nil.
func pfOf(snap *model.Snapshot, in *model.NIC) *model.PF {
	if pf := snap.FindPF(in.VF.PF); pf != nil {
		return pf
	}
	return snap.VirtioPF(in)
}
