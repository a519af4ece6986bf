package bandwidth

import "time"

// daqsPeriod is the period of the program that the authors of DAQS published.
const daqsPeriod = 200 * time.Millisecond

// The constants of the program that the authors of DAQS published, in units of 1/40 of the link (1 Gbit/s on theirs).
const (
	daqsStep   = 0.3    // change of the limit per tick
	daqsActive = 1.0    // a sender of more counts as active
	daqsFull   = 0.8378 // of the link: above this the limit falls
	daqsUnder  = 0.9041 // of the link: below this it rises
	daqsOver   = 1.45   // times the guarantees, plus daqsMore: above this the guaranteed VMs exceed their guarantees
	daqsMore   = 1.15
	daqsGibi   = 1.073741824 // it reads Gibit/s, and compares them with a link in Gbit/s
	daqsMebi   = 1.024       // it sets r x 1024 Mbit/s
	daqsNone   = -1.0        // r if there is no limit
)

// daqs is the law of "DAQS: Dynamic Adaptive QoS for SR-IOV", section III, with the constants of the authors' program. NICs
// with a guarantee are never limited; the aggregate r of all others moves by one step per tick, whatever the period, and is
// shared equally by those that send.
//
// Known flaws that are reproduced: guarantees are pooled; r starts at the whole link whenever those with a guarantee become
// idle; a NIC that slows down keeps its limit; and r = -1, which stands for no limit, is raised like any other value, so that
// it ends up just above 0 if a guarantee is exceeded at once.
type daqs struct {
	nominal
	limit float64 // r: of all NICs without guarantee together, in units; none unless above 0
}

func (d *daqs) Allocate(_ time.Time, link Link, senders []Sender, out []Allowance) {
	d.speed = link.Speed
	unit := link.Speed / parts
	var promised, guaranteed, all float64 // g, G and T of the law
	active := 0                           // k
	for i := range senders {
		s := &senders[i]
		sent := s.Bits / unit / daqsGibi
		all += sent
		switch {
		case s.SLA.Guarantee.Bits > 0:
			promised += float64(s.SLA.Guarantee.Bits) / unit
			guaranteed += sent
		case sent > daqsActive:
			active++
		}
	}
	d.step(promised, guaranteed, all)
	for i := range senders {
		s := &senders[i]
		most := limitOf(&s.SLA)
		switch {
		case s.SLA.Guarantee.Bits > 0:
			out[i] = most
		case s.Bits/unit/daqsGibi > daqsActive:
			out[i] = most
			if d.limit > 0 {
				out[i].Bits = min(most.Bits, d.limit/float64(active)*daqsMebi*unit)
			}
		default: // unchanged
			out[i] = Allowance{min(out[i].Bits, most.Bits), most.Packets}
		}
	}
}

// step moves r, the joint limit of all that have no guarantee.
func (d *daqs) step(promised, guaranteed, all float64) {
	more := min(parts, d.limit+daqsStep)
	switch {
	case guaranteed < daqsActive:
		d.limit = daqsNone
	case guaranteed < promised && d.limit < 0:
		d.limit = parts
	case guaranteed < promised && all >= daqsFull*parts:
		d.limit = max(1, d.limit-daqsStep)
	case guaranteed < promised && all+daqsStep < daqsUnder*parts:
		d.limit = more
	case guaranteed >= promised && guaranteed > daqsOver*promised+daqsMore && all-guaranteed > daqsActive:
		d.limit = more
	}
}
