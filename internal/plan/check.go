package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// The codes of findings.
const (
	FindStaleMAC     = "stale-mac"      // a free VF carries a MAC
	FindStaleVLAN    = "stale-vlan"     // a free VF carries a VLAN
	FindStaleRate    = "stale-rate"     // a free VF carries a rate limit
	FindStaleTrust   = "stale-trust"    // a free VF is trusted
	FindLeftBehind   = "left-behind"    // a VF carries something of the VM that held it until just now, or a bridge entry does
	FindStaleFDB     = "stale-fdb"      // a bridge sends a MAC that no VM has to a PF
	FindStolenMAC    = "stolen-mac"     // a free VF's filter swallows the frames of a VM that is on virtio
	FindDuplicateMAC = "duplicate-mac"  // two VFs carry one MAC, or two VMs have it on one network
	FindWrongMAC     = "wrong-mac"      // a holder's VF has not its NIC's MAC
	FindFDBAtPF      = "fdb-at-pf"      // the bridge sends a virtio VM's frames to the PF
	FindFDBAtTap     = "fdb-at-tap"     // the bridge sends a VF holder's frames to its deaf virtio NIC
	FindFDBAtIdleVF  = "fdb-at-idle-vf" // the bridge sends a holder's frames to its VF, which its guest does not use
	FindFDBUnset     = "fdb-unset"      // a VF holder has no bridge entry: the bridge may send its frames to its deaf virtio NIC
	FindOpenWindow   = "open-window"    // both paths still get a VM's frames though no move is under way
	FindStaleMirror  = "stale-mirror"   // what is left of a window whose tap has gone
	FindLostMirror   = "lost-mirror"    // a window is open at a tap that no VM has
	FindStaleLimit   = "stale-limit"    // what is left of the limits of a tap that has gone
	FindLostLimit    = "lost-limit"     // a tap that no VM has is limited
	FindStalePort    = "stale-port"     // what is left of a port of the embedded switch whose tap has gone
	FindLostPort     = "lost-port"      // a tap that no virtual PF has is a port of the embedded switch
	FindStaleSelf    = "stale-self"     // the PF filters for a MAC whose VM has a VF or has gone
	FindNoSelf       = "no-self"        // VF guests cannot reach a virtio VM: the PF does not filter for its MAC
	FindForeignMAC   = "foreign-mac"    // a VF that is not Sluice's swallows the frames of a VM that does not have it
)

// Urgent says whether a finding cuts a VM off now or soon (a MAC left behind, as soon as
// its VM starts elsewhere; a filter left behind, when none is to spare), so that it is
// repaired at once and not only when asked.
func Urgent(code string) bool {
	switch code {
	case FindStolenMAC, FindFDBAtPF, FindFDBAtTap, FindFDBAtIdleVF, FindFDBUnset, FindOpenWindow, FindStaleMirror, FindStaleLimit, FindWrongMAC, FindNoSelf, FindLeftBehind, FindStaleSelf:
		return true
	}
	return false
}

// CutsOff says whether a VM with such a finding cannot be reached at all, or only through
// a path that its guest does not listen on. Urgent findings that do not can wait a little.
func CutsOff(code string) bool {
	switch code {
	case FindStolenMAC, FindFDBAtPF, FindFDBAtTap, FindFDBAtIdleVF, FindFDBUnset, FindWrongMAC:
		return true
	}
	return false
}

// Check finds what a crash or somebody else left behind. NICs that are busy, and their VFs,
// are passed over. Findings about what others own have no Repair.
func Check(snap *model.Snapshot, busy Busy, to Timeouts) []model.Finding {
	var c Checker
	return c.Check(snap, busy, to)
}

