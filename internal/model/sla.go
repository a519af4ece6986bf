package model

import "cmp"

// SLA is what a NIC of a VM may send and receive, and what it is guaranteed. Its zero value guarantees nothing and limits
// nothing.
//
// Bits are per NIC. Packets are per VM: its NICs share them in proportion to what they send.
type SLA struct {
	Guarantee Rate    `json:"guarantee,omitzero"` // what it is promised to be able to send, on either path
	Limit     Rate    `json:"limit,omitzero"`     // the most it may send; 0: no limit
	Receive   Rate    `json:"receive,omitzero"`   // the most it may receive; 0: no limit
	Weight    float64 `json:"weight,omitempty"`   // its share of the spare capacity; 0: 1
	Class     string  `json:"class,omitempty"`
	Priority  int     `json:"priority,omitempty"`       // of its class: if more is guaranteed than there is, higher ones are kept first
	ClassMin  uint64  `json:"class_min_bits,omitempty"` // bits/s that dbavm leaves to each NIC of its class; 0: nothing
	// Source is where it was set, for display: "sluice.yaml:12:5", "metadata", "Neutron port ID", "claim", "sluice sla set by alice";
	// several are separated by "; ".
	Source string `json:"source,omitempty"`
}

// IsZero reports whether it sets no rate.
func (s *SLA) IsZero() bool {
	return s.Guarantee.IsZero() && s.Limit.IsZero() && s.Receive.IsZero()
}

// Conflicts reports whether both set a rate, to different values.
func (s *SLA) Conflicts(o *SLA) bool {
	return s.Guarantee.Conflicts(o.Guarantee) || s.Limit.Conflicts(o.Limit) || s.Receive.Conflicts(o.Receive)
}

// Share returns the Weight, 1 if unset.
func (s *SLA) Share() float64 {
	return cmp.Or(s.Weight, 1)
}

// NICSLA is what a domain's metadata asks for some of its NICs.
type NICSLA struct {
	NIC string `json:"nic,omitempty"` // shell pattern on alias, MAC or network; "": each NIC
	SLA SLA    `json:"sla"`
}

// SLA returns what a NIC of a VM is guaranteed and allowed. For each field the most specific source counts: a run-time request,
// the domain's metadata, the NIC's port in Neutron, the first rule that matches, a claim, the class. Source names all that set something.
func (r *Rules) SLA(vm *VM, nic *NIC) SLA {
	var out SLA
	take := func(byHand bool) {
		for i := range r.VMs {
			if v := &r.VMs[i]; v.ByHand == byHand && Matches(v.Match, vm.ID, vm.Name) && nic.Named(v.SLANIC) {
				out.fill(&v.SLA)
			}
		}
	}
	take(true)
	for i := range vm.SLAs {
		if nic.Named(vm.SLAs[i].NIC) {
			out.fill(&vm.SLAs[i].SLA)
		}
	}
	port := r.portSLA(vm, nic)
	out.fill(&port)
	take(false)
	if c := r.claim(vm, nic); c != nil {
		s := c.SLA()
		out.fill(&s)
	}
	if out.Class == "" {
		out.Class = r.For(vm.ID, vm.Name).Class
	}
	if c := r.FindClass(out.Class); c != nil {
		out.fill(&c.SLA)
		out.Priority, out.ClassMin = c.Priority, c.SLA.ClassMin
	}
	return out
}

// FindClass returns the class with that name, or nil. "" names none.
func (r *Rules) FindClass(name string) *Class {
	if name == "" {
		return nil
	}
	return first(r.Classes, func(c *Class) bool { return c.Name == name })
}

// fill takes over the fields that no more specific source has set, and adds the source's name if it took any.
func (s *SLA) fill(later *SLA) {
	before := *s
	s.Guarantee.fill(later.Guarantee)
	s.Limit.fill(later.Limit)
	s.Receive.fill(later.Receive)
	s.Weight, s.Class = cmp.Or(s.Weight, later.Weight), cmp.Or(s.Class, later.Class)
	switch {
	case *s == before || later.Source == "":
	case s.Source == "":
		s.Source = later.Source
	default:
		s.Source += "; " + later.Source
	}
}

func (r *Rate) fill(later Rate) {
	r.Bits, r.Packets = cmp.Or(r.Bits, later.Bits), cmp.Or(r.Packets, later.Packets)
}
