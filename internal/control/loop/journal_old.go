package loop

import (
	"encoding/json"
	"time"

	"sluice/internal/model"
)

// oldEntry is a line as it was written before lines had checksums.
type oldEntry struct {
	Begin *oldMove `json:"begin"`
	End   *oldMove `json:"end"`
}

// oldMove is a Move whose Steps are flat.
type oldMove struct {
	model.Move
	Steps []oldStep `json:"steps"`
}

// oldStep carried the same for every kind of Step.
type oldStep struct {
	Kind    model.StepKind   `json:"kind"`
	VM      model.VMID       `json:"vm"`
	VMName  string           `json:"vm_name"`
	NIC     string           `json:"nic"`
	MAC     model.MAC        `json:"mac"`
	Tap     string           `json:"tap"`
	Network string           `json:"network"`
	Team    model.Failover   `json:"failover"`
	VF      model.VFID       `json:"vf"`
	Address model.PCIAddress `json:"pci_address"`
	VLAN    int              `json:"vlan"`
	Rate    uint64           `json:"max_tx_rate_bits"`
	Timeout time.Duration    `json:"timeout_ns"`
}

// decodeOld reads a line without a checksum. A retune is left out: what set rates then is
// no Move now, and nothing of it has to be taken back.
func decodeOld(text []byte) (entry, error) {
	var old oldEntry
	if err := json.Unmarshal(text, &old); err != nil {
		return entry{}, err
	}
	return entry{Begin: old.Begin.now(), End: old.End.now()}, nil
}

func (m *oldMove) now() *model.Move {
	if m == nil || m.Kind == "retune" {
		return nil
	}
	out := m.Move
	for _, s := range m.Steps {
		out.Steps = append(out.Steps, s.now())
	}
	return &out
}

func (s *oldStep) now() model.Step {
	out := model.Step{
		Kind: s.Kind, Timeout: s.Timeout, Subject: model.Subject{VM: s.VM, VMName: s.VMName},
		VF:     model.VFStep{ID: s.VF, Address: s.Address, MAC: s.MAC, VLAN: s.VLAN, MaxTxRate: s.Rate},
		Path:   model.PathStep{MAC: s.MAC, VLAN: s.VLAN, Tap: s.Tap, Network: s.Network, PF: s.VF.PF},
		Device: model.DeviceStep{NIC: s.NIC, MAC: s.MAC, Failover: s.Team, VF: s.VF, Address: s.Address},
	}
	if s.VM == "" {
		out.Subject.VF = s.VF
	}
	return out
}
