package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// enforcer limits what guests may send.
type enforcer interface {
	// set limits guest i to bits/s on the wire; +Inf: no limit.
	set(i int, bits float64) error
}

// controller is the control loop under test: counters, Sluice's allocator, an enforcer.
type controller struct {
	bed     *bed
	alloc   bandwidth.Allocator
	by      enforcer
	tree    *tree // divides the link itself: the allocator sees all senders as one; nil: no tree
	period  time.Duration
	senders []bandwidth.Sender
	out     []bandwidth.Allowance
	inForce []float64
	last    []sent
	now     []sent
	read    time.Time // time of the last reading

	changes  int
	late     int
	took     time.Duration // total duration of all ticks
	ticks    int
	capacity []found
	trace    io.Writer // nil: none
}

// found is the allocator's estimate of the link's capacity at a tick.
type found struct {
	at   time.Time
	bits float64
}

// static is the allocator that changes nothing: best-effort guests have a fixed limit that leaves room for the guarantees.
const static = "static"

func newController(b *bed, sc *scenario, by enforcer, allocator string, period time.Duration) (*controller, error) {
	n := len(sc.guests)
	name := allocator
	if name == static {
		name = "none"
	}
	alloc, err := newAllocator(sc, name, period)
	if err != nil {
		return nil, err
	}
	c := &controller{
		bed: b, alloc: alloc, by: by, period: period,
		senders: make([]bandwidth.Sender, n), out: make([]bandwidth.Allowance, n), inForce: make([]float64, n),
		last: make([]sent, n), now: make([]sent, n),
	}
	for i := range c.senders {
		c.senders[i] = bandwidth.Sender{ID: model.NICID{VM: model.VMID(fmt.Sprintf("g%03d", i))}, Age: i, SLA: slaOf(sc, i, allocator)}
		c.out[i] = bandwidth.Unlimited
		c.inForce[i] = math.Inf(1)
	}
	return c, nil
}

// slaOf returns the SLA of a guest. Under static, a best-effort guest is limited to its share of what the guarantees leave.
func slaOf(sc *scenario, i int, allocator string) (out model.SLA) {
	g := &sc.guests[i]
	if len(sc.priorities()) > 1 {
		out.Class, out.Priority = fmt.Sprint("class", g.priority), g.priority
	}
	out.Guarantee.Bits = uint64(g.guarantee * linkBits)
	if allocator == static && g.guarantee == 0 {
		free, sharers := 1.0, 0.0
		for j := range sc.guests {
			free -= sc.guests[j].guarantee
			if sc.guests[j].guarantee == 0 {
				sharers++
			}
		}
		out.Limit.Bits = uint64(free / sharers * linkBits)
	}
	return out
}

// run ticks until the given time.
func (c *controller) run(until time.Time) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var due unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &due); err != nil {
		return err
	}
	if err := c.bed.counters(c.last); err != nil {
		return err
	}
	begin := time.Now()
	c.read = begin
	for next := begin.Add(c.period); next.Before(until); next = next.Add(c.period) {
		due = unix.NsecToTimespec(due.Nano() + c.period.Nanoseconds())
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &due, nil) == unix.EINTR {
		}
		now := time.Now()
		if now.Sub(next) > c.period/4 {
			c.late++
		}
		if err := c.tick(now); err != nil {
			return err
		}
		took := time.Since(now)
		if took > c.period/2 {
			c.late++
		}
		c.took += took
		c.ticks++
	}
	return nil
}

// together merges all senders into one.
func together(senders []bandwidth.Sender) []bandwidth.Sender {
	group := bandwidth.Sender{ID: model.NICID{NIC: uplinkDev}, Known: true}
	for i := range senders {
		group.SLA.Guarantee.Bits += senders[i].SLA.Guarantee.Bits
		group.SLA.Weight += senders[i].SLA.Share()
		group.Bits += senders[i].Bits
		group.Packets += senders[i].Packets
	}
	return []bandwidth.Sender{group}
}

// end removes the tree, if there is one.
func (c *controller) end() {
	if c.tree != nil {
		if err := c.tree.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: the tree stays:", err)
		}
	}
}

// note logs the input and the decisions of the tick: capacity, and each guest's rate and limit in Mbit/s.
func (c *controller) note(now time.Time) {
	if c.trace == nil {
		return
	}
	fmt.Fprintf(c.trace, "%s %6.2f", now.Format("05.000"), c.alloc.Capacity()/1e6)
	for i := range c.out {
		fmt.Fprintf(c.trace, " | %6.2f %6.2f", c.senders[i].Bits/1e6, c.out[i].Bits/1e6)
	}
	fmt.Fprintln(c.trace)
}

func (c *controller) tick(now time.Time) error {
	if err := c.bed.counters(c.now); err != nil {
		return err
	}
	read := time.Now()
	if read.Sub(now) > c.period/10 { // the reading took too long to know its time
		c.late++
		return nil
	}
	since := read.Sub(c.read)
	c.read = read
	measured(c.senders, c.last, c.now, since)
	c.last, c.now = c.now, c.last
	senders, out := c.senders, c.out
	if c.tree != nil {
		if err := c.tree.renew(); err != nil {
			return err
		}
		senders, out = together(senders), c.out[:1]
	}
	c.alloc.Allocate(now, bandwidth.Link{Speed: linkBits, Packets: math.Inf(1), Period: since}, senders, out)
	c.capacity = append(c.capacity, found{now, c.alloc.Capacity()})
	c.note(now)
	for i := range out {
		if c.out[i].Bits == c.inForce[i] {
			continue
		}
		if err := c.by.set(i, c.out[i].Bits); err != nil {
			return err
		}
		c.inForce[i] = c.out[i].Bits
		c.changes++
	}
	return nil
}
