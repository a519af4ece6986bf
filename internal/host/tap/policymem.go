package tap

import (
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// policyMemory is the value of a tap's map, shared between this process and the programs on
// the tap: 64-bit words, each written at once, so that no program ever sees half a number.
type policyMemory struct{ *sharedWords }

// What is where in it, in words. A change of this needs another policyLayout.
const (
	policyLayout = 1

	wordDeadline = 1 // ns of CLOCK_MONOTONIC: until when what is allowed now holds
	wordShaper   = 2 // ifindex, 0: none
	wordClass    = 3
	wordMeters   = 8 // of tx, then of rx
	meterWords   = 4
	dirWords     = 32

	// Of a meter.
	meterRate  = 0 // bits/s or packets/s, 0: none; for reading back
	meterCost  = 1 // see meter.cost
	meterBurst = 2 // ticks
	meterTAT   = 3 // ticks; the program's

	// Of a direction, after its meters.
	wordDroppedPackets = 16
	wordDroppedBytes   = 17

	policyWords = wordMeters + 2*dirWords
	policyBytes = policyWords * 8
)

// meter is one limit of a direction.
type meter int

// The meters, in the order that the program asks them.
const (
	contractBits meter = iota
	contractPackets
	nowBits
	nowPackets
	meters
)

func (m meter) bits() bool { return m == contractBits || m == nowBits }

// leased is the meter that counts in place of a contract's while there is a lease.
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

// Time is counted in ticks of 1/16 ns, so that the shortest frame at 100 Gbit/s still costs
// 113 of them: what is lost by rounding stays below 1 %. 64 bits last for 36 years of uptime.
const (
	tickShift = 4
	second    = 1e9 << tickShift // in ticks
	costShift = 16               // of what a bit costs, since that is less than a tick
)

// How much may come at once after a pause.
const (
	// contractBurst is what TCP needs to reach most of a contract: with 20 ms one CUBIC flow
	// had 43 % of it at a round trip of 0.1 ms, with 100 ms five flows had all.
	contractBurst = 100 * time.Millisecond
	// nowBurst is short, since it is taken from others' guarantees.
	nowBurst = 20 * time.Millisecond
	// minBurst, in packets of 1538 bytes on the wire, is TCP's initial window (RFC 6928).
	minBurst     = 10
	minBurstBits = minBurst * 1538 * 8
)

// minBits is the lowest limit in bits/s, and keeps what a packet costs within 64 bits.
const minBits = 8000

// cost is what a bit costs at that rate, in ticks << costShift, or a packet, in ticks.
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

// newPolicyMap makes a tap's map.
func newPolicyMap() (*ebpf.Map, error) { return newSharedMap("sluice_tap", policyWords) }

// openPolicyMemory maps a tap's map into memory. It says errLayout if it is no such map.
func openPolicyMemory(m *ebpf.Map) (*policyMemory, error) {
	words, err := openShared(m, policyWords, policyLayout)
	if err != nil {
		return nil, err
	}
	return &policyMemory{words}, nil
}

// read says what stands, except whether it is attached.
func (p *policyMemory) read(tap string, now uint64) TapPolicy {
	rate := func(dir int, b, packets meter) model.Rate {
		return model.Rate{Bits: p.word(b.word(dir) + meterRate), Packets: p.word(packets.word(dir) + meterRate)}
	}
	path := func(dir int) PathRates {
		return PathRates{Now: rate(dir, nowBits, nowPackets), Contract: rate(dir, contractBits, contractPackets)}
	}
	return TapPolicy{
		Tap: tap, Tx: path(dirTx), Rx: path(dirRx),
		Shaper: int(p.word(wordShaper)), Class: uint32(p.word(wordClass)),
		Leased: p.word(wordDeadline) >= now, TxDropped: p.dropped(dirTx), RxDropped: p.dropped(dirRx),
	}
}

func (p *policyMemory) dropped(dir int) Dropped {
	base := wordMeters + dir*dirWords
	return Dropped{Packets: p.word(base + wordDroppedPackets), Bytes: p.word(base + wordDroppedBytes)}
}

// write makes a policy stand, with its lease.
func (p *policyMemory) write(t TapPolicy, now uint64, lease time.Duration) {
	for dir, rates := range map[int]PathRates{dirTx: t.Tx, dirRx: t.Rx} {
		p.setMeter(contractBits, contractBits.word(dir), rates.Contract.Bits, now)
		p.setMeter(contractPackets, contractPackets.word(dir), rates.Contract.Packets, now)
		p.setMeter(nowBits, nowBits.word(dir), rates.Now.Bits, now)
		p.setMeter(nowPackets, nowPackets.word(dir), rates.Now.Packets, now)
	}
	if uint64(t.Shaper) != p.word(wordShaper) {
		p.set(wordShaper, 0) // no frame goes to the new shaper with the old one's class
	}
	p.set(wordClass, uint64(t.Class))
	p.set(wordShaper, uint64(t.Shaper))
	p.set(wordDeadline, now+uint64(lease))
}

// monotonic is the time as programs see it, in ns.
func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("no monotonic clock: " + err.Error()) // Linux always has one
	}
	return uint64(ts.Nano())
}
