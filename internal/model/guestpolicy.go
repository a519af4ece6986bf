package model

import "net/netip"

// GuestPolicy is what the guest of a VM may ask for its virtual VFs. With the zero value a guest can ask
// for nothing; with Attach alone it gets VFs as the host has set them.
type GuestPolicy struct {
	Attach    bool           `json:"attach"`              // it may ask for VFs at all
	MACs      []string       `json:"macs,omitempty"`      // shell patterns of MACs that it may ask for beside each VF's own, such as "02:*"
	VLANs     VLANs          `json:"vlans,omitempty"`     // that it may ask for, as access VLAN or in a trunk
	NoSpoof   bool           `json:"no_spoof,omitempty"`  // it may switch the spoof check off
	Addresses []netip.Prefix `json:"addresses,omitempty"` // that it may ask to send from; empty: any
	Guarantee Rate           `json:"guarantee,omitzero"`  // the most that one VF may be guaranteed; 0: none may
	Limit     Rate           `json:"limit,omitzero"`      // the highest limit of a VF, which one that asks for none gets; 0: any
	Weight    float64        `json:"weight,omitempty"`    // the highest weight that it may ask for; 0: 1
	Counters  int            `json:"counters,omitempty"`  // seconds between reports of its NICs' counters; 0: it is not asked for them
}
