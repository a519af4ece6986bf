package tap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// few lets one burst through and then hardly anything.
var few = model.Rate{Packets: 1}

// update changes a tap's policy and returns the result.
func update(t testing.TB, h *testHost, tap string, edit func(*Policy)) Policy {
	t.Helper()
	p, err := h.UpdateTap(kerneltest.Soon(t), tap, edit)
	kerneltest.Must(t, err)
	return p
}

// policies lists the policies.
func policies(t testing.TB, h *testHost) []Policy {
	t.Helper()
	all, err := h.TapPolicies(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	return all
}

// send makes that many frames arrive from behind a port.
func send(t testing.TB, p *kerneltest.Port, n int) {
	t.Helper()
	for range n {
		p.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "flood"))
	}
}

// noPolicies checks that no policy is left, except for the shared map of addresses.
func noPolicies(t testing.TB, h *testHost) {
	t.Helper()
	left, err := filepath.Glob(h.taps.pins.Dir + "/*_*")
	kerneltest.Must(t, err)
	if all := policies(t, h); len(left) != 0 || len(all) != 0 {
		t.Errorf("left pinned: %q, listed %+v", left, all)
	}
}

// TestTapPolicy checks that frames beyond the burst are dropped and counted, that the policy is listed, and that nothing is left
// after its removal by RemoveTap or by a policy without limits.
func TestTapPolicy(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	for name, remove := range map[string]func() error{
		"removed": func() error { return h.RemoveTap(kerneltest.Soon(t), "tap0") },
		"asks none": func() error {
			return errorOf(h.UpdateTap(kerneltest.Soon(t), "tap0", func(p *Policy) { p.Tx = PathRates{} }))
		},
	} {
		want := PathRates{Contract: few}
		got := update(t, h, "tap0", func(p *Policy) { p.Tx = want })
		if got.Tx != want || !got.Leased || got.Detached != model.No || got.Index == 0 {
			t.Errorf("stands: %+v", got)
		}
		send(t, tap, 100*minBurst)
		all := policies(t, h)
		if len(all) != 1 || all[0].Tx != want || all[0].TxDropped.Packets < 90*minBurst || all[0].TxDropped.Bytes != 60*all[0].TxDropped.Packets {
			t.Errorf("listed: %+v", all)
		}
		if d := h.TapDrops(nil); len(d) != 1 || d[0] != (Drops{all[0].Index, all[0].TxDropped.Packets, 0}) {
			t.Errorf("drops: %+v", d)
		}
		for range 2 {
			if err := remove(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		noPolicies(t, h)
	}
}

func errorOf(_ Policy, err error) error { return err }

// TestLease checks that the leased rates expire and the contract does not.
func TestLease(t *testing.T) {
	h := newHostWith(t, options{BPFFS: kerneltest.BPFFS(t), Lease: 200 * time.Millisecond})
	tap := kerneltest.NewPort(t, "tap0", "")
	rates := PathRates{Now: few, Contract: model.Rate{Bits: 50e9}}
	drops := func() bool {
		before := policies(t, h)[0].TxDropped
		send(t, tap, 3*minBurst)
		return policies(t, h)[0].TxDropped != before
	}
	for range 2 {
		kerneltest.WaitFor(t, "the lease to hold", func() bool {
			update(t, h, "tap0", func(p *Policy) { p.Tx = rates })
			return drops()
		})
		kerneltest.WaitFor(t, "the lease to end", func() bool { return !drops() && !policies(t, h)[0].Leased })
	}
	if got := policies(t, h)[0]; got.Tx != rates || got.Detached != model.No {
		t.Errorf("afterwards stands %+v", got)
	}
	update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = few })
	kerneltest.WaitFor(t, "the lease to end", func() bool { return !policies(t, h)[0].Leased })
	if !drops() {
		t.Error("nothing keeps the guest to its contract")
	}
}

// TestLeaseAboveContract checks that leased rates may exceed the contract, which applies again when the lease ends.
func TestLeaseAboveContract(t *testing.T) {
	h := newHostWith(t, options{BPFFS: kerneltest.BPFFS(t), Lease: 500 * time.Millisecond})
	tap := kerneltest.NewPort(t, "tap0", "")
	drops := func() bool {
		before := policies(t, h)[0].TxDropped
		send(t, tap, 3*minBurst)
		return policies(t, h)[0].TxDropped != before
	}
	rates := PathRates{Now: model.Rate{Bits: 50e9, Packets: 50e6}, Contract: few}
	kerneltest.WaitFor(t, "frames to pass above the contract", func() bool {
		update(t, h, "tap0", func(p *Policy) { p.Tx = rates })
		return !drops() && policies(t, h)[0].Leased
	})
	kerneltest.WaitFor(t, "the contract to hold", func() bool { return drops() && !policies(t, h)[0].Leased })
}

