package workload

import (
	"time"

	"sluice/internal/control/claim"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// DefaultPacket is the size of a packet in bytes where nothing states it.
const DefaultPacket = 512

// Claims judges guests' claims about VFs of PFs that have no counters per VF, as the daemon does. Set World.Patch to its Patch.
type Claims struct {
	// Say returns what a guest claims when its VF moves pps, and whether it answers at all; nil: it tells the truth.
	Say func(vm *model.VM, now time.Time, pps float64) (says float64, known bool)
	// Port and Interrupts say which evidence the host has.
	Port, Interrupts bool
	// Forged returns the interrupts/s that a guest adds to those of its packets; nil: none.
	Forged func(vm *model.VM) float64

	ledger *claim.Ledger
}

// perInterrupt is the number of packets per interrupt of an honest guest.
const perInterrupt = 8

// Patch replaces the VFs' traffic in a Snapshot by what the guests' claims are worth.
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

// says returns the guest's claim in the form that its agent's answers would have.
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

// Flood is the load of a guest that wants a VF without needing it: while it has none, it floods its virtio NIC from time to time (or
// once); otherwise it is idle.
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
