package api

import "time"

// HostCapacity is what a host can still guarantee to VMs that are to come: GET /v1/capacity. It follows admission: a guarantee that fits
// here is admitted.
type HostCapacity struct {
	Observed time.Time    `json:"observed,omitzero"` // when the host was; zero: not yet
	Drained  bool         `json:"drained"`           // its VMs are to keep to virtio: somebody empties the host
	PFs      []PFCapacity `json:"pfs"`               // those that a network of VMs is behind
	Packets  RateCapacity `json:"packets_per_second"`
	// Guarantees are what is set on the host, in the order of VMs. With the claims that are kept, they are what the figures under
	// guaranteed are the sums of.
	Guarantees []Guarantee      `json:"guarantees"`
	Claims     []HostClaimState `json:"claims,omitempty"` // of the fleet; those that are kept count as guaranteed
}

// Guarantee is what a NIC of a VM that is here is guaranteed.
type Guarantee struct {
	VM   string `json:"domain"`
	ID   string `json:"uuid"`
	NIC  string `json:"nic"`
	MAC  string `json:"mac,omitempty"`         // absent: it has none
	PF   string `json:"pci_address,omitempty"` // of the PF whose link it shares; absent: unknown
	Rate Rate   `json:"guarantee"`             // packets/s are the whole VM's, and only the first of its NICs has them
}

// PFCapacity is what a PF's link can still guarantee.
type PFCapacity struct {
	PF       string       `json:"pf"`
	Address  string       `json:"pci_address"`
	Driver   string       `json:"driver"`
	Network  string       `json:"network"`
	Uplink   string       `json:"uplink,omitempty"` // the kind of switch and NIC, as linux-bridge; "": no VM can use its VFs
	NUMANode int          `json:"numa_node"`        // -1: unknown
	LinkUp   bool         `json:"link_up"`
	Managed  bool         `json:"managed"`         // sluice.yaml lists it
	Bits     RateCapacity `json:"bits_per_second"` // on the wire
}

// RateCapacity is a rate that guarantees share.
type RateCapacity struct {
	Total      float64 `json:"total"`                // 0: unknown, and then nothing is known to be free
	Guaranteed float64 `json:"guaranteed"`           // to VMs that are here, also where more is guaranteed than there is
	Free       float64 `json:"free"`                 // what can still be guaranteed
	Source     string  `json:"total_from,omitempty"` // who says so: driver, qualified or configured
	Enforced   bool    `json:"enforced"`             // guarantees of it are kept: not in observe mode, nor by an allocator that ignores them
}
