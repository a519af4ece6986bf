package api

// SLA is what VerbSetSLA sets for a VM's NICs, and what its Override shows. Rates have units, as in sluice.yaml: "2Gbit",
// "50kpps" or "2Gbit 50kpps". Omitted fields are not set.
type SLA struct {
	Guarantee string  `json:"guarantee,omitempty"` // what it is promised to be able to send
	Limit     string  `json:"limit,omitempty"`     // the most it may send
	Receive   string  `json:"receive,omitempty"`   // the most it may receive
	Weight    float64 `json:"weight,omitempty"`    // its share of the remaining bandwidth, from 0.001 to 1000
	Class     string  `json:"class,omitempty"`
}

// NICSLA is the SLA in force for a NIC: GET /v1/sla, sorted by VM and NIC.
type NICSLA struct {
	VM        string      `json:"domain"`
	ID        string      `json:"uuid"`
	NIC       string      `json:"nic"`
	Network   string      `json:"network,omitempty"`
	Guarantee Rate        `json:"guarantee"`
	Promised  Rate        `json:"promised"` // the part of the guarantee that can be kept: less where the link is overcommitted
	Limit     Rate        `json:"limit"`
	Receive   Rate        `json:"receive_limit"`
	Weight    float64     `json:"weight"` // 1 unless set
	Class     string      `json:"class,omitempty"`
	Priority  int         `json:"priority"`         // of its class
	Source    string      `json:"source,omitempty"` // who set which part of it, nearest first; "": nobody
	Overrides []*Override `json:"overrides"`        // those of sluice sla set that apply to it
}
