package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// Snapshot shows the world as package observe would. The result stays valid until the second next call; Copy it to keep it longer.
func (w *World) Snapshot(context.Context) (*model.Snapshot, error) {
	if w.down {
		return nil, errLibvirt
	}
	w.turn = 1 - w.turn
	s := &w.bufs[w.turn]
	s.Time, s.Read = w.Now, w.reread()
	if len(s.PFs) != len(w.pfs) {
		s.PFs = make([]model.PF, len(w.pfs))
	}
	for i, p := range w.pfs {
		w.picturePF(&s.PFs[i], p)
	}
	if cap(s.VMs) < len(w.vms) {
		s.VMs = make([]model.VM, 0, len(w.vms)*2)
	}
	s.VMs = s.VMs[:len(w.vms)]
	for i, v := range w.vms {
		w.pictureVM(&s.VMs[i], v, s)
	}
	w.picturePins(s)
	w.pictureDualPaths(s)
	if w.Patch != nil {
		w.Patch(s)
	}
	return s, nil
}

func (w *World) picturePF(out *model.PF, p *PF) {
	vfs, self, selfs := out.VFs[:0], out.SelfFDB[:0], p.self
	if old := w.slow; old != nil && len(old.vfs[p.Name]) == len(p.VFs) {
		vfs, selfs = append(vfs, old.vfs[p.Name]...), old.self[p.Name]
	} else {
		vfs = append(vfs, p.VFs...) // the PF's own must not change
	}
	*out = p.PF
	out.VFs = vfs
	for i := range out.VFs {
		out.VFs[i].Owner, out.VFs[i].Holder, out.VFs[i].InGuest = model.OwnerFree, "", model.No
	}
	if len(selfs) > 0 {
		for n := range w.nics() {
			if selfs[n.MAC] {
				self = append(self, n.MAC)
			}
		}
	}
	if n := len(self); n < len(selfs) { // filters for VMs that have gone
		for mac := range selfs {
			if !slices.Contains(self[:n], mac) {
				self = append(self, mac)
			}
		}
		slices.SortFunc(self[n:], func(a, b model.MAC) int { return slices.Compare(a[:], b[:]) })
	}
	out.SelfFDB = self
}

func (w *World) pictureVM(out *model.VM, v *VM, s *model.Snapshot) {
	nics := out.NICs
	if cap(nics) < len(v.NICs) {
		nics = make([]model.NIC, len(v.NICs))
	}
	*out = model.VM{
		ID: v.ID, Name: v.Name, State: v.State, NUMANode: v.NUMA, VCPUs: max(1, v.VCPUs), Ready: model.Yes,
		CPUKnown: true, NICs: nics[:len(v.NICs)], Ports: v.freePorts(),
		InGuest: model.TriOf(v.InGuest), SLAs: v.SLAs,
	}
	l := w.load(out, v)
	for i, n := range v.NICs {
		w.pictureNIC(&out.NICs[i], n, s)
		l.picture(w, &out.NICs[i], n)
	}
}

func (w *World) pictureNIC(out *model.NIC, n *NIC, s *model.Snapshot) {
	*out = model.NIC{
		Alias: n.Alias, MAC: n.MAC, Tap: n.tap, Network: n.Net, Failover: model.FailoverTeaming,
		FreePort: model.TriOf(n.VM.freePort()), LinkUp: model.TriOf(!n.TapDown), VLAN: n.VLAN,
	}
	if old := w.slow; old != nil {
		out.Route, out.DualPath = old.fdb[n.address()], n.copied(old.mirrors)
	} else {
		out.Route, out.DualPath = w.fdb[n.address()], n.copied(w.mirrors)
	}
	if k := w.kindOf(n.Net); out.Route != "" && k.logical {
		out.RouteBy = k.kind
	}
	if n.VM.NoTeaming {
		out.Failover = model.FailoverNone
	}
	if n.Function != nil {
		n.Function.picture(out)
	}
	if n.hasVF != model.NoVF {
		out.VF, out.VFOwner = n.hasVF, model.OwnerSluice
		if n.foreign {
			out.VFOwner = model.OwnerForeign
		}
		if vf := s.FindVF(n.hasVF); vf != nil {
			vf.Owner, vf.Holder, vf.InGuest = out.VFOwner, n.VM.ID, model.TriOf(w.inGuest(n))
			if n.foreign {
				vf.OwnerWhy = n.VM.Name + " has it as hostdev0, not attached by Sluice"
			}
		}
	}
}

