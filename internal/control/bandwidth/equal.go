package bandwidth

import (
	"math"
	"time"
)

// parts is the speed of DAQS's testbed link in its own unit: 40 units of 1 Gbit/s. On a link of another speed a unit is a 40th
// of that, so that the published constants keep their proportions.
const parts = 40

// equal is the equal sharing of DAQS's published program: each VM gets floor(40/n) units, whatever it sends and whatever it is
// promised. A single VM is not limited.
//
// The allowances depend only on the set of VMs, so they change only with it.
type equal struct{ nominal }

func (e *equal) Allocate(_ time.Time, link Link, senders []Sender, out []Allowance) {
	e.speed = link.Speed
	vms, _ := countVMs(senders)
	each := math.Floor(parts/float64(vms)) * link.Speed / parts
	eachVM(senders, func(first, end int) {
		give(senders, out, first, end, vms, max(each, link.Speed*least))
	})
}

// weighted is the sharing by payments of DAQS's published program: each VM gets its weight's part of the link. Its NICs on the
// link share that equally. A single VM is not limited.
type weighted struct{ nominal }

func (w *weighted) Allocate(_ time.Time, link Link, senders []Sender, out []Allowance) {
	w.speed = link.Speed
	vms, sum := countVMs(senders)
	eachVM(senders, func(first, end int) {
		give(senders, out, first, end, vms, link.Speed*senders[first].SLA.Share()/sum)
	})
}

// least is the smallest part of a link that the published algorithms leave to a NIC: to the kernel a limit of 0 means none.
const least = 0.001

// nominal is the common part of the allocators that do not measure the link.
type nominal struct{ speed float64 }

func (n *nominal) Capacity() float64 { return n.speed }

// give divides bits equally among the senders from first to end, which are one VM's.
func give(senders []Sender, out []Allowance, first, end, vms int, bits float64) {
	for i := first; i < end; i++ {
		out[i] = limitOf(&senders[i].SLA)
		if vms > 1 {
			out[i].Bits = min(out[i].Bits, bits/float64(end-first))
		}
	}
}

// countVMs counts the VMs, a group as one, and sums their weights. A VM's weight is that of its first NIC.
func countVMs(senders []Sender) (n int, weights float64) {
	eachVM(senders, func(first, _ int) {
		n++
		weights += senders[first].SLA.Share()
	})
	return n, weights
}

// eachVM calls f with the bounds of each VM's senders, which are contiguous.
func eachVM(senders []Sender, f func(first, end int)) {
	for first := 0; first < len(senders); {
		end := first + 1
		for end < len(senders) && senders[end].ID.VM == senders[first].ID.VM {
			end++
		}
		f(first, end)
		first = end
	}
}
