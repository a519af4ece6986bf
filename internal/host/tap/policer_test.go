package tap

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/host/bpf"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// loadPolicer loads the program of a direction with its own map, without attaching it.
func loadPolicer(t testing.TB, dir int) (*ebpf.Program, policyMemory) {
	t.Helper()
	table, err := newPolicyMap()
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = table.Close() })
	mem, err := openPolicyMemory(table)
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = mem.Close() })
	local, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 1, MaxEntries: 1})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = local.Close() })
	prog, err := policer{dir: dir, policy: table, local: local}.load()
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = prog.Close() })
	return prog, mem
}

// run makes the kernel run a program that many times on a frame.
func run(t testing.TB, prog *ebpf.Program, frame []byte, gso, times int) int32 {
	t.Helper()
	ctx := make([]byte, 192) // struct __sk_buff
	binary.NativeEndian.PutUint32(ctx[skbGSOSize:], uint32(gso))
	verdict, err := prog.Run(&ebpf.RunOptions{Data: frame, Context: ctx, Repeat: uint32(times)})
	kerneltest.Must(t, err)
	return int32(verdict)
}

// onWire computes the expected result of measure by segmenting the frame.
func onWire(frame []byte, gso int) (segments, bits uint64) {
	headers := len(frame)
	if gso > 0 && len(frame) >= headerBytes {
		at, proto := 14+int(frame[14]&0xf)*4, frame[23]
		if frame[12] == 0x86 && frame[13] == 0xdd {
			at, proto = 14+40, frame[20]
		}
		switch {
		case proto != 6:
			headers = at + 8
		case at+12 < len(frame):
			headers = at + int(frame[at+12]>>4)*4
		}
	}
	rest := len(frame) - headers
	if rest <= 0 {
		return 1, uint64(len(frame)+bpf.WireOverhead) * 8
	}
	for ; rest > 0; rest -= gso {
		segments++
		bits += uint64(headers+min(rest, gso)+bpf.WireOverhead) * 8
	}
	return segments, bits
}

// TestMeasure compares what the program measures with onWire, for frames with arbitrary headers, as guests may send them.
func TestMeasure(t *testing.T) {
	prog, mem := loadPolicer(t, dirTx)
	mem.write(Policy{Tx: PathRates{Contract: model.Rate{Bits: 1e9, Packets: 1e6}}}, monotonic(), 0)
	r := rand.New(rand.NewPCG(1, 2))
	measured := 0
	for measured < 5000 {
		frame := make([]byte, 14+r.IntN(2900))
		for i := range frame {
			frame[i] = byte(r.Uint32())
		}
		if len(frame) >= headerBytes && r.IntN(10) > 0 {
			copy(frame[12:], [][]byte{{8, 0, 0x45 + byte(r.IntN(4))}, {0x86, 0xdd, 0x60}}[r.IntN(2)])
			proto := []byte{6, 17, 41}[r.IntN(3)]
			frame[20], frame[23] = proto, proto
		}
		gso := r.IntN(4) * r.IntN(1500)
		ahead := (monotonic() + uint64(contractBurst) - uint64(time.Millisecond)) << tickShift
		mem.set(contractBits.word(dirTx)+meterTAT, ahead)
		mem.set(contractPackets.word(dirTx)+meterTAT, ahead)
		if verdict := run(t, prog, frame, gso, 1); verdict != bpf.TCXNext {
			t.Fatalf("verdict %d", verdict)
		}
		if monotonic()<<tickShift > ahead {
			continue // too slow: the meter has fallen behind the clock and shows nothing
		}
		measured++
		bits := (mem.word(contractBits.word(dirTx)+meterTAT) - ahead) / 16
		segments := (mem.word(contractPackets.word(dirTx)+meterTAT) - ahead) / 16000
		if wantSegments, wantBits := onWire(frame, gso); segments != wantSegments || bits != wantBits {
			t.Fatalf("%d bytes in parts of %d, %x: %d segments, %d bits; want %d, %d", len(frame), gso, frame[:min(len(frame), 70)], segments, bits,
				wantSegments, wantBits)
		}
	}
}

// inParallel runs a program on the same frame on several CPUs at once.
func inParallel(t *testing.T, prog *ebpf.Program, senders, each, times int) {
	frame := make([]byte, 60)
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range each {
				run(t, prog, frame, 0, times)
			}
		})
	}
	all.Wait()
}