// copied reports whether a half of the NIC's dual path is open.
func (n *NIC) copied(mirrors map[mirror]string) bool {
	for m, to := range mirrors {
		if m.mac == n.MAC && (m.tap == n.tap || to == n.tap) {
			return true
		}
	}
	return false
}

// pictureDualPaths lists what is left at representors of dual paths of VMs that are gone.
func (w *World) pictureDualPaths(s *model.Snapshot) {
	mirrors := w.mirrors
	if w.slow != nil {
		mirrors = w.slow.mirrors
	}
	s.DualPaths = s.DualPaths[:0]
	taps := map[string]bool{}
	if len(mirrors) > 0 {
		for n := range w.nics() {
			taps[n.tap] = true
		}
	}
	for m, to := range mirrors {
		p, vf := w.behind(m.tap)
		if m.tap == deadPort {
			p = w.pfs[0] // whichever it was: it has no part in ending the dual path
		}
		if (vf != nil || m.tap == deadPort) && !taps[to] {
			s.DualPaths = append(s.DualPaths, model.DualPath{Tap: to, MAC: m.mac, PF: p.Name, Kind: p.Uplink.Kind, Detached: model.Yes})
		}
	}
	slices.SortFunc(s.DualPaths, func(a, b model.DualPath) int { return slices.Compare(a.MAC[:], b.MAC[:]) })
}

// picturePins lists the bridge entries at PFs for VMs that are gone.
func (w *World) picturePins(s *model.Snapshot) {
	fdb := w.fdb
	if w.slow != nil {
		fdb = w.slow.fdb
	}
	s.Routes = s.Routes[:0]
	if len(fdb) == 0 {
		return
	}
	there := make(map[address]bool, len(w.vms))
	for n := range w.nics() {
		there[n.address()] = true
	}
	for at, port := range fdb {
		p, _ := w.behind(port)
		k := w.kindOf(at.network)
		r := model.Route{Network: at.network, MAC: at.mac, Port: port}
		if k.logical {
			r.Kind = k.kind
		}
		if (p != nil || k.logical) && !there[at] {
			s.Routes = append(s.Routes, r)
		}
	}
	slices.SortFunc(s.Routes, func(a, b model.Route) int { return slices.Compare(a.MAC[:], b.MAC[:]) })
}

// inGuest reports whether the guest uses its VF, as far as the Snapshot shows it.
func (w *World) inGuest(n *NIC) bool {
	now := watched{n.hasVF, n.open}
	if was := n.seen; w.LagInGuest {
		n.seen = now
		return was.open && was.vf == now.vf
	}
	return now.open
}

// settings are the slow-to-read parts of the host as they were at one moment.
type settings struct {
	read    time.Time
	vfs     map[string][]model.VF
	self    map[string]map[model.MAC]bool
	fdb     map[address]string
	mirrors map[mirror]string
}

// reread refreshes the settings when due, and returns when they were last read.
func (w *World) reread() time.Time {
	if w.Lag == 0 {
		w.slow = nil
		return w.Now
	}
	if w.slow == nil || w.Now.Sub(w.slow.read) >= w.Lag {
		w.slow = &settings{
			read: w.Now, vfs: map[string][]model.VF{}, self: map[string]map[model.MAC]bool{},
			fdb: maps.Clone(w.fdb), mirrors: maps.Clone(w.mirrors),
		}
		for _, p := range w.pfs {
			w.slow.vfs[p.Name], w.slow.self[p.Name] = slices.Clone(p.VFs), maps.Clone(p.self)
		}
	}
	return w.slow.read
}