// limiterEnv makes this test binary a process that limits tap0 and waits to be killed. Its value is the mount point of the BPF
// file system.
const limiterEnv = "SLUICE_TEST_LIMIT_TAP"

var killed = Policy{Tx: PathRates{Contract: few}, Rx: PathRates{Now: model.Rate{Bits: 1e6}, Contract: model.Rate{Bits: 2e6}}}

func limitAndWait() {
	h, err := openHost(options{BPFFS: os.Getenv(limiterEnv)})
	if err == nil {
		_, err = h.UpdateTap(context.Background(), "tap0", func(p *Policy) { p.Tx, p.Rx = killed.Tx, killed.Rx })
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("limited")
	select {}
}

// TestPolicySurvivesKill checks that the policy of a killed process still limits and counts, and that the next process finds,
// changes and removes it.
func TestPolicySurvivesKill(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	limiter := kerneltest.StartAgain(t, limiterEnv, h.taps.pins.BPFFS, "limited")
	kerneltest.Must(t, limiter.Process.Kill())
	_ = limiter.Wait()
	send(t, tap, 100)
	all := policies(t, h)
	if len(all) != 1 || all[0].Tx != killed.Tx || all[0].Rx != killed.Rx || all[0].TxDropped.Packets < 80 || all[0].Detached != model.No {
		t.Fatalf("found %+v", all)
	}
	got := update(t, h, "tap0", func(p *Policy) {
		if p.Tx != killed.Tx {
			t.Errorf("to be changed: %+v", p)
		}
		p.Rx = PathRates{}
	})
	if got.TxDropped != all[0].TxDropped {
		t.Errorf("dropped %+v before and %+v after, want that kept", all[0].TxDropped, got.TxDropped)
	}
	send(t, tap, 100)
	if d := policies(t, h)[0].TxDropped.Packets; d < got.TxDropped.Packets+90 {
		t.Errorf("%d dropped: a restart let a burst through", d)
	}
	kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
	noPolicies(t, h)
}

// TestTapThatIsGone checks that RemoveTap and UpdateTap remove the remains of a tap that has gone, and that a later tap of the
// same name starts without a policy.
func TestTapThatIsGone(t *testing.T) {
	for _, fresh := range []bool{false, true} { // the process that made the policy, and the next one
		h := newHost(t)
		gone := func() {
			t.Helper()
			tap := kerneltest.NewPort(t, "tap0", "")
			update(t, h, "tap0", func(p *Policy) { p.Tx.Contract, p.Rx.Contract = few, few })
			kerneltest.Must(t, tap.Close())
			kerneltest.WaitFor(t, "the tap to go", func() bool {
				all := policies(t, h)
				return len(all) == 1 && all[0].Detached == model.Yes
			})
			if fresh {
				kerneltest.Must(t, h.taps.drop())
			}
		}
		gone()
		kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
		noPolicies(t, h)
		gone()
		if _, err := h.UpdateTap(kerneltest.Soon(t), "tap0", func(*Policy) {}); !errors.Is(err, model.ErrGone) {
			t.Errorf("update: %v, want model.ErrGone", err)
		}
		noPolicies(t, h)
		gone()
		tap := kerneltest.NewPort(t, "tap0", "")
		got := update(t, h, "tap0", func(p *Policy) { p.Rx.Now = few })
		if want := (Policy{Tap: "tap0", Rx: PathRates{Now: few}, Index: got.Index, Detached: model.No, Leased: true}); got != want {
			t.Error("policy of the new tap (-want +got):", cmp.Diff(want, got))
		}
		kerneltest.Must(t, tap.Close())
		kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
	}
	h := newHost(t)
	if _, err := h.UpdateTap(kerneltest.Soon(t), "tap9", func(p *Policy) { p.Tx.Now = few }); !errors.Is(err, model.ErrGone) {
		t.Errorf("a tap that never was: %v, want model.ErrGone", err)
	}
	kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap9"))
	noPolicies(t, h)
}

// TestProgramTakenOff checks that the next renewal re-attaches a program that somebody detached, with the same limit.
func TestProgramTakenOff(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	update(t, h, "tap0", func(p *Policy) { p.Tx.Contract, p.Rx.Contract = few, few })
	theirs, err := link.LoadPinnedLink(h.taps.pins.Path("tap0_tx"), nil)
	kerneltest.Must(t, err)
	kerneltest.Must(t, theirs.Detach())
	kerneltest.Must(t, theirs.Close())
	if all := policies(t, h); len(all) != 1 || all[0].Detached != model.Yes {
		t.Errorf("listed %+v, want detached", all)
	}
	got := update(t, h, "tap0", func(*Policy) {})
	if got.Tx.Contract != few || got.Rx.Contract != few {
		t.Errorf("stands %+v", got)
	}
	send(t, tap, 100)
	if all := policies(t, h); all[0].TxDropped.Packets < 80 || all[0].Detached != model.No {
		t.Errorf("stands %+v", all)
	}
	kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
	noPolicies(t, h)
}

// TestRemovedByAnotherProcess checks that the next renewal recreates a policy that another process, such as fsck, has removed.
func TestRemovedByAnotherProcess(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = few })
	another := newHostWith(t, options{BPFFS: h.taps.pins.BPFFS})
	kerneltest.Must(t, another.RemoveTap(kerneltest.Soon(t), "tap0"))
	noPolicies(t, another)
	if got := update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = few }); got.Tx.Contract != few {
		t.Errorf("stands %+v", got)
	}
	if all := policies(t, another); len(all) != 1 || all[0].Detached != model.No {
		t.Errorf("another sees %+v", all)
	}
}

