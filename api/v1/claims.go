package api

// SetClaims are all claims that a host is to keep room for: PUT /v1/claims. They replace those before.
type SetClaims struct {
	Claims []HostClaim `json:"claims"`
}

// MostClaims is how many claims a host takes.
const MostClaims = 2000

// HostClaim is what the ledger of a fleet has granted to a NIC at a host.
type HostClaim struct {
	ID   string `json:"uuid"`                  // of the VM
	MAC  string `json:"mac,omitempty"`         // absent: of all its NICs that share the PF
	PF   string `json:"pci_address,omitempty"` // of the PF that keeps room until the VM is there; absent: it is in packets alone
	Rate Rate   `json:"guarantee"`
}

// HostClaimState is what the host makes of a claim.
type HostClaimState struct {
	HostClaim
	VM      string `json:"domain,omitempty"`  // absent: no such VM is on the host
	NIC     string `json:"nic,omitempty"`     // absent: no running VM has it, and the PF keeps room
	Refused string `json:"refused,omitempty"` // why the host does not keep it
	Remedy  string `json:"remedy,omitempty"`
}