// Check is Check with memory that is kept for the next time.
func (c *Checker) Check(snap *model.Snapshot, busy Busy, to Timeouts) []model.Finding {
	c.snap, c.busy, c.to, c.out = snap, busy, to, nil
	if c.macs == nil {
		c.macs, c.selfOf, c.ours = map[model.MAC]model.VFID{}, map[string]*marked{}, map[string][]model.MAC{}
	}
	if c.held == nil {
		c.held = map[model.VFID]bool{}
	}
	if c.pinned == nil {
		c.pinned = map[address]time.Time{}
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
	for i := range snap.Mirrors {
		c.mirror(&snap.Mirrors[i])
	}
	for i := range snap.Limited {
		c.limited(&snap.Limited[i])
	}
	for i := range snap.Ports {
		c.port(&snap.Ports[i])
	}
	c.pins()
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
	pinned map[address]time.Time  // what a bridge sends to a PF, or may, for a VM, and when that was last seen
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

// Pinned tells that the bridge may have been told to send a MAC to a PF, up to a time:
// its VM may be gone again before any Snapshot shows it with a VF.
func (c *Checker) Pinned(network string, mac model.MAC, until time.Time) {
	if c.pinned == nil {
		c.pinned = map[address]time.Time{}
	}
	c.pinned[address{network, mac}] = until
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

func (c *Checker) vf(pf *model.PF, vf *model.VF) {
	if !vf.MAC.IsZero() {
		if other, dup := c.macs[vf.MAC]; dup {
			c.add(FindDuplicateMAC, "VF "+vf.ID.String(), fmt.Sprintf("carries MAC %s, which VF %s carries too", vf.MAC, other))
		}
		c.macs[vf.MAC] = vf.ID
	}
	if vf.Owner == model.OwnerSluice {
		c.held[vf.ID] = true
	}
	if vf.Owner == model.OwnerForeign {
		c.foreign(pf, vf)
		return
	}
	if vf.Owner != model.OwnerFree {
		return
	}
	c.free(vf)
}

// free checks that a released VF carries nothing of its last holder.
func (c *Checker) free(vf *model.VF) {
	if vf.MAC.IsZero() && vf.VLAN == 0 && vf.MaxTxRate == 0 && vf.MinTxRate == 0 && vf.Trust != model.Yes {
		delete(c.held, vf.ID)
		return
	}
	who := "VF " + vf.ID.String()
	clear := model.Step{Kind: model.StepClearVF, Subject: model.Subject{VF: vf.ID}, VF: model.VFStep{ID: vf.ID, Address: vf.Address, MAC: vf.MAC}}
	if vm, n := c.owner(vf.MAC); vm != nil {
		if c.isBusy(vm, n) {
			return
		}
		if vm.State != model.VMStopped {
			c.add(FindStolenMAC, who, fmt.Sprintf("is free but filters for %s, MAC %s: the NIC sends that VM's frames to a VF nobody listens on", vm.Name, vf.MAC), clear)
			return
		}
	}
	switch {
	case c.held[vf.ID]:
		c.add(FindLeftBehind, who, "is free but set up still for the VM that held it, MAC "+vf.MAC.String(), clear)
	case !vf.MAC.IsZero():
		c.add(FindStaleMAC, who, "is free but carries MAC "+vf.MAC.String(), clear)
	case vf.VLAN != 0:
		c.add(FindStaleVLAN, who, fmt.Sprintf("is free but carries VLAN %d", vf.VLAN), clear)
	case vf.MaxTxRate != 0 || vf.MinTxRate != 0:
		c.add(FindStaleRate, who, fmt.Sprintf("is free but limited to %d bit/s", vf.MaxTxRate), clear)
	case vf.Trust == model.Yes:
		c.add(FindStaleTrust, who, "is free but trusted", clear)
	}
}

// foreign checks a VF that is somebody else's. There is no repair: whoever set it up may
// mean it, or use it.
func (c *Checker) foreign(pf *model.PF, vf *model.VF) {
	vm, n := c.owner(vf.MAC)
	if vm == nil || vm.ID == vf.Holder || vm.State == model.VMStopped || c.isBusy(vm, n) {
		return
	}
	for i := range vm.NICs {
		if n := &vm.NICs[i]; n.MAC == vf.MAC && n.Network == pf.Network {
			c.add(FindForeignMAC, "VF "+vf.ID.String(), fmt.Sprintf(
				"is not Sluice's (%s) but filters for %s, MAC %s: the NIC sends it that VM's frames; if nobody needs it so, `ip link set %s vf %d mac 00:00:00:00:00:00`",
				vf.OwnerWhy, vm.Name, vf.MAC, vf.ID.PF, vf.ID.Index))
		}
	}
}

// owner is the VM with a NIC of that MAC, and the NIC, or nil. It is hardly ever asked for.
func (c *Checker) owner(mac model.MAC) (*model.VM, *model.NIC) {
	if mac.IsZero() {
		return nil, nil
	}
	for i := range c.snap.VMs {
		vm := &c.snap.VMs[i]
		for j := range vm.NICs {
			if vm.NICs[j].MAC == mac {
				return vm, &vm.NICs[j]
			}
		}
	}
	return nil, nil
}

// nic checks that the bridge and the VF agree with where the guest listens.
func (c *Checker) nic(vm *model.VM, n *model.NIC) {
	if other := c.twice.other(vm, n); other != "" {
		// What is right for the one is wrong for the other: repairs would undo each other.
		c.add(FindDuplicateMAC, "VM "+vm.Name, fmt.Sprintf("has MAC %s on %s, which %s has too: frames for it reach either, and neither is given a VF; give one of them another MAC and restart it", n.MAC, n.Network, other))
		return
	}
	if n.VF == model.NoVF && !n.Window && n.FDB == "" {
		return
	}
	step := func(k model.StepKind) model.Step { return c.nicStep(vm, n, k) }
	vf := c.snap.FindVF(n.VF)
	switch idle := vf != nil && vf.InGuest != model.Yes && n.VFOwner == model.OwnerSluice; {
	case !n.Window || idle: // a guest may take up a VF that it does not use at any moment: both paths are right
	case n.VFOwner == model.OwnerForeign:
		c.add(FindOpenWindow, "VM "+vm.Name, "gets its frames on both paths though no move is under way", step(model.StepCloseWindow))
	default:
		c.add(FindOpenWindow, "VM "+vm.Name, "gets its frames on both paths though no move is under way", step(model.StepFollowGuest), step(model.StepAnnounce))
	}
	if n.VF == model.NoVF {
		if pf := c.snap.FindPort(n.FDB); pf != nil && pf.Managed {
			c.add(FindFDBAtPF, "VM "+vm.Name, fmt.Sprintf("is on virtio, but bridge %s sends %s to %s", n.Network, n.MAC, n.FDB),
				step(model.StepFDBToTap), step(model.StepAnnounce))
		}
		return
	}
	if n.VFOwner != model.OwnerSluice || vf == nil {
		return
	}
	if vf.MAC != n.MAC {
		c.add(FindWrongMAC, "VM "+vm.Name, fmt.Sprintf("holds VF %s, which carries MAC %s instead of %s", n.VF, vf.MAC, n.MAC), step(model.StepSetMAC))
	}
	c.idle(vm, n, vf)
	if n.FDB == "" && vf.InGuest == model.Yes && !n.Window && c.snap.FindPF(n.VF.PF).Uplink.Switch == n.Network && n.Network != "" {
		c.add(FindFDBUnset, "VM "+vm.Name, fmt.Sprintf("uses VF %s, but bridge %s is not told to send %s there: it has come from another host, say", n.VF, n.Network, n.MAC),
			step(model.StepFollowGuest), step(model.StepAnnounce))
	}
	if n.FDB == n.Tap && n.Tap != "" && vf.InGuest == model.Yes && !n.Window {
		c.add(FindFDBAtTap, "VM "+vm.Name, fmt.Sprintf("uses VF %s, but bridge %s sends %s to its virtio NIC, which is deaf meanwhile", n.VF, n.Network, n.MAC),
			step(model.StepFollowGuest), step(model.StepAnnounce))
	}
}

// idle checks that a guest which does not use its VF is not reached through that alone.
func (c *Checker) idle(vm *model.VM, n *model.NIC, vf *model.VF) {
	if vf.InGuest != model.No || n.FDB == "" || c.snap.FindPF(n.VF.PF).Port() != n.FDB {
		return
	}
	c.add(FindFDBAtIdleVF, "VM "+vm.Name, fmt.Sprintf("has VF %s, which its guest does not use, but bridge %s sends %s there", n.VF, n.Network, n.MAC),
		c.nicStep(vm, n, model.StepFollowGuest), c.nicStep(vm, n, model.StepAnnounce))
}

// leaving checks a VM that migrates away, or is being saved: QEMU has its guest give the VF up before memory
// moves, and until that is over, or cancelled, the guest listens on virtio here, while the VF's filter still takes its frames.
// Host and bridge alone are set right: what libvirt has of the VM is not touched. At the
// target no entry leads to the PF yet, so that nothing is found there.
func (c *Checker) leaving(vm *model.VM, n *model.NIC) {
	if vf := c.snap.FindVF(n.VF); vf != nil && n.VFOwner == model.OwnerSluice {
		c.idle(vm, n, vf)
	}
}

// mirror tells of a window of nobody's. Where the tap is there, a VM may be on its way that
// is not listed yet.
func (c *Checker) mirror(m *model.Mirror) {
	repair := model.Step{
		Kind: model.StepCloseWindow, Subject: model.Subject{PF: m.PF},
		Path: model.PathStep{MAC: m.MAC, VLAN: m.VLAN, Tap: m.Tap, PF: m.PF, Uplink: uplink(c.snap, m.PF)},
	}
	if vm, _ := c.owner(m.MAC); vm != nil {
		repair.Path.PF, repair.Path.Uplink = "", "" // has another tap now; where its bridge entry points is its own matter
	}
	if m.Detached == model.Yes {
		c.add(FindStaleMirror, "tap "+m.Tap, fmt.Sprintf("has gone, but the mirror of %s to %s is still listed", m.MAC, m.PF), repair)
		return
	}
	c.add(FindLostMirror, "tap "+m.Tap, fmt.Sprintf("copies the frames for %s to %s, and no VM has that tap and MAC", m.MAC, m.PF), repair)
}

// limited tells of limits of nobody's. Where the tap is there, a VM may be on its way that
// is not listed yet.
func (c *Checker) limited(l *model.TapLimit) {
	repair := model.Step{Kind: model.StepClearTap, Subject: model.Subject{Tap: l.Tap}, Path: model.PathStep{Tap: l.Tap}}
	if l.Detached == model.Yes {
		c.add(FindStaleLimit, "tap "+l.Tap, "has gone, or somebody has taken Sluice's programs off it, but its limits are still listed", repair)
		return
	}
	c.add(FindLostLimit, "tap "+l.Tap, "is limited by Sluice, and no VM has it", repair)
}

// port tells of ports of the embedded switch that are nobody's. One whose tap is there stays: who took its policy away would open it.
func (c *Checker) port(l *model.TapLimit) {
	if l.Detached != model.Yes {
		c.add(FindLostPort, "tap "+l.Tap, "is held to the policy of a virtual VF, and no virtual PF has it: it is cleared up when the tap goes")
		return
	}
	repair := model.Step{Kind: model.StepClearPort, Subject: model.Subject{Tap: l.Tap}, Path: model.PathStep{Tap: l.Tap}}
	c.add(FindStalePort, "tap "+l.Tap, "has gone, but the policy of a virtual VF on it is still listed", repair)
}

// address is what a bridge looks up.
type address struct {
	network string
	mac     model.MAC
}

// pins finds bridge entries that send the frames of a VM that has gone to a PF still: when
// it starts again it is on virtio. Those of VMs that were never seen may be somebody else's.
func (c *Checker) pins() {
	for i := range c.snap.VMs {
		for j := range c.snap.VMs[i].NICs {
			n := &c.snap.VMs[i].NICs[j]
			if n.VF != model.NoVF && n.VFOwner == model.OwnerSluice || n.FDB != "" && n.FDB != n.Tap {
				c.pinned[address{n.Network, n.MAC}] = c.snap.Time
			}
		}
	}
	for _, p := range c.snap.Pins {
		code, at := FindStaleFDB, address{p.Network, p.MAC}
		if _, known := c.pinned[at]; known {
			code, c.pinned[at] = FindLeftBehind, c.snap.Time
		}
		path := model.PathStep{MAC: p.MAC, VLAN: p.VLAN, Network: p.Network, PF: p.Port}
		if pf := c.snap.FindPort(p.Port); pf != nil {
			path.PF, path.Uplink = pf.Name, uplink(c.snap, pf.Name)
		}
		c.add(code, "bridge "+p.Network, fmt.Sprintf("sends %s, which no VM has, to %s", p.MAC, p.Port),
			model.Step{Kind: model.StepCloseWindow, Subject: model.Subject{PF: path.PF}, Path: path})
	}
	maps.DeleteFunc(c.pinned, func(_ address, last time.Time) bool { return c.snap.Read.After(last) })
}

// nicStep is a Step about a NIC and the VF behind it, or the PF it is wrongly sent to.
func (c *Checker) nicStep(vm *model.VM, n *model.NIC, k model.StepKind) model.Step {
	vf := c.snap.FindVF(n.VF)
	if vf == nil {
		vf = &model.VF{}
	}
	p := payloads(c.snap, vm, n, vf)
	p.Subject.NIC = n.Alias
	if p.Path.PF == "" {
		p.Path.PF = c.pfOf(n)
		p.Path.Uplink = uplink(c.snap, p.Path.PF)
	}
	return step(k, &p, c.to)
}

// pfOf is the PF that the bridge sends the NIC's frames to, or else one of its network.
func (c *Checker) pfOf(n *model.NIC) string {
	if pf := c.snap.FindPort(n.FDB); pf != nil {
		return pf.Name
	}
	for i := range c.snap.PFs {
		if pf := &c.snap.PFs[i]; pf.Managed && pf.Network == n.Network {
			return pf.Name
		}
	}
	return ""
}

// selfs compares the PF's own filters with who needs one: a VM on virtio does (a frame
// from a VF that matches no filter goes to the wire, not to the bridge), a holder must
// not (it would get every frame of the wire twice).
func (c *Checker) selfs(pf *model.PF) {
	if !pf.Managed || pf.Network == "" || pf.NumVFs == 0 {
		return
	}
	c.self = c.selfOf[pf.Name].unmarked(pf.SelfFDB)
	c.selfOf[pf.Name] = c.self
	room := 1 // when it is unknown how many it takes, another try tells
	if pf.SelfSlots > 0 {
		room = pf.SelfSlots - len(pf.SelfFDB)
	}
	inUse := pf.InUse() || c.expect[pf.Name]
	for i := range c.snap.VMs {
		vm := &c.snap.VMs[i]
		// A VM that is migrating in still runs elsewhere: with a filter, no other VM of this host reaches it.
		running := vm.State == model.VMRunning
		for j := range vm.NICs {
			n := &vm.NICs[j]
			have := c.self.mark(n.MAC)
			if running && n.Network == pf.Network && !c.isBusy(vm, n) {
				c.filter(pf, vm, n, have, inUse, room > 0)
			}
		}
	}
	c.lost(pf)
}

// lost finds filters for VMs that have gone. Those it never saw a VM
// for and that Sluice did not add are somebody else's.
func (c *Checker) lost(pf *model.PF) {
	for i, mac := range pf.SelfFDB {
		if !c.self.is(i) && (c.added[model.Filter{PF: pf.Name, MAC: mac}] || slices.Contains(c.ours[pf.Name], mac)) {
			c.self.mark(mac)
			c.add(FindStaleSelf, "PF "+pf.Name, fmt.Sprintf("filters for %s, whose VM has gone", mac),
				model.Step{Kind: model.StepDelSelf, Subject: model.Subject{PF: pf.Name}, Path: model.PathStep{MAC: mac, Network: pf.Network, PF: pf.Name}})
		}
	}
	ours := c.ours[pf.Name][:0]
	for i, mac := range pf.SelfFDB {
		if c.self.is(i) {
			ours = append(ours, mac)
		}
	}
	c.ours[pf.Name] = ours
}

func (c *Checker) filter(pf *model.PF, vm *model.VM, n *model.NIC, have, inUse, room bool) {
	onVF := false
	if vf := c.snap.FindVF(n.VF); vf != nil {
		onVF = vf.InGuest != model.No
	}
	step := func(k model.StepKind) model.Step {
		return model.Step{
			Kind: k, Subject: model.Subject{VM: vm.ID, NIC: n.Alias, VMName: vm.Name},
			Path: model.PathStep{MAC: n.MAC, Tap: n.Tap, VLAN: n.VLAN, Network: n.Network, PF: pf.Name},
		}
	}
	switch {
	case c.twice.other(vm, n) != "":
	case onVF && have && n.VF.PF == pf.Name && n.Window: // it goes when the window is closed
	case onVF && have && n.VF.PF == pf.Name:
		c.add(FindStaleSelf, "PF "+pf.Name, fmt.Sprintf("filters for %s of %s, which has VF %s", n.MAC, vm.Name, n.VF), c.nicStep(vm, n, model.StepFollowGuest))
	case n.VirtualPF != "" && n.Carrier == model.No: // nothing can reach it yet
	case !onVF && !have && inUse && !room:
		c.add(FindNoSelf, "VM "+vm.Name, fmt.Sprintf("is on virtio and cannot be reached from VFs of %s: all %d filters that its driver takes are in use; a VF would help, or fewer VMs on its network", pf.Name, pf.SelfSlots))
	case !onVF && !have && inUse:
		c.add(FindNoSelf, "VM "+vm.Name, fmt.Sprintf("is on virtio and cannot be reached from VFs of %s, which does not filter for %s", pf.Name, n.MAC), step(model.StepAddSelf))
	}
}
