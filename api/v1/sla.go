package api

// SLA is what VerbSetSLA sets for a VM's NICs, and what an Override of it shows. Rates are written
// with their units, as in sluice.yaml: "2Gbit", "50kpps" or "2Gbit 50kpps". What is left out is not set.
type SLA struct {
	Guarantee string  `json:"guarantee,omitempty"` // what it may always send
	Limit     string  `json:"limit,omitempty"`     // what it never sends more than
	Receive   string  `json:"receive,omitempty"`   // what it never receives more than
	Weight    float64 `json:"weight,omitempty"`    // its share of what is left over, from 0.001 to 1000
	Class     string  `json:"class,omitempty"`
}

// NICSLA is the SLA that is in force for a NIC: GET /v1/sla, by VM and NIC.
type NICSLA struct {
	VM        string      `json:"domain"`
	ID        string      `json:"uuid"`
	NIC       string      `json:"nic"`
	Network   string      `json:"network,omitempty"`
	Guarantee Rate        `json:"guarantee"`
	Promised  Rate        `json:"promised"` // of the guarantee: less where more is guaranteed than there is
	Limit     Rate        `json:"limit"`
	Receive   Rate        `json:"receive_limit"`
	Weight    float64     `json:"weight"` // 1 unless something says otherwise
	Class     string      `json:"class,omitempty"`
	Priority  int         `json:"priority"`         // of its class
	Source    string      `json:"source,omitempty"` // who set what of it, nearest first; "": nobody
	Overrides []*Override `json:"overrides"`        // those of sluice sla set that are about it
}