// TestParallelFrames checks that CPUs checking concurrently let through no more than the limit and one frame each.
func TestParallelFrames(t *testing.T) {
	const rate, senders, each, times = 100_000, 4, 40, 20_000 // packets/s
	prog, mem := loadPolicer(t, dirTx)
	began := monotonic()
	mem.write(Policy{Tx: PathRates{Contract: model.Rate{Packets: rate, Bits: 1e12}}}, began, 0)
	inParallel(t, prog, senders, each, times)
	took := float64(monotonic()-began) / 1e9
	passed := float64(senders*each*times - mem.read("", 0).TxDropped.Packets)
	burst := rate * contractBurst.Seconds()
	if most := (rate*took + burst + senders) * 1.001; passed > most {
		t.Errorf("%v passed in %v s, want at most %v", passed, took, most)
	}
	if passed < burst {
		t.Errorf("%v passed, want at least the burst of %v", passed, burst)
	}
}

// TestNoFrameGoesUncounted checks that without drops the meter advances by at least the cost of all frames; more where it fell
// behind the clock.
func TestNoFrameGoesUncounted(t *testing.T) {
	const senders, each, times = 4, 20, 10_000
	prog, mem := loadPolicer(t, dirTx)
	mem.write(Policy{Tx: PathRates{Contract: model.Rate{Packets: 1e7}}}, monotonic(), 0) // uses 80 ms of the 100 ms burst
	began := monotonic() << tickShift
	inParallel(t, prog, senders, each, times)
	if d := mem.read("", 0).TxDropped.Packets; d != 0 {
		t.Fatalf("%d dropped", d)
	}
	const all = senders * each * times * 1600 // ticks
	if moved := mem.word(contractPackets.word(dirTx)+meterTAT) - began; moved < all {
		t.Errorf("the meter moved by %d, want at least %d", moved, all)
	}
}

// TestChangeOfRate checks that the excess stays the same when the limit changes, and that frequent changes grant no bursts.
func TestChangeOfRate(t *testing.T) {
	_, mem := loadPolicer(t, dirTx)
	set := func(bits uint64, now uint64) {
		mem.write(Policy{Tx: PathRates{Contract: model.Rate{Bits: bits}}}, now, 0)
	}
	tat := contractBits.word(dirTx) + meterTAT
	const now = 1e9
	set(1e6, now)
	mem.set(tat, now<<tickShift+second) // an excess of 1 s at 1 Mbit/s
	set(100e6, now)
	if got, want := mem.word(tat), uint64(now<<tickShift+second/100); got != want {
		t.Errorf("after a rise: %d, want %d", got, want)
	}
	for range 100 {
		set(1e6, now)
		set(100e6, now)
	}
	if got, want := mem.word(tat), uint64(now<<tickShift+second/100); got > want+100 || got < want-100 {
		t.Errorf("after many changes: %d, want %d", got, want)
	}
	mem.set(tat, 5) // long ago: no excess to keep
	set(2e6, now)
	if got := mem.word(tat); got != 5 {
		t.Errorf("an idle meter became %d", got)
	}
	mem.set(tat, now<<tickShift+50*second) // a large frame at a low limit
	set(0, now)
	set(1e9, now)
	if got := mem.word(tat); got > now<<tickShift {
		t.Errorf("a limit that was lifted in between keeps the guest waiting for %d s", (got-now<<tickShift)/second)
	}
	mem.set(contractBits.word(dirTx)+meterCost, 7) // as left by a process killed in between
	set(1e9, now)
	if got, want := mem.word(contractBits.word(dirTx)+meterCost), contractBits.cost(1e9); got != want {
		t.Errorf("what was half set stays so: a bit costs %d, want %d", got, want)
	}
	set(0, now)
	set(1, now)
	if got := mem.read("", now).Tx.Contract.Bits; got != minBits {
		t.Errorf("1 bit/s stands as %d, want %d", got, minBits)
	}
}

// TestCosts checks that no permitted limit overflows or deviates by more than 1 %.
func TestCosts(t *testing.T) {
	for rate := uint64(minBits); rate <= 100e9; rate += rate/7 + 1 {
		wire := uint64(88 * 8) // the shortest frame
		got := float64(wire*contractBits.cost(rate)>>costShift) / second
		if want := float64(wire) / float64(rate); got < want*0.99 || got > want*1.01 {
			t.Fatalf("%d bit/s: 64 bytes take %v s, want %v", rate, got, want)
		}
		const worst = 30e6 // bits: 64 KB in segments of one byte, each with headers
		if hi := float64(worst) * float64(contractBits.cost(rate)); hi > 1<<63 {
			t.Fatalf("%d bit/s: overflows", rate)
		}
		for _, m := range []meter{contractBits, nowBits} {
			if b := m.burst(rate); b > 1<<60 || b < minBurstBits*m.cost(rate)>>costShift {
				t.Fatalf("%d bit/s: burst %d", rate, b)
			}
		}
	}
	for rate := uint64(1); rate < 20e6; rate += rate/7 + 1 {
		if got, want := float64(contractPackets.cost(rate))/second, 1/float64(rate); got < want*0.99 || got > want*1.01 {
			t.Fatalf("%d packets/s: one takes %v s, want %v", rate, got, want)
		}
	}
}
