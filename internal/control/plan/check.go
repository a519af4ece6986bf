package plan

import (
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// Codes of findings.
const (
	FindStaleMAC      = "stale-mac"        // a free VF carries a MAC
	FindStaleVLAN     = "stale-vlan"       // a free VF carries a VLAN
	FindStaleRate     = "stale-rate"       // a free VF carries a rate limit
	FindStaleTrust    = "stale-trust"      // a free VF is trusted
	FindLeftBehind    = "left-behind"      // a VF or a route still carries settings of the VM that held it until just now
	FindStaleRoute    = "stale-route"      // a switch sends a MAC to a VF though no VM has that MAC
	FindStolenMAC     = "stolen-mac"       // a free VF's filter captures the frames of a VM that is on virtio
	FindDuplicateMAC  = "duplicate-mac"    // two VFs carry one MAC, or two VMs have it on one network
	FindWrongMAC      = "wrong-mac"        // a holder's VF does not carry its NIC's MAC
	FindWrongVLAN     = "wrong-vlan"       // a holder's VF is not in its NIC's VLAN
	FindRouteAtPF     = "route-at-pf"      // the switch sends a virtio VM's frames to a VF
	FindRouteAtTap    = "route-at-tap"     // the switch sends a VF holder's frames to its inactive virtio NIC
	FindRouteAtIdleVF = "route-at-idle-vf" // the switch sends a holder's frames to its VF, which its guest does not use
	FindElsewhere     = "route-elsewhere"  // the switch sends a VF holder's frames to another port than its VF's
	FindPortDown      = "port-down"        // the representor of a VF that a guest uses is set down
	FindRouteUnset    = "route-unset"      // the switch has no entry for a VF holder: it may send its frames to its inactive virtio NIC
	FindOpenDualPath  = "open-dual-path"   // both paths still get a VM's frames though no move is under way
	FindStaleDualPath = "stale-dual-path"  // a dual path is still listed, but its tap is gone
	FindLostDualPath  = "lost-dual-path"   // a dual path at a tap that no VM has
	FindStaleLimit    = "stale-limit"      // limits of a tap are still listed, but the tap is gone
	FindLostLimit     = "lost-limit"       // a tap that no VM has is limited
	FindStalePort     = "stale-port"       // a port of the embedded switch is still listed, but its tap is gone
	FindLostPort      = "lost-port"        // a tap that no virtual PF has is a port of the embedded switch
	FindStaleSelf     = "stale-self"       // the PF filters for a MAC whose VM has a VF or is gone
	FindNoSelf        = "no-self"          // VF guests cannot reach a virtio VM: the PF does not filter for its MAC
	FindForeignMAC    = "foreign-mac"      // a VF that is not Sluice's captures the frames of a VM that does not hold it
)

// Urgent reports whether a finding cuts a VM off now or soon, so that it is repaired at once and not only on request. A MAC left
// behind cuts its VM off as soon as that starts elsewhere; a filter left behind does so when the PF has no filters to spare.
func Urgent(code string) bool {
	switch code {
	case FindStolenMAC, FindRouteAtPF, FindRouteAtTap, FindRouteAtIdleVF, FindElsewhere, FindPortDown, FindRouteUnset, FindOpenDualPath,
		FindStaleDualPath, FindStaleLimit, FindWrongMAC, FindWrongVLAN, FindNoSelf, FindLeftBehind, FindStaleSelf:
		return true
	}
	return false
}

// CutsOff reports whether a VM with such a finding cannot be reached at all, or only through a path on which its guest does not
// listen. Other urgent findings can wait a little.
func CutsOff(code string) bool {
	switch code {
	case FindStolenMAC, FindRouteAtPF, FindRouteAtTap, FindRouteAtIdleVF, FindElsewhere, FindPortDown, FindRouteUnset, FindWrongMAC,
		FindWrongVLAN:
		return true
	}
	return false
}

// Check finds what a crash or somebody else left behind. It skips busy NICs and their VFs. Findings about what others own have no
// Repair. The Checker keeps state from earlier Snapshots.
func (c *Checker) Check(snap *model.Snapshot, busy Busy, to Timeouts) []model.Finding {
	c.snap, c.busy, c.to, c.out = snap, busy, to, nil
	clear(c.macs)
	c.sweep()
	c.twice.look(snap)
	for i := range snap.PFs {
		for j := range snap.PFs[i].VFs {
			c.vf(&snap.PFs[i], &snap.PFs[i].VFs[j])
		}
		c.selfs(&snap.PFs[i])
	}
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		for j := range vm.NICs {
			switch n := &vm.NICs[j]; {
			case c.isBusy(vm, n):
			case vm.State == model.VMRunning:
				c.nic(vm, n)
			case vm.State == model.VMMigrating:
				c.leaving(vm, n)
			}
		}
	}
	for i := range snap.DualPaths {
		c.dualPath(&snap.DualPaths[i])
	}
	for i := range snap.Limited {
		c.limited(&snap.Limited[i])
	}
	for i := range snap.Ports {
		c.port(&snap.Ports[i])
	}
	c.strays()
	if len(snap.Unread) > 0 {
		spare(c.out)
	}
	clear(c.expect)
	return c.out
}

