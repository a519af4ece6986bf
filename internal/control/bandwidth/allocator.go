package bandwidth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
)

// Sender is a NIC that shares a link, or all those of a group that shares its part by
// itself (an HTB tree of taps), with what it sent in the last period.
type Sender struct {
	ID      model.NICID // of a group: no VM, and the PF as NIC
	SLA     model.SLA   // with the NIC's part of its VM's packets/s
	Age     int         // place in the order in which the NICs came: the oldest is 0
	Bits    float64     // bits/s on the wire, on all paths together
	Packets float64     // packets/s
	Wants   float64     // bits/s that it is known to want, whatever it sends; 0: nothing is known of it
	Known   bool        // false: no reading of this period
}

// Allowance is what a sender may send, per second. Unlimited is +Inf.
type Allowance struct{ Bits, Packets float64 }

// Unlimited lets a sender take all there is.
var Unlimited = Allowance{math.Inf(1), math.Inf(1)}

// Link is what the senders share.
type Link struct {
	Speed   float64       // bits/s, as the kernel or the config says
	Packets float64       // packets/s that the host carries; +Inf: not known
	Period  time.Duration // since the last readings
	Bound   bool          // nothing but what is allowed keeps the senders to Speed and Packets: both are to be shared even if nobody is promised any
	Invaded bool          // others than the senders take a part of it, which nobody can hold down
	Moving  bool          // what is in force may not be what was decided, or what is sent not what is read: nothing is to be learnt about the link
}

// Allocator shares a link. It may remember what it saw of each sender.
type Allocator interface {
	// Allocate says what each sender may send from now on. out has an entry for each of senders, which are
	// in order of ID: on entry what is in force, on return what is to be. It neither allocates memory,
	// while the senders stay the same, nor keeps the slices. now rises from call to call.
	Allocate(now time.Time, link Link, senders []Sender, out []Allowance)
	// Capacity is what it takes the link to carry, in bits/s: link.Speed unless it measures. 0 before the first call.
	Capacity() float64
}

// makers has the allocators by name.
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
	var list []string
	for name := range makers {
		list = append(list, name)
	}
	slices.SortFunc(list, cmp.Compare[string])
	return list
}

// NewAllocator makes the one with that name.
func NewAllocator(name string) (Allocator, error) {
	if m := makers[name]; m != nil {
		return m(), nil
	}
	return nil, fmt.Errorf("there is no allocator %q; there are %s", name, strings.Join(Names(), ", "))
}

// none limits nobody but by their own limits: what there is without a controller.
type none struct{ speed float64 }

func (n *none) Capacity() float64 { return n.speed }

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
