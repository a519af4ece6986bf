package workload

import (
	"time"

	"sluice/internal/control/claim"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Claims judges, as the daemon does, what guests say of VFs of PFs that count nothing per VF.
// Set World.Patch to its Patch.
type Claims struct {
	// Say is what a guest says of its VF when it moves that much; nil, or not known: the truth.
	Say func(vm *model.VM, now time.Time, pps float64) (says float64, known bool)
	// Port and Interrupts say whether the host has these witnesses.
	Port, Interrupts bool
	// Forged are the interrupts/s that a guest adds to those of its packets; nil: none.
	Forged func(vm *model.VM) float64

	ledger *claim.Ledger
}

// perInterrupt is the number of packets for which an honest guest takes one interrupt.
const perInterrupt = 8

// Patch is for World.Patch.
func (c *Claims) Patch(s *model.Snapshot) {
	if c.ledger == nil {
		c.ledger = claim.New()
	}
	holders, nics, carried := map[string][]claim.Holder{}, map[string][]*model.NIC{}, map[string]float64{}
	for i := range s.VMs {
		vm := &s.VMs[i]
		nic := &vm.NICs[0]
		key := claim.Key{VM: vm.ID, NIC: nic.Alias}
		if nic.VF == model.NoVF {
			c.ledger.Saw(s.Time, key, nic.Virtio)
			continue
		}
		pf := nic.VF.PF
		if p := s.FindPF(pf); p != nil && p.Caps.VFCounters == model.Yes {
			continue
		}
		real := nic.VFPath.RxPPS + nic.VFPath.TxPPS
		carried[pf] += real
		holders[pf] = append(holders[pf], claim.Holder{
			Key: key, Claim: c.says(vm, nic, s.Time, real), Virtio: nic.Virtio.RxPPS + nic.Virtio.TxPPS,
			Interrupts: claim.Figure{Rate: real/perInterrupt + c.forges(vm), Known: c.Interrupts},
		})
		nics[pf] = append(nics[pf], nic)
	}
	for pf, hs := range holders {
		for i, t := range c.ledger.Judge(s.Time, pf, claim.Figure{Rate: carried[pf], Known: c.Port}, hs) {
			nics[pf][i].VFPath = t
		}
	}
}

// says is the guest's claim as an agent's answers would make it.
func (c *Claims) says(vm *model.VM, nic *model.NIC, now time.Time, real float64) model.Traffic {
	t := nic.VFPath
	if c.Say == nil {
		return t
	}
	pps, known := c.Say(vm, now, real)
	if !known {
		return model.Traffic{Note: "no answer"}
	}
	t.RxPPS, t.TxPPS, t.RxBytes, t.TxBytes = pps/2, pps/2, pps*DefaultPacket/2, pps*DefaultPacket/2
	return t
}

func (c *Claims) forges(vm *model.VM) float64 {
	if c.Forged == nil {
		return 0
	}
	return c.Forged(vm)
}

// Flood is a load of a guest that wants a VF which it does not need: it floods its virtio NIC
// for a while whenever it has no VF (once only, if so), and is idle otherwise.
type Flood struct {
	VM   *sim.VM
	PPS  float64
	From time.Time // not before
	For  time.Duration
	Rest time.Duration // between two floods; 0: flood once
	Idle float64       // packets/s otherwise

	start time.Time
}

// At implements sim.Load.
func (f *Flood) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	if f.floods(t) {
		return f.PPS, f.PPS * DefaultPacket, 0
	}
	return f.Idle, f.Idle * DefaultPacket, 0
}

func (f *Flood) floods(t time.Time) bool {
	if _, open := f.VM.Holds(); open || t.Before(f.From) {
		return false
	}
	if f.start.IsZero() || f.Rest > 0 && t.Sub(f.start) >= f.For+f.Rest {
		f.start = t
	}
	return t.Sub(f.start) < f.For
}
