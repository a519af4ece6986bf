package observe

import (
	"time"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// pair is the state kept between Snapshots to compute the rates of a NIC and its VF.
type pair struct {
	tap   meter
	vf    model.VFID // that count, path and irqs are about
	count meter      // from the PF's counters
	path  vfPath     // from the guest's
	irqs  interrupts // that the VF raised on the host
	tick  uint64     // the last Snapshot with this NIC
}

// vmCPU is the state kept between Snapshots of a VM's CPU use.
type vmCPU struct {
	cpuMeter
	tick  uint64  // the last Snapshot that measured it
	share float64 // the last result
	known bool
}

// pfSlack allows for drivers that refresh a VF's counters in the background, so that one second may show the frames of two, and for VFs of
// one PF that exchange frames without using the link.
const pfSlack = 2

// guestSlack allows for the time that a guest takes to answer.
const guestSlack = 1.25

// hostCounts converts a VF's counters: the PF counts in the same direction as the guest.
func hostCounts(c netdev.Counters) counts {
	return counts{c.RxPackets, c.TxPackets, c.RxBytes, c.TxBytes}
}

// virtio computes the rates of the virtio path from the tap's counters.
func (p *pair) virtio(nic *model.NIC, l *netdev.Link, now time.Time, g gaps) (model.Traffic, sample) {
	if l == nil {
		p.tap = meter{}
		why := "no tap"
		if nic.Tap != "" {
			why = "the host has no link " + nic.Tap
		}
		return model.Traffic{Note: why}, sample{}
	}
	s := sample{now, uint64(l.Index), hostCounts(l.Counters).swapped()}
	t := p.tap.add(s, g, limitOf(0, 1))
	t.Source = model.SourceTap
	if t.Known {
		t.Proof = model.ProofKernel
	}
	return t, s
}

// behind records which VF is behind the NIC now, and drops the state of another one.
func (p *pair) behind(id model.VFID, now time.Time) {
	if p.vf != id {
		p.vf, p.count, p.path, p.irqs = id, meter{}, vfPath{seen: now}, interrupts{}
	}
}

// counted computes the rates of the VF path from the PF's counters.
func (p *pair) counted(c netdev.Counters, pf *model.PF, now time.Time, g gaps) model.Traffic {
	s := sample{now, uint64(pf.Index), hostCounts(c)}
	t := p.count.add(s, g, limitOf(pf.Speed, pfSlack))
	t.Source = model.SourcePF
	if t.Known {
		t.Proof = model.ProofHardware
	}
	return t
}
