package plan

import (
	"maps"
	"time"

	"sluice/internal/model"
)

// The codes of findings.
const (
	FindStaleMAC      = "stale-mac"        // a free VF carries a MAC
	FindStaleVLAN     = "stale-vlan"       // a free VF carries a VLAN
	FindStaleRate     = "stale-rate"       // a free VF carries a rate limit
	FindStaleTrust    = "stale-trust"      // a free VF is trusted
	FindLeftBehind    = "left-behind"      // a VF carries something of the VM that held it until just now, or a route does
	FindStaleRoute    = "stale-route"      // a switch sends a MAC that no VM has to a VF
	FindStolenMAC     = "stolen-mac"       // a free VF's filter swallows the frames of a VM that is on virtio
	FindDuplicateMAC  = "duplicate-mac"    // two VFs carry one MAC, or two VMs have it on one network
	FindWrongMAC      = "wrong-mac"        // a holder's VF has not its NIC's MAC
	FindRouteAtPF     = "route-at-pf"      // the switch sends a virtio VM's frames to a VF
	FindRouteAtTap    = "route-at-tap"     // the switch sends a VF holder's frames to its deaf virtio NIC
	FindRouteAtIdleVF = "route-at-idle-vf" // the switch sends a holder's frames to its VF, which its guest does not use
	FindRouteUnset    = "route-unset"      // nobody told the switch where a VF holder is: it may send its frames to its deaf virtio NIC
	FindOpenDualPath  = "open-dual-path"   // both paths still get a VM's frames though no move is under way
	FindStaleDualPath = "stale-dual-path"  // what is left of a dual path whose tap has gone
	FindLostDualPath  = "lost-dual-path"   // a dual path at a tap that no VM has
	FindStaleLimit    = "stale-limit"      // what is left of the limits of a tap that has gone
	FindLostLimit     = "lost-limit"       // a tap that no VM has is limited
	FindStalePort     = "stale-port"       // what is left of a port of the embedded switch whose tap has gone
	FindLostPort      = "lost-port"        // a tap that no virtual PF has is a port of the embedded switch
	FindStaleSelf     = "stale-self"       // the PF filters for a MAC whose VM has a VF or has gone
	FindNoSelf        = "no-self"          // VF guests cannot reach a virtio VM: the PF does not filter for its MAC
	FindForeignMAC    = "foreign-mac"      // a VF that is not Sluice's swallows the frames of a VM that does not have it
)

// Urgent says whether a finding cuts a VM off now or soon (a MAC left behind, as soon as
// its VM starts elsewhere; a filter left behind, when none is to spare), so that it is
// repaired at once and not only when asked.
func Urgent(code string) bool {
	switch code {
	case FindStolenMAC, FindRouteAtPF, FindRouteAtTap, FindRouteAtIdleVF, FindRouteUnset, FindOpenDualPath, FindStaleDualPath, FindStaleLimit, FindWrongMAC, FindNoSelf, FindLeftBehind, FindStaleSelf:
		return true
	}
	return false
}

// CutsOff says whether a VM with such a finding cannot be reached at all, or only through
// a path that its guest does not listen on. Urgent findings that do not can wait a little.
func CutsOff(code string) bool {
	switch code {
	case FindStolenMAC, FindRouteAtPF, FindRouteAtTap, FindRouteAtIdleVF, FindRouteUnset, FindWrongMAC:
		return true
	}
	return false
}

// Check finds what a crash or somebody else left behind. NICs that are busy, and their VFs, are passed over. Findings about
// what others own have no Repair. The Checker remembers what earlier Snapshots showed.
func (c *Checker) Check(snap *model.Snapshot, busy Busy, to Timeouts) []model.Finding {
	c.snap, c.busy, c.to, c.out = snap, busy, to, nil
	if c.macs == nil {
		c.macs, c.selfOf, c.ours = map[model.MAC]model.VFID{}, map[string]*marked{}, map[string][]model.MAC{}
	}
	if c.held == nil {
		c.held = map[model.VFID]bool{}
	}
	if c.routed == nil {
		c.routed = map[address]time.Time{}
	}
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
	clear(c.expect)
	return c.out
}

func (c *Checker) isBusy(vm *model.VM, n *model.NIC) bool {
	return c.busy.NIC(model.NICID{VM: vm.ID, NIC: n.Alias})
}

// sweep forgets what no PF or VF that is there can be about.
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

// Checker checks Snapshots one after the other without allocating for each.
type Checker struct {
	snap   *model.Snapshot
	busy   Busy
	to     Timeouts
	macs   map[model.MAC]model.VFID
	self   *marked                // the filters of the PF at hand; marked: a VM has that MAC
	selfOf map[string]*marked     // by PF: they hardly ever change
	held   map[model.VFID]bool    // VFs that a VM held by Sluice's hand, or may have, and that were not seen clean since
	ours   map[string][]model.MAC // per PF, the filters for a MAC that a VM has, or had when it was last looked at
	added  map[model.Filter]bool  // that Sluice added
	routed map[address]time.Time  // what a switch sends to a VF, or may, for a VM, and when that was last seen
	out    []model.Finding

	twice  shared
	expect map[string]bool // PFs whose VFs are about to be used
}

// Used tells of a VF that a Move has set up, or may have: its VM may be gone again before
// any Snapshot shows it there.
func (c *Checker) Used(id model.VFID) {
	if c.held == nil {
		c.held = map[model.VFID]bool{}
	}
	c.held[id] = true
}

// Routed tells that the switch may have been told to send a MAC to a VF, up to a time:
// its VM may be gone again before any Snapshot shows it with a VF.
func (c *Checker) Routed(network string, mac model.MAC, until time.Time) {
	if c.routed == nil {
		c.routed = map[address]time.Time{}
	}
	c.routed[address{network, mac}] = until
}

// Added tells of a PF's filter that Sluice added, now or in an earlier run.
func (c *Checker) Added(f model.Filter) {
	if c.added == nil {
		c.added = map[model.Filter]bool{}
	}
	c.added[f] = true
}

// Removed tells of one that is not there any more.
func (c *Checker) Removed(f model.Filter) { delete(c.added, f) }

// Expect tells the next Check of a PF whose VFs are about to be used, though none is yet:
// VMs on virtio need its filters by then.
func (c *Checker) Expect(pf string) {
	if c.expect == nil {
		c.expect = map[string]bool{}
	}
	c.expect[pf] = true
}

func (c *Checker) add(code, subject, text string, repair ...model.Step) {
	for i := range repair {
		repair[i].Timeout = c.to.of(repair[i].Kind)
	}
	c.out = append(c.out, model.Finding{Code: code, Subject: subject, Text: text, Repair: repair})
}
