package bandwidth

import (
	"cmp"
	"slices"
	"time"
)

// dbavm is step 1, the bits/s, of the algorithm of "DBA-VM: Dynamic Bandwidth Allocator for Virtual Machines", section IV. The
// guarantee is an interface's minimum; the limit is its maximum, or the link if it has none. It does not test for demand: an
// idle interface counts as one below its minimum.
//
// Step 2 divides the packets/s of a VM over its interfaces on all links, so it is the Core's: dividePackets. The paper drops
// in the guest what exceeds a limit; here it is dropped at the tap (docs/sla.md has the reasons and the cost).
//
// The text has errors (B_max < B_i < B_min, (B_i - B_min) < B_ex, B_min readjusted to B_i), which are read as what they must
// mean. What it leaves open is decided as follows: the pool is the unused part of the link; what is left of it at the end
// raises limits to the maximum, interface by interface in the same order.
type dbavm struct {
	nominal
	pool  float64 // B_ex
	order []int   // senders by class, then age
}

func (d *dbavm) Allocate(_ time.Time, link Link, senders []Sender, out []Allowance) {
	d.speed, d.pool = link.Speed, link.Speed
	for i := range senders {
		d.pool -= senders[i].Bits
		out[i] = Allowance{min(out[i].Bits, d.most(&senders[i])), limitOf(&senders[i].SLA).Packets}
	}
	d.pool = max(0, d.pool)
	d.sort(senders)
	for _, i := range d.order {
		d.readjust(senders, out, i)
	}
	for _, i := range d.order {
		more := min(d.pool, d.most(&senders[i])-out[i].Bits)
		out[i].Bits += more
		d.pool -= more
	}
}

// readjust is step 1 for one interface.
func (d *dbavm) readjust(senders []Sender, out []Allowance, i int) {
	s := &senders[i]
	floor, most := float64(s.SLA.Guarantee.Bits), d.most(s)
	switch {
	case s.Bits > most:
		out[i].Bits = most
		d.pool += s.Bits - most
	case s.Bits >= floor:
	case floor-s.Bits < d.pool:
		out[i].Bits = max(out[i].Bits, floor)
		d.pool -= floor - s.Bits
	default:
		out[i].Bits = max(out[i].Bits, floor)
		d.cut(senders, out, i)
	}
}

// cut makes room for an interface whose deficit exceeds the pool: the lower classes are reduced to their class's minimum. In
// the lowest class all others of the class are reduced to their own.
func (d *dbavm) cut(senders []Sender, out []Allowance, i int) {
	class := senders[i].SLA.Priority
	lowest := senders[d.order[len(d.order)-1]].SLA.Priority
	for _, j := range slices.Backward(d.order) {
		s := &senders[j].SLA
		switch {
		case s.Priority < class:
			out[j].Bits = min(d.most(&senders[j]), max(float64(s.ClassMin), d.speed*least))
		case s.Priority == class && class == lowest && j != i:
			out[j].Bits = min(d.most(&senders[j]), max(float64(s.Guarantee.Bits), d.speed*least))
		}
	}
}

// most is an interface's maximum.
func (d *dbavm) most(s *Sender) float64 { return min(d.speed, limitOf(&s.SLA).Bits) }

// sort orders by class, the highest first, then by age, the oldest interface first.
func (d *dbavm) sort(senders []Sender) {
	d.order = d.order[:0]
	for i := range senders {
		d.order = append(d.order, i)
	}
	slices.SortFunc(d.order, func(a, b int) int {
		x, y := &senders[a], &senders[b]
		return cmp.Or(cmp.Compare(y.SLA.Priority, x.SLA.Priority), cmp.Compare(x.Age, y.Age), cmp.Compare(a, b))
	})
}