// spare takes away the repairs that concern no VM: what they would clear up may belong to one that could not be read. Those without
// which another VM cannot be reached stay.
func spare(found []model.Finding) {
	for i := range found {
		f := &found[i]
		if !CutsOff(f.Code) && !slices.ContainsFunc(f.Repair, func(s model.Step) bool { return s.Subject.VM != "" }) {
			f.Repair = nil
		}
	}
}

func (c *Checker) isBusy(vm *model.VM, n *model.NIC) bool {
	return c.busy.NIC(model.NICID{VM: vm.ID, NIC: n.Alias})
}

// sweep drops state about PFs and VFs that no longer exist.
func (c *Checker) sweep() {
	vfs := 0
	for i := range c.snap.PFs {
		vfs += len(c.snap.PFs[i].VFs)
	}
	if len(c.held) > vfs {
		maps.DeleteFunc(c.held, func(id model.VFID, _ bool) bool { return c.snap.FindVF(id) == nil })
	}
	if len(c.ours) > len(c.snap.PFs) {
		maps.DeleteFunc(c.ours, func(pf string, _ []model.MAC) bool { return c.snap.FindPF(pf) == nil })
	}
}

// Checker checks successive Snapshots without allocating for each.
type Checker struct {
	snap   *model.Snapshot
	busy   Busy
	to     Timeouts
	macs   map[model.MAC]model.VFID
	self   *marked                // the filters of the current PF; marked: a VM has that MAC
	selfOf map[string]*marked     // by PF: they hardly ever change
	held   map[model.VFID]bool    // VFs that a VM held, or may have held, through Sluice, and that have not been seen clean since
	ours   map[string][]model.MAC // per PF, the filters for a MAC that a VM has, or had in the last Snapshot
	added  map[model.Filter]bool  // filters that Sluice added
	routed map[address]time.Time  // what a switch sends, or may send, to a VF for a VM, and when this was last seen
	out    []model.Finding

	twice  shared
	expect map[string]bool // PFs whose VFs are about to be used
}

// NewChecker returns a Checker that has seen no Snapshot yet.
func NewChecker() *Checker {
	return &Checker{
		macs: map[model.MAC]model.VFID{}, selfOf: map[string]*marked{}, held: map[model.VFID]bool{}, ours: map[string][]model.MAC{},
		added: map[model.Filter]bool{}, routed: map[address]time.Time{}, expect: map[string]bool{},
	}
}

// Used records a VF that a Move has set up, or may have set up: its VM may be gone before any Snapshot shows it there.
func (c *Checker) Used(id model.VFID) { c.held[id] = true }

// Routed records that, up to a time, the switch may have been told to send a MAC to a VF: its VM may be gone before any Snapshot
// shows it with a VF.
func (c *Checker) Routed(network string, mac model.MAC, until time.Time) {
	c.routed[address{network, mac}] = until
}

// Added records a PF's filter that Sluice added, in this run or an earlier one.
func (c *Checker) Added(f model.Filter) { c.added[f] = true }

// Removed records that a filter no longer exists.
func (c *Checker) Removed(f model.Filter) { delete(c.added, f) }

// Expect tells the next Check that a PF's VFs are about to be used though none is yet: VMs on virtio need the PF's filters by
// then.
func (c *Checker) Expect(pf string) { c.expect[pf] = true }

func (c *Checker) add(code, subject, text string, repair ...model.Step) {
	for i := range repair {
		repair[i].Timeout = c.to.of(&repair[i])
	}
	c.out = append(c.out, model.Finding{Code: code, Subject: subject, Text: text, Repair: repair})
}