// TestPolicyWithoutBPFFS checks that a policy that cannot be pinned lasts as long as the process, and that this is logged once.
func TestPolicyWithoutBPFFS(t *testing.T) {
	var logged strings.Builder
	h := newHostWith(t, options{BPFFS: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err := h.CheckTaps(); err == nil || errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "mount -t bpf bpf") {
		t.Errorf("check says %v, want how to mount it", err)
	}
	tap := kerneltest.NewPort(t, "tap0", "")
	for range 2 {
		update(t, h, "tap0", func(p *Policy) { p.Tx.Contract, p.Rx.Now = few, few })
	}
	send(t, tap, 100)
	if all := policies(t, h); len(all) != 1 || all[0].TxDropped.Packets < 80 || all[0].Detached != model.No {
		t.Errorf("stands %+v", all)
	}
	if n := strings.Count(logged.String(), "limits of taps end"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, logged.String())
	}
	kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
	noPolicies(t, h)
}

func TestCheckTaps(t *testing.T) { kerneltest.Must(t, newHost(t).CheckTaps()) }

// TestUpdatesAtOnce checks that concurrent callers that change different parts of a tap's policy lose no updates.
func TestUpdatesAtOnce(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	var all sync.WaitGroup
	for _, edit := range []func(*Policy){
		func(p *Policy) { p.Tx.Now.Bits++ }, func(p *Policy) { p.Tx.Contract.Packets++ },
		func(p *Policy) { p.Rx.Now.Packets++ }, func(p *Policy) { p.Rx.Contract.Packets++ },
	} {
		all.Go(func() {
			for range 100 {
				if _, err := h.UpdateTap(kerneltest.Soon(t), "tap0", edit); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := policies(t, h)[0]
	want := PathRates{Now: model.Rate{Packets: 100}, Contract: model.Rate{Packets: 100}}
	if got.Rx != want || got.Tx.Contract.Packets != 100 || got.Tx.Now.Bits < minBits+99 {
		t.Errorf("stands %+v", got)
	}
}

// TestLargeFrames checks that a frame to be segmented counts as the frames that are sent.
func TestLargeFrames(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	tap := kerneltest.NewOffloadPort(t, "tap0", "br0")
	out := kerneltest.NewPort(t, "out0", "br0")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Other, 0, "out0"))
	update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = model.Rate{Bits: 1e9, Packets: 1e6} })
	mem := h.taps.opened("tap0").mem
	for _, payload := range []int{100, 1448, 1449, 14480, 60000} {
		ahead := (monotonic() + uint64(contractBurst) - uint64(time.Millisecond)) << tickShift
		mem.set(contractBits.word(dirTx)+meterTAT, ahead)
		mem.set(contractPackets.word(dirTx)+meterTAT, ahead)
		tap.Send(t, largeFrame(kerneltest.Other, kerneltest.Guest, payload, 1448))
		var segments, bits uint64
		for got := 0; got < payload; segments++ {
			f := out.Next(t)
			bits += uint64(len(f)+bpf.WireOverhead) * 8
			got += len(f) - 66
		}
		if monotonic()<<tickShift > ahead {
			continue // too slow: the meters have fallen behind the clock
		}
		countedBits := (mem.word(contractBits.word(dirTx)+meterTAT) - ahead) / 16
		counted := (mem.word(contractPackets.word(dirTx)+meterTAT) - ahead) / 16000
		if counted != segments || countedBits != bits {
			t.Errorf("%d bytes: counted %d frames with %d bits; %d with %d came out", payload, counted, countedBits, segments, bits)
		}
	}
}

