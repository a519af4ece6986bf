package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// tapGuest is a guest of DBA-VM's experiments: its guarantee, which is also its limit, and what it sends.
type tapGuest struct {
	sla     model.Rate
	size    int // of its frames, without the frame check sequence
	offered float64
}

const (
	large = 1514
	small = 60
)

// offer returns a guest that sends bits/s on the wire, in frames of that size.
func offer(sla model.Rate, size int, bits float64) tapGuest {
	return tapGuest{sla, size, bits / wireBits(size)}
}

// wireBits returns the bits that a frame occupies on the wire.
func wireBits(size int) float64 { return float64(8 * (size + 24)) }

type tapScenario struct {
	name, about string
	guests      []tapGuest
}

var promised = []model.Rate{{Bits: 150e6, Packets: 20e3}, {Bits: 700e6, Packets: 60e3}, {Bits: 150e6, Packets: 60e3}}

func tapScenarios() []tapScenario {
	each := func(sizes [3]int, offered [3]float64) (out []tapGuest) {
		for i := range promised {
			out = append(out, offer(promised[i], sizes[i], offered[i]))
		}
		return out
	}
	return []tapScenario{
		{"tap-1500", "1500-byte packets, 750 Mbit/s of each guest", each([3]int{large, large, large}, [3]float64{750e6, 750e6, 750e6})},
		{
			"tap-mixed", "the first and the third send 64-byte packets, 90,000 a second",
			each([3]int{small, large, small}, [3]float64{60e6, 750e6, 60e6}),
		},
		{"tap-flood", "the third floods: 64-byte packets, 200,000 a second", each([3]int{large, large, small}, [3]float64{145e6, 750e6, 134e6})},
	}
}

// tapResult is the result of a run on taps.
type tapResult struct {
	Guests  []tapPart `json:"guests"`
	CPU     float64   `json:"cpu_percent"`            // of one core: this process and the kernel's work for it
	Control float64   `json:"controller_cpu_percent"` // of a core
	Memory  int64     `json:"resident_kb"`
	Late    int       `json:"late_ticks"`
}

// tapPart is the result for one guest.
type tapPart struct {
	Mbit    float64 `json:"mbit_s"` // on the wire
	Kpps    float64 `json:"kpps"`
	Loss    float64 `json:"loss_percent"` // of what it offered
	Delay   float64 `json:"delay_us"`
	Delay99 float64 `json:"delay_99_us"`
	Jitter  float64 `json:"jitter_us"`
	Offered float64 `json:"offered_kpps"`
}

// tapBench runs scenarios on taps.
type tapBench struct {
	bed *tapBed
	*counted
}

// tapSettle is how long guests send before the measurement starts.
const tapSettle = 2 * time.Second

// run runs a scenario under an allocator and the policers; allocator "": without either.
func (b *tapBench) run(sc *tapScenario, allocator string, period time.Duration) (tapResult, error) {
	var stop, stopSink atomic.Bool
	var all, sink sync.WaitGroup
	errs := make([]error, len(sc.guests)+1)
	offered := make([]atomic.Int64, len(sc.guests))
	before := make([]int64, len(sc.guests))
	for i := range sc.guests {
		all.Go(func() {
			errs[i] = b.bed.blast(i, sc.guests[i].size, sc.guests[i].offered, &stop, &offered[i])
		})
	}
	c := &tapControl{bench: b, period: period}
	if allocator != "" {
		all.Go(func() { errs[len(sc.guests)] = c.run(sc, allocator, &stop) })
	}
	time.Sleep(tapSettle)
	out := make([]arrivals, len(sc.guests))
	from := monotonic()
	for i := range before {
		before[i] = offered[i].Load()
	}
	cpu := processCPU()
	sink.Go(func() { runtime.LockOSThread(); b.bed.collect(from, &stopSink, out) })
	time.Sleep(tapLength)
	took := time.Duration(monotonic() - from)
	var r tapResult
	r.CPU = 100 * (processCPU() - cpu).Seconds() / took.Seconds()
	for i := range before {
		before[i] = offered[i].Load() - before[i]
	}
	stop.Store(true)
	all.Wait()
	time.Sleep(100 * time.Millisecond) // let frames in flight arrive
	stopSink.Store(true)
	sink.Wait()
	for i := range out {
		r.Guests = append(r.Guests, out[i].part(&sc.guests[i], before[i], took))
	}
	r.Control, r.Late, r.Memory = c.cpu, c.late, resident()
	return r, errors.Join(errs...)
}

