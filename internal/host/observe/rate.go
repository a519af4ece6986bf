package observe

import (
	"time"

	"sluice/internal/model"
)

// counts are the counters of one path as the guest sees it: rx is what it receives.
type counts struct {
	rxPackets, txPackets, rxBytes, txBytes uint64
}

// swapped converts the host's view of a tap to the guest's: what the host receives from a tap is what the guest sent.
func (c counts) swapped() counts {
	return counts{c.txPackets, c.rxPackets, c.txBytes, c.rxBytes}
}

// since returns how far each counter advanced from p to c, and false if one of them went back: the device was reset, or its counters have
// 32 bits and wrapped around. These two cannot be told apart, so neither gives a figure.
func (c counts) since(p counts) (counts, bool) {
	ok := c.rxPackets >= p.rxPackets && c.txPackets >= p.txPackets &&
		c.rxBytes >= p.rxBytes && c.txBytes >= p.txBytes
	return counts{
		c.rxPackets - p.rxPackets, c.txPackets - p.txPackets,
		c.rxBytes - p.rxBytes, c.txBytes - p.txBytes,
	}, ok
}

// limit is the most a path can carry in one direction; a higher figure is an error of the counters.
type limit struct {
	pps, bytes float64
}

const (
	// maxSpeed replaces an unknown link speed and bounds taps, bits/s.
	maxSpeed = 200_000_000_000
	// minFrame is the shortest Ethernet frame with preamble and gap, in bits.
	minFrame = (64 + 20) * 8
)

// limitOf returns what a link of that speed (bits/s, 0: unknown) can carry, times slack. Bytes are bounded by the speed itself, without
// the gap between frames.
func limitOf(speed uint64, slack float64) limit {
	if speed == 0 || speed > maxSpeed {
		speed = maxSpeed
	}
	return limit{pps: slack * float64(speed) / minFrame, bytes: slack * float64(speed) / 8}
}

// exceeded reports whether a figure is more than the path can carry.
func (l limit) exceeded(t model.Traffic) bool {
	return t.RxPPS > l.pps || t.TxPPS > l.pps || t.RxBytes > l.bytes || t.TxBytes > l.bytes
}

// sample is one reading of a device's counters.
type sample struct {
	at    time.Time
	boot  uint64 // identifies the device, by its ifindex or the guest's boot: a change means another device
	count counts
}

// gaps bound the time between two samples that make a rate.
type gaps struct {
	min time.Duration // closer together: the older figure is kept
	max time.Duration // further apart: an average over that long says nothing about now
}

// meter computes rates from samples. The zero meter has no sample. It never estimates: Known is false until the next valid pair of samples.
type meter struct {
	last sample
	rate model.Traffic
	seen bool
}

// add takes a sample and returns the rate since the previous one.
func (m *meter) add(s sample, g gaps, l limit) model.Traffic {
	dt := s.at.Sub(m.last.at)
	switch {
	case !m.seen:
		m.restart(s, "first sample")
	case s.boot != m.last.boot:
		m.restart(s, "the device is a new one")
	case dt < 0:
		m.restart(s, "the clock went back")
	case dt < g.min || dt == 0:
		m.early(s)
	case dt > g.max:
		m.restart(s, "no sample for too long")
	default:
		m.step(s, dt, l)
	}
	return m.rate
}

// restart discards the history and starts over at s.
func (m *meter) restart(s sample, why string) {
	*m = meter{last: s, seen: true, rate: model.Traffic{Note: why}}
}

// early keeps the older sample and figure, unless the counters show a reset.
func (m *meter) early(s sample) {
	if _, ok := s.count.since(m.last.count); !ok {
		m.restart(s, "the counters went back")
	}
}

// step computes the rate from the last sample to s.
func (m *meter) step(s sample, dt time.Duration, l limit) {
	d, ok := s.count.since(m.last.count)
	if !ok {
		m.restart(s, "the counters went back")
		return
	}
	t := perSecond(d, dt)
	if l.exceeded(t) {
		m.restart(s, "the counters jumped by more than the link carries")
		return
	}
	m.last, m.rate = s, t
}

// perSecond divides counts by a positive duration.
func perSecond(d counts, dt time.Duration) model.Traffic {
	sec := dt.Seconds()
	return model.Traffic{
		RxPPS: float64(d.rxPackets) / sec, TxPPS: float64(d.txPackets) / sec,
		RxBytes: float64(d.rxBytes) / sec, TxBytes: float64(d.txBytes) / sec,
		Known: true,
	}
}

// cpuMeter computes the number of CPUs in use from the CPU time used.
type cpuMeter struct {
	at    time.Time
	used  time.Duration
	cpus  float64
	seen  bool
	known bool
}

// add takes the CPU time used so far. It includes QEMU's own threads, so the result may slightly exceed the number of vCPUs and is capped
// there. More than about twice that number is an error of the counter.
func (m *cpuMeter) add(at time.Time, used time.Duration, vcpus int, g gaps) (cpus float64, known bool) {
	dt, work := at.Sub(m.at), used-m.used
	if m.seen && dt >= 0 && work >= 0 && (dt < g.min || dt == 0) {
		return m.cpus, m.known
	}
	cpus = work.Seconds() / dt.Seconds()
	known = m.seen && dt > 0 && dt <= g.max && work >= 0 && vcpus > 0 && cpus <= float64(2*vcpus+2)
	if known {
		cpus = min(cpus, float64(vcpus))
	} else {
		cpus = 0
	}
	*m = cpuMeter{at: at, used: used, cpus: cpus, seen: true, known: known}
	return cpus, known
}
