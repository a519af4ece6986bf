package model

import (
	"cmp"
	"slices"
	"strings"
)

// Claim is room at this host that the fleet's ledger has granted to a NIC of a VM, which may not be here yet.
type Claim struct {
	VM        VMID       `json:"uuid"`
	MAC       MAC        `json:"mac"`         // zero: of all NICs of the VM that share the PF
	PF        PCIAddress `json:"pci_address"` // whose link it is to share while the VM is not here
	Guarantee Rate       `json:"guarantee"`
}

// Compare orders Claims by VM and NIC, those without one by PF.
func (c Claim) Compare(o Claim) int {
	by := cmp.Or(strings.Compare(string(c.VM), string(o.VM)), slices.Compare(c.MAC[:], o.MAC[:]))
	if by == 0 && c.MAC.IsZero() {
		return strings.Compare(string(c.PF), string(o.PF))
	}
	return by
}

// sourceClaim is the Source of an SLA that comes from a Claim.
const sourceClaim = "claim"

// SLA is what the claim sets.
func (c *Claim) SLA() SLA { return SLA{Guarantee: c.Guarantee, Source: sourceClaim} }

// claim returns what is claimed for a NIC, or nil. A virtual PF is shared by its functions, which a claim does not know.
func (r *Rules) claim(vm *VM, nic *NIC) *Claim {
	if len(r.Claims) == 0 || nic.VirtualPF != "" || nic.MAC.IsZero() {
		return nil
	}
	if at, ok := slices.BinarySearchFunc(r.Claims, Claim{VM: vm.ID, MAC: nic.MAC}, Claim.Compare); ok {
		return &r.Claims[at]
	}
	return nil
}
