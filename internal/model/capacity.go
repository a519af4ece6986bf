package model

import "cmp"

// CapacitySource says where the figure for what a link carries comes from.
type CapacitySource string

// Values of CapacitySource. Of the first three, each ranks above those before it.
const (
	CapacityUnknown    CapacitySource = ""
	CapacityDriver     CapacitySource = "driver"     // the speed that the PF's driver reports
	CapacityQualified  CapacitySource = "qualified"  // measured by `sluice qualify --peer`
	CapacityConfigured CapacitySource = "configured" // pfs[].speed in sluice.yaml
	CapacityInferred   CapacitySource = "inferred"   // the allocator's estimate, from what senders get
)

// Capacity is what a link is taken to carry, and why.
type Capacity struct {
	Bits   uint64         `json:"bits"`                 // bits/s; 0: unknown
	Speed  uint64         `json:"speed_bits,omitempty"` // bits/s that the PF's driver reports; 0: none. Bits never exceeds it
	Source CapacitySource `json:"source,omitempty"`
	Detail string         `json:"detail,omitempty"` // what else is to be known of the source
}

// String says what is carried, and why: "9.4Gbit of 10Gbit, measured by `sluice qualify` (untagged)".
func (c Capacity) String() string {
	if c.Bits == 0 {
		return "unknown: its driver reports no speed"
	}
	text := Bits(float64(c.Bits))
	if c.Bits < c.Speed {
		text += " of " + Bits(float64(c.Speed))
	}
	switch c.Source {
	case CapacityDriver:
		text += ", its driver's speed"
	case CapacityQualified:
		text += ", measured by `sluice qualify`"
	case CapacityConfigured:
		text += ", set in sluice.yaml"
	case CapacityInferred:
		text += ", inferred: senders want more than it carries"
	}
	if c.Detail != "" {
		text += " (" + c.Detail + ")"
	}
	return text
}

// Inferred replaces the capacity by an allocator's estimate. Detail then says what it replaced, unless that was the driver's speed.
func (c Capacity) Inferred(bits float64) Capacity {
	detail := ""
	if c.Source != CapacityDriver {
		detail = "otherwise " + c.String()
	}
	c.Bits, c.Source, c.Detail = min(c.Bits, uint64(max(0, bits))), CapacityInferred, detail
	return c
}

// Capacity returns what the PF's link is taken to carry.
func (p *PF) Capacity() Capacity {
	c := Capacity{Bits: p.Shared(), Speed: p.Speed, Source: p.CarriesBy, Detail: p.CarriesNote}
	if c.Source == CapacityUnknown && c.Bits > 0 {
		c.Source = CapacityDriver
	}
	return c
}

// Carry sets what the PF's link is taken to carry, in bits/s, whatever was set before; 0 changes nothing. The link is never taken to
// carry more than its driver says: detail then says who claims more.
func (p *PF) Carry(bits uint64, by CapacitySource, detail string) {
	switch {
	case bits == 0:
	case p.Speed > 0 && bits > p.Speed:
		said := map[CapacitySource]string{CapacityQualified: "`sluice qualify` measured", CapacityConfigured: "sluice.yaml says"}[by]
		p.Carries, p.CarriesBy, p.CarriesNote = p.Speed, CapacityDriver, said+" "+Bits(float64(bits))
	default:
		p.Carries, p.CarriesBy, p.CarriesNote = bits, by, detail
	}
}

// Shared returns the capacity of the PF's link that is shared out, in bits/s; 0: unknown.
func (p *PF) Shared() uint64 { return cmp.Or(p.Carries, p.Speed) }
