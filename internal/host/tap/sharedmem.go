package tap

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sharedWords is the value of a map with one entry, shared between this process and programs. It consists of 64-bit words, each
// accessed atomically. The first word is the layout version of the others.
type sharedWords struct {
	raw   []byte
	words []uint64
}

const wordLayout = 0

// newSharedMap creates a map for sharedWords.
func newSharedMap(name string, words int) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(words * 8), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, fmt.Errorf("make eBPF map: %w", err)
	}
	return m, nil
}

var errLayout = errors.New("was made by another version")

// openShared maps a map into memory. It returns errLayout if the map has another layout.
func openShared(m *ebpf.Map, words int, layout uint64) (*sharedWords, error) {
	if m.Type() != ebpf.Array || m.ValueSize() != uint32(words*8) || m.Flags()&unix.BPF_F_MMAPABLE == 0 {
		return nil, errLayout
	}
	raw, err := unix.Mmap(m.FD(), 0, words*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map an eBPF map into memory: %w", err)
	}
	p := &sharedWords{raw: raw, words: unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(raw))), words)}
	if p.word(wordLayout) == 0 {
		p.set(wordLayout, layout)
	}
	if p.word(wordLayout) != layout {
		return nil, errors.Join(errLayout, p.Close())
	}
	return p, nil
}

func (p *sharedWords) Close() error { return unix.Munmap(p.raw) }

func (p *sharedWords) word(i int) uint64 { return atomic.LoadUint64(&p.words[i]) }

func (p *sharedWords) set(i int, v uint64) { atomic.StoreUint64(&p.words[i], v) }

// setMeter changes the limit of the meter that begins at that word. The excess so far stays the same number of bits or packets: a
// raised limit takes effect at once, and frequent changes do not grant a new burst each time.
func (p *sharedWords) setMeter(m meter, at int, rate, now uint64) {
	if rate != 0 && m.bits() {
		rate = max(rate, minBits)
	}
	old := p.word(at + meterCost)
	if rate == 0 {
		p.set(at+meterCost, 0)
		p.set(at+meterRate, 0)
		return
	}
	cost := m.cost(rate)
	if p.word(at+meterRate) == rate && old == cost { // differs if a process was killed in between
		return
	}
	p.set(at+meterBurst, m.burst(rate))
	if old == 0 {
		p.set(at+meterTAT, 0) // the excess over an earlier limit, in its ticks, does not count against this one
	} else {
		rescale(&p.words[at+meterTAT], now<<tickShift, old, cost)
	}
	p.set(at+meterCost, cost)
	p.set(at+meterRate, rate)
}

// rescale multiplies the time by which a meter is ahead of now by cost/old.
func rescale(tat *uint64, now, old, cost uint64) {
	for {
		have := atomic.LoadUint64(tat)
		if have <= now {
			return
		}
		hi, lo := bits.Mul64(have-now, cost)
		ahead := uint64(1 << 62)
		if hi < old {
			ahead, _ = bits.Div64(hi, lo, old)
		}
		if atomic.CompareAndSwapUint64(tat, have, now+min(ahead, 1<<62)) {
			return
		}
	}
}
