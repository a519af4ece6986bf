package model

import "net/netip"

// GuestPolicy is what a VM's guest may request for its virtual VFs. With the zero value a guest can request nothing; with Attach
// alone it gets VFs as the host has configured them.
type GuestPolicy struct {
	Attach       bool           `json:"attach"`              // it may request VFs at all
	MACs         []string       `json:"macs,omitempty"`      // shell patterns of MACs that it may request beside each VF's own, such as "02:*"
	VLANs        VLANs          `json:"vlans,omitempty"`     // that it may request, as access VLAN or in a trunk
	NoSpoofCheck bool           `json:"no_spoof,omitempty"`  // it may disable the spoof check
	Addresses    []netip.Prefix `json:"addresses,omitempty"` // source addresses that it may request; empty: any
	Guarantee    Rate           `json:"guarantee,omitzero"`  // the highest guarantee of a VF; 0: none allowed
	Limit        Rate           `json:"limit,omitzero"`      // the highest limit of a VF, and the limit of one that requests none; 0: any
	Weight       float64        `json:"weight,omitempty"`    // the highest weight that it may request; 0: that which the host has set
	Counters     int            `json:"counters,omitempty"`  // seconds between reports of its NICs' counters; 0: no reports
}
