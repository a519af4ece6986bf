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
	Bound        bool          // divide both even without guarantees: nothing else keeps the senders within them, or weights differ
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

// kind is an allocator that can be chosen.
type kind struct {
	model.AllocatorInfo
	make func() Allocator
}

// kinds holds the allocators by name. DAQS's paper gives no period; the authors' program works every 200 ms, and equal and weighted are
// modes of it. DBA-VM's paper recommends 0.9 s (section V).
var kinds = map[string]kind{
	"none": {model.AllocatorInfo{
		Doc: "divides nothing: only limits are enforced", Period: 100 * time.Millisecond,
	}, func() Allocator { return &none{} }},
	"equal": {model.AllocatorInfo{
		Doc: "an equal part of the link for each VM, whatever it sends", Period: daqsPeriod, Always: true,
	}, func() Allocator { return &equal{} }},
	"weighted": {model.AllocatorInfo{
		Doc: "a part of the link by weight for each VM, whatever it sends", Period: daqsPeriod, Weights: true, Always: true,
	}, func() Allocator { return &weighted{} }},
	"daqs": {model.AllocatorInfo{
		Doc: "limits VMs without a guarantee, step by step, while one with a guarantee has less", Period: daqsPeriod, Bits: true,
	}, func() Allocator { return &daqs{limit: daqsNone} }},
	"dbavm": {model.AllocatorInfo{
		Doc:    "raises NICs below their guarantee from what is unused, else at the expense of lower classes",
		Period: 900 * time.Millisecond, Bits: true, Minimums: true, PacketsByBits: true,
	}, func() Allocator { return &dbavm{} }},
	"waterfill": {model.AllocatorInfo{
		Doc:    "guarantees first, by class; the rest by weight, to those with demand",
		Period: 100 * time.Millisecond, Bits: true, Packets: true, Weights: true, Kernel: true,
	}, func() Allocator { return &waterfill{} }},
}

// Names lists the allocators.
func Names() []string {
	return slices.Sorted(maps.Keys(kinds))
}

// Allocators describes the allocators by name; the config is checked against that.
func Allocators() map[string]model.AllocatorInfo {
	out := map[string]model.AllocatorInfo{}
	for name, k := range kinds {
		out[name] = k.AllocatorInfo
	}
	return out
}

// findKind returns the kind of that name.
func findKind(name string) (kind, error) {
	if k, ok := kinds[name]; ok {
		return k, nil
	}
	return kind{}, fmt.Errorf("there is no allocator %q; there are %s", name, strings.Join(Names(), ", "))
}

// NewAllocator returns the allocator of that name.
func NewAllocator(name string) (Allocator, error) {
	k, err := findKind(name)
	if err != nil {
		return nil, err
	}
	return k.make(), nil
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
