package bandwidth

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
)

// Sender is a NIC that shares a link, or all NICs of a group that divides its part itself (an HTB tree of taps), with what it
// sent in the last period.
type Sender struct {
	ID      model.NICID // of a group: no VM, and the PF as NIC
	SLA     model.SLA   // with the NIC's part of its VM's packets/s
	Age     int         // rank by arrival: the oldest NIC has 0
	Bits    float64     // bits/s on the wire, on all paths together
	Packets float64     // packets/s
	Wants   float64     // bits/s that it is known to demand, whatever it sends; 0: unknown
	Known   bool        // false: there is no reading of this period
}

// Allowance is what a sender may send, per second. +Inf means unlimited.
type Allowance struct{ Bits, Packets float64 }

// Unlimited is the Allowance without any limit.
var Unlimited = Allowance{math.Inf(1), math.Inf(1)}

// Link is the resource that the senders share.
type Link struct {
	Speed        float64       // bits/s, according to the kernel or the config
	Packets      float64       // packets/s that the host carries; +Inf: unknown
	Period       time.Duration // since the last readings
	Bound        bool          // only the allowances keep the senders within Speed and Packets: divide both even without guarantees
	Uncontrolled bool          // senders that cannot be limited use a part of the link
	Moving       bool          // limits in force may differ from those decided, or traffic from the readings: do not learn from this period
}

// Allocator divides a link. It may keep state about each sender.
type Allocator interface {
	// Allocate sets what each sender may send from now on. out has an entry for each of senders, which are ordered by ID: on
	// entry the allowance in force, on return the new one. While the senders stay the same it allocates no memory, and it does
	// not keep the slices. now increases from call to call.
	Allocate(now time.Time, link Link, senders []Sender, out []Allowance)
	// Capacity is the estimated capacity of the link in bits/s: link.Speed unless the Allocator measures it. 0 before the first
	// call.
	Capacity() float64
}

// makers holds the allocators by name.
var makers = map[string]func() Allocator{
	"none":      func() Allocator { return &none{} },
	"equal":     func() Allocator { return &equal{} },
	"weighted":  func() Allocator { return &weighted{} },
	"daqs":      func() Allocator { return &daqs{limit: daqsNone} },
	"dbavm":     func() Allocator { return &dbavm{} },
	"waterfill": func() Allocator { return &waterfill{} },
}

// Names lists the allocators.
func Names() []string {
	return slices.Sorted(maps.Keys(makers))
}

// NewAllocator returns the allocator of that name.
func NewAllocator(name string) (Allocator, error) {
	if m := makers[name]; m != nil {
		return m(), nil
	}
	return nil, fmt.Errorf("there is no allocator %q; there are %s", name, strings.Join(Names(), ", "))
}

// none applies nothing but the SLAs' own limits: the baseline without a controller.
type none struct{ nominal }

func (n *none) Allocate(_ time.Time, link Link, senders []Sender, out []Allowance) {
	n.speed = link.Speed
	for i := range senders {
		out[i] = limitOf(&senders[i].SLA)
	}
}

// limitOf is the SLA's limit as an Allowance.
func limitOf(s *model.SLA) Allowance {
	a := Unlimited
	if s.Limit.Bits > 0 {
		a.Bits = float64(s.Limit.Bits)
	}
	if s.Limit.Packets > 0 {
		a.Packets = float64(s.Limit.Packets)
	}
	return a
}