func (a *arrivals) part(g *tapGuest, offered int64, took time.Duration) tapPart {
	n := float64(max(1, a.packets))
	p := tapPart{
		Mbit: float64(a.packets) * wireBits(g.size) / took.Seconds() / 1e6, Kpps: float64(a.packets) / took.Seconds() / 1e3,
		Loss: 100 * (1 - float64(a.packets)/float64(max(1, offered))), Offered: float64(offered) / took.Seconds() / 1e3,
		Delay: a.delay / n / 1e3, Jitter: a.jitter / n / 1e3,
	}
	seen := int64(0)
	for i, k := range a.late {
		if seen += k; float64(seen) >= .99*n {
			p.Delay99 = float64(i+1) * 100
			break
		}
	}
	return p
}

// tapControl is the controller: the taps' counters, Sluice's allocator, and the policers.
type tapControl struct {
	bench  *tapBench
	period time.Duration
	cpu    float64
	late   int
}

func (c *tapControl) run(sc *tapScenario, allocator string, stop *atomic.Bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	alloc, err := bandwidth.NewAllocator(allocator)
	if err != nil {
		return err
	}
	senders := make([]bandwidth.Sender, len(sc.guests))
	out := make([]bandwidth.Allowance, len(sc.guests))
	for i := range senders {
		senders[i] = bandwidth.Sender{
			ID: model.NICID{VM: model.VMID(tapName(i))}, Age: i,
			SLA: model.SLA{Guarantee: sc.guests[i].sla, Limit: sc.guests[i].sla},
		}
		out[i] = bandwidth.Unlimited
	}
	last, seen := make([]sent, len(senders)), make([]sent, len(senders))
	if err := c.bench.counters(last); err != nil {
		return err
	}
	begin, used := time.Now(), threadCPU()
	for before := begin; !stop.Load(); {
		time.Sleep(c.period - time.Since(before))
		now := time.Now()
		since := now.Sub(before)
		if since > c.period*5/4 {
			c.late++
		}
		if err := c.bench.counters(seen); err != nil {
			return err
		}
		measured(senders, last, seen, since)
		last, seen, before = seen, last, now
		alloc.Allocate(now, bandwidth.Link{Speed: tapLink, Packets: 190e3, Period: since}, senders, out)
		for i := range out {
			// Set it even if nothing changes, to renew the lease.
			if err := c.bench.police(tapName(i), model.Rate{Bits: whole(out[i].Bits), Packets: whole(out[i].Packets)}); err != nil {
				return err
			}
		}
	}
	c.cpu = 100 * (threadCPU() - used).Seconds() / time.Since(begin).Seconds()
	return nil
}

// whole converts an allowance to a Limit's value, where 0 means unlimited.
func whole(v float64) uint64 {
	if math.IsInf(v, 1) {
		return 0
	}
	return uint64(max(1, v))
}

func processCPU() time.Duration { return usage(unix.RUSAGE_SELF) }
func threadCPU() time.Duration  { return usage(unix.RUSAGE_THREAD) }

func usage(who int) time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(who, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident returns the process's resident memory in KB.
func resident() (kb int64) {
	data, _ := os.ReadFile("/proc/self/status") // "" if the file is missing
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	_, _ = fmt.Sscan(rest, &kb)
	return kb
}