// seenLoad is a VM's load as it is seen.
type seenLoad struct {
	pps, bytes float64
	known      bool
	shares     bool // the links decide how much of it is sent
}

// load returns a VM's load as it is seen.
func (w *World) load(out *model.VM, v *VM) seenLoad {
	l := seenLoad{known: true, shares: w.traffic != nil}
	if v.Load != nil && v.State == model.VMRunning {
		l.pps, l.bytes, out.CPU = v.Load.At(w.Now)
	}
	if w.Sense != nil {
		l.pps, l.bytes, l.known = w.Sense(v, l.pps, l.bytes)
	}
	return l
}

// Moves returns what a VM moves now: its Load, as far as limits of its VFs let it through.
func (w *World) Moves(v *VM) (pps, bytes, cpu float64) {
	pps, bytes, cpu = v.Load.At(w.Now)
	part := 0.0
	for _, n := range v.NICs {
		part += n.Share * w.through(n, n.Share*pps, n.Share*bytes)
	}
	return part * pps, part * bytes, cpu
}

// through returns the share of a NIC's load that a limit of its VF lets through. Half of a load is sent, and that is limited; the other
// half falls with it, as answers do with requests. Where the links are shared, Traffic does this.
func (w *World) through(n *NIC, pps, bytes float64) float64 {
	vf := w.vf(n.hasVF)
	if w.traffic != nil || !n.open || vf == nil {
		return 1
	}
	part := 1.0
	if sent := 8 * (bytes + Overhead*pps) / 2; vf.MaxTxRate > 0 && sent > 0 {
		part = min(part, float64(vf.MaxTxRate)/sent)
	}
	if vf.MaxPackets > 0 && pps > 0 {
		part = min(part, float64(vf.MaxPackets)/(pps/2))
	}
	return part
}

// picture puts a NIC's share of the load on the path that the guest uses.
func (l seenLoad) picture(w *World, out *model.NIC, n *NIC) {
	proof := model.ProofNone
	if l.known {
		proof = model.ProofHardware
	}
	part := n.Share * w.through(n, n.Share*l.pps, n.Share*l.bytes)
	pps, bytes := part*l.pps, part*l.bytes
	t := model.Traffic{
		RxPPS: pps / 2, TxPPS: pps / 2, RxBytes: bytes / 2, TxBytes: bytes / 2, Source: model.SourceSim, Known: l.known,
		Proof: proof,
	}
	if l.shares { // what is sent, not what the VM wants
		t.RxPPS, t.RxBytes, t.TxPPS, t.TxBytes = 0, 0, 0, 0
		if n.size > 0 {
			t.TxPPS = n.rate / n.size
			t.TxBytes = n.rate/8 - Overhead*t.TxPPS
		}
	}
	none := model.Traffic{Source: model.SourceSim, Known: l.known, Proof: proof}
	out.Virtio, out.VFPath = t, none
	if n.open {
		out.Virtio, out.VFPath = none, t
		if !w.counts(n.hasVF) {
			out.VFPath.Source = model.SourceAgent
			if l.known {
				out.VFPath.Proof = model.ProofGuest
			}
		}
		if n.VM.Blind {
			out.VFPath = model.Traffic{Note: "the guest agent does not answer"}
		}
	}
}

// Copy returns a copy of a Snapshot that later calls do not change.
func Copy(s *model.Snapshot) *model.Snapshot {
	out := *s
	out.PFs = slices.Clone(s.PFs)
	for i := range out.PFs {
		out.PFs[i].VFs = slices.Clone(s.PFs[i].VFs)
		out.PFs[i].SelfFDB = slices.Clone(s.PFs[i].SelfFDB)
	}
	out.Routes, out.DualPaths = slices.Clone(s.Routes), slices.Clone(s.DualPaths)
	out.VMs = slices.Clone(s.VMs)
	for i := range out.VMs {
		out.VMs[i].NICs = slices.Clone(s.VMs[i].NICs)
	}
	return &out
}