// TestTaggedFrames checks that a VLAN tag, which the kernel strips from the frame, counts in both directions as it does on the
// wire and in the tap's own counters.
func TestTaggedFrames(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	in, out := kerneltest.NewPort(t, "tap0", "br0"), kerneltest.NewPort(t, "tap1", "br0")
	frame := kerneltest.Frame(kerneltest.Other, kerneltest.Guest, "")
	tagged := slices.Concat(frame[:12], []byte{0x81, 0, 0, 5}, frame[12:])
	for _, c := range []struct {
		tap string
		dir int
	}{{"tap0", dirTx}, {"tap1", dirRx}} {
		for _, f := range [][]byte{frame, tagged} {
			update(t, h, c.tap, func(p *Policy) {
				*[2]*PathRates{&p.Tx, &p.Rx}[c.dir] = PathRates{Contract: model.Rate{Bits: minBits}}
			})
			tat := contractBits.word(c.dir) + meterTAT
			mem := h.taps.opened(c.tap).mem
			began := (monotonic() + uint64(time.Second)) << tickShift // within the burst of 15 s
			mem.set(tat, began)
			in.Send(t, f)
			out.Expect(t, f)
			got := (mem.word(tat) - began) << costShift / contractBits.cost(minBits)
			if want := uint64(len(f)+bpf.WireOverhead) * 8; got+1 < want || got > want {
				t.Errorf("%s: %d bytes count as %d bits, want %d", c.tap, len(f), got, want)
			}
			mem.set(tat, 1<<62)
			in.Send(t, f)
			p := mem.read("", 0)
			if d := [2]Dropped{p.TxDropped, p.RxDropped}[c.dir]; d.Bytes != uint64(len(f)) {
				t.Errorf("%s: %d bytes dropped, want %d", c.tap, d.Bytes, len(f))
			}
			kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), c.tap))
		}
	}
}

// largeFrame is a TCP segment behind a struct virtio_net_hdr with its segmentation.
func largeFrame(dst, src model.MAC, payload, size int) []byte {
	const tcp = 32 // with 12 bytes of options
	f := make([]byte, 10+14+20+tcp+payload)
	if payload > size {
		f[0], f[1] = 1, 1 // checksum needed, TCP over IPv4
		binary.NativeEndian.PutUint16(f[2:], 14+20+tcp)
		binary.NativeEndian.PutUint16(f[4:], uint16(size))
		binary.NativeEndian.PutUint16(f[6:], 14+20)
		binary.NativeEndian.PutUint16(f[8:], 16)
	}
	eth := f[10:]
	copy(eth, dst[:])
	copy(eth[6:], src[:])
	copy(eth[12:], []byte{8, 0})
	ip := eth[14:]
	copy(ip, []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, unix.IPPROTO_TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(ip[2:], uint16(20+tcp+payload))
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	ip[20+12], ip[20+13] = tcp/4<<4, 0x10
	return f
}

// FuzzTapPins checks that parseTapPin accepts exactly the names that tapPin creates.
func FuzzTapPins(f *testing.F) {
	for _, name := range []string{"tap0_tx", "tap0_rx", "%2E%2E_map", "macs", "_tx", "a_b_map", "tap0_tX", "%zz_tx", "%41_tx"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if tap, what, ok := parseTapPin(name); ok && (tapPin(tap, what) != name || tap == "" || strings.ContainsAny(name, "./") ||
			name == localPin) {
			t.Errorf("%q reads as %q of %q", name, what, tap)
		}
		if name == "" {
			return
		}
		for _, what := range []string{"tx", "rx", "map"} {
			pin := tapPin(name, what)
			if tap, got, ok := parseTapPin(pin); !ok || tap != name || got != what || strings.ContainsAny(pin, "./") {
				t.Errorf("%q of %q is pinned as %q, which reads as %q of %q, %v", what, name, pin, got, tap, ok)
			}
		}
	})
}

// BenchmarkRenew renews the leases of 100 taps.
func BenchmarkRenew(b *testing.B) {
	h := newHost(b)
	const taps = 100
	for i := range taps {
		name := fmt.Sprint("tap", i)
		kerneltest.NewPort(b, name, "")
		update(b, h, name, func(p *Policy) { p.Tx = PathRates{Now: model.Rate{Bits: 1e9}, Contract: model.Rate{Bits: 2e9}} })
	}
	ctx := kerneltest.Soon(b)
	for b.Loop() {
		for i := range taps {
			if _, err := h.UpdateTap(ctx, "tap"+fmt.Sprint(i), func(p *Policy) { p.Tx.Now.Bits ^= 1024 }); err != nil {
				b.Fatal(err)
			}
		}
	}
}
