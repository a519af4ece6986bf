package observe

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/internal/control/claim"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// vfCounts holds the VF counters of one PF, or why they are missing.
type vfCounts struct {
	byVF map[int]netdev.Counters
	at   time.Time
	why  string
}

// measure adds the rates to the Snapshot and returns what could not be read.
func (s *Source) measure(ctx context.Context, snap *model.Snapshot, stats map[model.VMID]libvirt.Stat) []model.Problem {
	s.tick++
	counts, trouble := s.countVFs(ctx, snap)
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		s.cpu(vm, stats, snap.Time)
		for k := range vm.NICs {
			s.nic(vm, &vm.NICs[k], snap, counts)
		}
	}
	s.judge(ctx, snap)
	s.askers.settle()
	s.forget(snap)
	return trouble
}

// cpu adds the number of CPUs in use, and the state if libvirt has a newer one.
func (s *Source) cpu(vm *model.VM, stats map[model.VMID]libvirt.Stat, now time.Time) {
	st, ok := stats[vm.ID]
	if !ok {
		if m := s.cpus[vm.ID]; m != nil && stats == nil { // not read this time
			m.tick = s.tick
			vm.CPU, vm.CPUKnown = m.share, m.known
		}
		return
	}
	if st.State != "" && vm.State != model.VMMigrating {
		vm.State = st.State
	}
	if !st.CPUKnown {
		return
	}
	m := s.cpus[vm.ID]
	if m == nil {
		m = &vmCPU{}
		s.cpus[vm.ID] = m
	}
	m.tick = s.tick
	m.share, m.known = m.add(now, st.CPUTime, vm.VCPUs, s.opt.gaps())
	vm.CPU, vm.CPUKnown = m.share, m.known
}

// nic adds the rates of both paths of a NIC.
func (s *Source) nic(vm *model.VM, nic *model.NIC, snap *model.Snapshot, counts map[string]vfCounts) {
	key := claim.Key{VM: vm.ID, NIC: nic.Alias}
	p := s.pairs[key]
	if p == nil {
		p = &pair{}
		s.pairs[key] = p
	}
	p.tick = s.tick
	p.behind(nic.VF, snap.Time)
	var tap sample
	nic.Virtio, tap = p.virtio(nic, s.join.links.ByName[nic.Tap], snap.Time, s.opt.gaps())
	if nic.VirtualPF != "" && tap.boot != 0 {
		c := tap.count
		nic.Moved = &model.Moved{RxPackets: c.rxPackets, TxPackets: c.txPackets, RxBytes: c.rxBytes, TxBytes: c.txBytes}
	}
	if nic.VF == model.NoVF {
		s.claims.ledger.Saw(snap.Time, key, nic.Virtio)
		return
	}
	pf := snap.FindPF(nic.VF.PF)
	got := counts[pf.Name]
	c, counted := got.byVF[nic.VF.Index]
	switch {
	case counted:
		nic.VFPath = p.counted(c, pf, got.at, s.opt.gaps())
	case s.mayAsk(vm):
		s.claims.add(pf, key, nic, p, s.ask(vm, nic, p, tap, pf, snap.Time))
	default:
		why := cmp.Or(got.why, fmt.Sprintf("nothing on the host counts VF %s", nic.VF)) // its representor is gone
		s.claims.add(pf, key, nic, p, model.Traffic{Note: why + ", and no guest agent answers"})
	}
}

// mayAsk reports whether the VM has a guest agent to ask, or a guest that reports without one.
func (s *Source) mayAsk(vm *model.VM) bool {
	return s.askers.guests != nil && s.opt.AskEvery > 0 && (vm.Ready == model.Yes || s.opt.reports(vm.ID)) && vm.State == model.VMRunning
}

// ask returns the latest figure from the guest's answers and keeps the guest being polled.
func (s *Source) ask(vm *model.VM, nic *model.NIC, p *pair, tap sample, pf *model.PF, now time.Time) model.Traffic {
	a := s.askers.of(vm.ID)
	a.tap(nic.MAC, tap)
	if got, ok := a.since(p.path.seen, nic.MAC); ok {
		got.after = tap
		good := p.path.take(got, nic.MAC, s.opt.askGaps(), limitOf(pf.Speed, guestSlack))
		if got.err == nil {
			a.verdict(good)
		}
	}
	return p.path.figure(now, s.opt.askFresh())
}

// countVFs reads the VF counters of PFs that have VFs behind NICs. A driver that is not known to count is believed once it shows a nonzero
// counter.
func (s *Source) countVFs(ctx context.Context, snap *model.Snapshot) (map[string]vfCounts, []model.Problem) {
	var trouble []model.Problem
	out := map[string]vfCounts{}
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		why := "driver " + pf.Driver + " does not count per VF"
		if pf.Caps.VFCounters == model.No || !pf.InUse() {
			out[pf.Name] = vfCounts{why: why}
			continue
		}
		var byVF map[int]netdev.Counters
		var err error
		if pf.Uplink.Representors {
			byVF = s.representors(pf)
		} else {
			byVF, err = s.kernel.VFCounters(ctx, pf.Name)
		}
		switch {
		case err != nil:
			trouble = append(trouble, model.Problem{Subject: pf.Name, Text: "cannot read the counters of its VFs: " + err.Error()})
			out[pf.Name] = vfCounts{why: "the PF's counters cannot be read"}
		case !s.reallyCounts(pf, byVF):
			out[pf.Name] = vfCounts{why: "driver " + pf.Driver + " is not known to count per VF and shows only zeros"}
		default:
			out[pf.Name] = vfCounts{byVF: byVF, at: time.Now()}
		}
	}
	return out, trouble
}

// representors returns the counters of a PF's VFs as their representors have them. With most drivers directions are the other way round
// there.
func (s *Source) representors(pf *model.PF) map[int]netdev.Counters {
	byVF := make(map[int]netdev.Counters, len(pf.VFs))
	for i := range pf.VFs {
		if l := s.join.links.ByName[pf.VFs[i].Port]; l != nil {
			c := l.Counters
			if !vf.OwnCounters(pf.Driver) {
				c = netdev.Counters{
					RxPackets: c.TxPackets, TxPackets: c.RxPackets, RxBytes: c.TxBytes, TxBytes: c.RxBytes,
					RxDropped: c.TxDropped, TxDropped: c.RxDropped,
				}
			}
			byVF[pf.VFs[i].ID.Index] = c
		}
	}
	return byVF
}

// reallyCounts reports whether VF counters are meaningful. A driver that does not count shows zeros.
func (s *Source) reallyCounts(pf *model.PF, byVF map[int]netdev.Counters) bool {
	if pf.Caps.VFCounters == model.Yes || s.counts[pf.Name] {
		return true
	}
	for _, c := range byVF {
		if c != (netdev.Counters{}) {
			s.counts[pf.Name] = true
			return true
		}
	}
	return false
}

// forget drops the state of NICs and VMs that are gone.
func (s *Source) forget(snap *model.Snapshot) {
	for k, p := range s.pairs {
		if p.tick != s.tick {
			delete(s.pairs, k)
		}
	}
	s.claims.forget(s.pairs, snap)
	for id, c := range s.cpus {
		if c.tick != s.tick {
			delete(s.cpus, id)
		}
	}
}
