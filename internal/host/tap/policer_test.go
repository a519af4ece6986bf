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

// loadPolicer loads the program of a direction with a map of its own, attached nowhere.
func loadPolicer(t testing.TB, dir int) (*ebpf.Program, *policyMemory) {
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

// run gives a frame to a program as often as is said, in the kernel.
func run(t testing.TB, prog *ebpf.Program, frame []byte, gso, times int) int32 {
	t.Helper()
	ctx := make([]byte, 192) // struct __sk_buff
	binary.NativeEndian.PutUint32(ctx[skbGSOSize:], uint32(gso))
	verdict, err := prog.Run(&ebpf.RunOptions{Data: frame, Context: ctx, Repeat: uint32(times)})
	kerneltest.Must(t, err)
	return int32(verdict)
}

// onWire is what the program is to measure, by cutting the frame up.
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

// TestMeasure compares what a frame costs with a plain count, for frames of guests that
// may write anything into headers.
func TestMeasure(t *testing.T) {
	prog, mem := loadPolicer(t, dirTx)
	mem.write(TapPolicy{Tx: PathRates{Contract: model.Rate{Bits: 1e9, Packets: 1e6}}}, monotonic(), 0)
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
			continue // too slow: the meter has fallen behind, and says nothing
		}
		measured++
		bits := (mem.word(contractBits.word(dirTx)+meterTAT) - ahead) / 16
		segments := (mem.word(contractPackets.word(dirTx)+meterTAT) - ahead) / 16000
		if wantSegments, wantBits := onWire(frame, gso); segments != wantSegments || bits != wantBits {
			t.Fatalf("%d bytes in parts of %d, %x: %d segments, %d bits; want %d, %d", len(frame), gso, frame[:min(len(frame), 70)], segments, bits, wantSegments, wantBits)
		}
	}
}

// inParallel gives the same frame to a program from several CPUs at once.
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

// TestParallelFrames: CPUs that look at once let no more through than the limit, but for a
// frame each.
func TestParallelFrames(t *testing.T) {
	const rate, senders, each, times = 100_000, 4, 40, 20_000 // packets/s
	prog, mem := loadPolicer(t, dirTx)
	began := monotonic()
	mem.write(TapPolicy{Tx: PathRates{Contract: model.Rate{Packets: rate, Bits: 1e12}}}, began, 0)
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

// TestNoFrameGoesUncounted: while no frame is dropped, the meter moves by all of them at least;
// by more where it fell behind the time.
func TestNoFrameGoesUncounted(t *testing.T) {
	const senders, each, times = 4, 20, 10_000
	prog, mem := loadPolicer(t, dirTx)
	mem.write(TapPolicy{Tx: PathRates{Contract: model.Rate{Packets: 1e7}}}, monotonic(), 0) // 80 ms of the burst of 100
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

// TestChangeOfRate: what was sent too much stays the same, whatever the limit becomes, and
// that a limit changes often grants nothing.
func TestChangeOfRate(t *testing.T) {
	_, mem := loadPolicer(t, dirTx)
	set := func(bits uint64, now uint64) {
		mem.write(TapPolicy{Tx: PathRates{Contract: model.Rate{Bits: bits}}}, now, 0)
	}
	tat := contractBits.word(dirTx) + meterTAT
	const now = 1e9
	set(1e6, now)
	mem.set(tat, now<<tickShift+second) // 1 s of 1 Mbit/s
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
	mem.set(tat, 5) // long ago: nothing to keep
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
	mem.set(contractBits.word(dirTx)+meterCost, 7) // as a process leaves it that is killed in between
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

// TestCosts: no limit that can be asked for overflows, or is further than 1 % from what it says.
func TestCosts(t *testing.T) {
	for rate := uint64(minBits); rate <= 100e9; rate += rate/7 + 1 {
		wire := uint64(88 * 8) // the shortest frame
		got := float64(wire*contractBits.cost(rate)>>costShift) / second
		if want := float64(wire) / float64(rate); got < want*0.99 || got > want*1.01 {
			t.Fatalf("%d bit/s: 64 bytes take %v s, want %v", rate, got, want)
		}
		const worst = 30e6 // bits: 64 KB in parts of one byte, each with headers
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
