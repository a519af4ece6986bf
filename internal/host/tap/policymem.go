package tap

import (
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// policyMemory is the value of a tap's map, shared between this process and the programs of the tap. It consists of 64-bit words,
// each accessed atomically.
type policyMemory struct{ *sharedWords }

// Layout of policyMemory, in words. A change needs a new policyLayout.
const (
	policyLayout = 1

	wordDeadline = 1 // ns of CLOCK_MONOTONIC: end of the lease
	wordShaper   = 2 // ifindex, 0: none
	wordClass    = 3
	wordMeters   = 8 // of tx, then of rx
	meterWords   = 4
	dirWords     = 32

	// Of a meter.
	meterRate  = 0 // bits/s or packets/s, 0: none; only for reading back
	meterCost  = 1 // see meter.cost
	meterBurst = 2 // ticks
	meterTAT   = 3 // ticks, theoretical arrival time; written by the program

	// Of a direction, after its meters.
	wordDroppedPackets = 16
	wordDroppedBytes   = 17

	policyWords = wordMeters + 2*dirWords
	policyBytes = policyWords * 8
)

// meter is one limit of a direction.
type meter int

// The meters, in the order in which the program checks them.
const (
	contractBits meter = iota
	contractPackets
	nowBits
	nowPackets
	meters
)

func (m meter) bits() bool { return m == contractBits || m == nowBits }

// leased returns the meter that replaces a contract's meter during a lease.
func (m meter) leased() (now meter, ok bool) {
	switch m {
	case contractBits:
		return nowBits, true
	case contractPackets:
		return nowPackets, true
	}
	return m, false
}

func (m meter) word(dir int) int { return wordMeters + dir*dirWords + int(m)*meterWords }

// Time is counted in ticks of 1/16 ns: the shortest frame at 100 Gbit/s then costs 113 ticks, and rounding errors stay below 1 %.
// 64 bits last for 36 years of uptime.
const (
	tickShift = 4
	second    = 1e9 << tickShift // in ticks
	costShift = 16               // of the cost of a bit, which is less than a tick
)

// The permitted bursts after a pause.
const (
	// contractBurst is what TCP needs to use most of a contract: with 20 ms, one CUBIC flow reached 43 % of it at a round-trip
	// time of 0.1 ms; with 100 ms, five flows reached all of it.
	contractBurst = 100 * time.Millisecond
	// nowBurst is short because it is taken from the guarantees of others.
	nowBurst = 20 * time.Millisecond
	// minBurst, in packets of 1538 bytes on the wire, is TCP's initial window (RFC 6928).
	minBurst     = 10
	minBurstBits = minBurst * 1538 * 8
)

// minBits is the lowest limit in bits/s; it keeps the cost of a packet within 64 bits.
const minBits = 8000

// cost returns the cost of a bit at that rate, in ticks << costShift, or of a packet, in ticks.
func (m meter) cost(rate uint64) uint64 {
	one := uint64(second)
	if m.bits() {
		one <<= costShift
	}
	return max(1, (one+rate/2)/rate)
}

func (m meter) burst(rate uint64) uint64 {
	d := contractBurst
	if m == nowBits || m == nowPackets {
		d = nowBurst
	}
	least := minBurst * m.cost(rate)
	if m.bits() {
		least = minBurstBits * m.cost(rate) >> costShift
	}
	return max(uint64(d)<<tickShift, least)
}

func newPolicyMap() (*ebpf.Map, error) { return newSharedMap("sluice_tap", policyWords) }

// openPolicyMemory maps a tap's map into memory. It returns errLayout if the map has another layout.
func openPolicyMemory(m *ebpf.Map) (policyMemory, error) {
	words, err := openShared(m, policyWords, policyLayout)
	return policyMemory{words}, err
}

// read returns the policy without Index and Detached.
func (p policyMemory) read(tap string, now uint64) Policy {
	rate := func(dir int, b, packets meter) model.Rate {
		return model.Rate{Bits: p.word(b.word(dir) + meterRate), Packets: p.word(packets.word(dir) + meterRate)}
	}
	path := func(dir int) PathRates {
		return PathRates{Now: rate(dir, nowBits, nowPackets), Contract: rate(dir, contractBits, contractPackets)}
	}
	return Policy{
		Tap: tap, Tx: path(dirTx), Rx: path(dirRx),
		Shaper: int(p.word(wordShaper)), Class: uint32(p.word(wordClass)),
		Leased: p.word(wordDeadline) >= now, TxDropped: p.dropped(dirTx), RxDropped: p.dropped(dirRx),
	}
}

func (p policyMemory) dropped(dir int) Dropped {
	base := wordMeters + dir*dirWords
	return Dropped{Packets: p.word(base + wordDroppedPackets), Bytes: p.word(base + wordDroppedBytes)}
}

// write writes a policy and renews its lease.
func (p policyMemory) write(t Policy, now uint64, lease time.Duration) {
	for dir, rates := range map[int]PathRates{dirTx: t.Tx, dirRx: t.Rx} {
		p.setMeter(contractBits, contractBits.word(dir), rates.Contract.Bits, now)
		p.setMeter(contractPackets, contractPackets.word(dir), rates.Contract.Packets, now)
		p.setMeter(nowBits, nowBits.word(dir), rates.Now.Bits, now)
		p.setMeter(nowPackets, nowPackets.word(dir), rates.Now.Packets, now)
	}
	if uint64(t.Shaper) != p.word(wordShaper) {
		p.set(wordShaper, 0) // no frame may go to the new shaper with the old one's class
	}
	p.set(wordClass, uint64(t.Class))
	p.set(wordShaper, uint64(t.Shaper))
	p.set(wordDeadline, now+uint64(lease))
}

// monotonic returns the time in ns on the clock that the programs use.
func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("no monotonic clock: " + err.Error()) // Linux always has one
	}
	return uint64(ts.Nano())
}
