package htb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// newPF creates a device in the role of a PF and returns its index. Its Shaper is removed after the test.
func newPF(t testing.TB, h *testHost) int {
	t.Helper()
	kerneltest.NewPort(t, "pf0", "")
	l, err := h.Link(kerneltest.Soon(t), "pf0")
	kerneltest.Must(t, err)
	t.Cleanup(func() {
		if err := h.RemoveShaper(context.Background(), l.Index); err != nil {
			t.Error(err)
		}
	})
	return l.Index
}

// class returns a class with a rate in Mbit/s and a high ceiling.
func class(id int, mbits uint64) ShaperClass {
	return ShaperClass{ID: uint16(id), Rate: mbits * 1e6, Ceil: 100e9, Quantum: 64 << 10}
}

func TestSetShaper(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	want := Shaper{PF: pf, Rate: 100e9, Queue: 1 << 17, Classes: []ShaperClass{class(2, 40_000), class(7, 1), class(4094, 3)}}
	now, err := h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	if now.Rate != 100e9 || len(now.Classes) != 3 || now.Classes[0] != want.Classes[0] || now.Classes[2] != want.Classes[2] {
		t.Errorf("stands: %+v", now)
	}
	name := shaperName(pf)
	shown := kerneltest.TC(t, "-d class show dev "+name)
	for _, part := range []string{
		"class htb 51ce:1 root rate 100Gbit overhead 24",
		"class htb 51ce:20 parent 51ce:1", "class htb 51ce:ffe0 parent 51ce:1", "class htb 51ce:ffff parent 51ce:1",
		"rate 40Gbit overhead 24 ceil 100Gbit linklayer ethernet burst 10000000b",
		"mpu 84b", "quantum 65536",
	} {
		if !strings.Contains(strings.Join(strings.Fields(shown), " "), part) {
			t.Errorf("tc does not show %q:\n%s", part, shown)
		}
	}
	if q := kerneltest.TC(t, "qdisc show dev "+name); strings.Count(q, "bfifo") != 4 || !strings.Contains(q, "limit 128Kb") ||
		!strings.Contains(q, "default 0xffff") {
		t.Errorf("queues:\n%s", q)
	}
	if l, err := h.Link(kerneltest.Soon(t), name); err != nil || !l.Up || l.Alias != shaperAlias+"pf0" {
		t.Errorf("device: %+v, %v", l, err)
	}

	want.Rate, want.Classes = 5e9, []ShaperClass{class(2, 41_000), class(9, 2)}
	queues := kerneltest.TC(t, "qdisc show dev "+name)
	now, err = h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	all, err := h.Shapers(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	for i, s := range []Shaper{now, all[0]} {
		if s.PF != pf || s.Rate != 5e9 || len(s.Classes) != 2 || s.Class(2).Rate != 41e9 || s.Class(9) == nil || s.Class(7) != nil {
			t.Errorf("%d: stands after the change: %+v", i, s)
		}
	}
	kept := strings.SplitAfter(queues, "\n")
	for _, line := range kept {
		if strings.Contains(line, "parent 51ce:20 ") && !strings.Contains(kerneltest.TC(t, "qdisc show dev "+name), line) {
			t.Errorf("the queue of the class that was changed is another one now; it was %s", line)
		}
	}
	kerneltest.Must(t, h.RemoveShaper(kerneltest.Soon(t), pf))
	kerneltest.Must(t, h.RemoveShaper(kerneltest.Soon(t), pf))
	if _, err := h.Link(kerneltest.Soon(t), name); !errors.Is(err, model.ErrGone) {
		t.Errorf("after removal: %v", err)
	}
}

// TestSetShaperAgain checks that an existing Shaper is left alone, and that changes by others are repaired.
func TestSetShaperAgain(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	want := Shaper{PF: pf, Rate: 1e9, Queue: 1 << 17, Classes: []ShaperClass{class(2, 100), class(3, 7)}}
	want.Classes[0].Rate += 3 // the kernel stores whole bytes/s
	now, err := h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	have, err := h.classes(kerneltest.Soon(t), now.Device)
	kerneltest.Must(t, err)
	if again := shaperChanges(now.Device, have, &want); len(again) != 0 {
		t.Errorf("%d messages to set what stands already", len(again))
	}
	name := shaperName(pf)
	for _, spoil := range []func(){
		func() { kerneltest.TC(t, "class change dev "+name+" parent 51ce:1 classid 51ce:20 htb rate 1mbit") },
		func() {
			kerneltest.TC(t, "qdisc del dev "+name+" parent 51ce:30")
			kerneltest.TC(t, "class del dev "+name+" classid 51ce:30")
		},
		func() { kerneltest.TC(t, "qdisc del dev "+name+" root") },
		func() { kerneltest.IP(t, "link set "+name+" down") },
		func() { kerneltest.IP(t, "link del "+name) },
	} {
		spoil()
		now, err := h.SetShaper(kerneltest.Soon(t), want)
		if err != nil || len(now.Classes) != 2 || !now.Classes[0].same(&want.Classes[0]) || !now.Classes[1].same(&want.Classes[1]) {
			t.Errorf("set right: %+v, %v", now, err)
		}
		if l, err := h.Link(kerneltest.Soon(t), name); err != nil || !l.Up || l.Index != now.Device {
			t.Errorf("device: %+v, %v", l, err)
		}
	}
}

func TestShaperLeavesForeignDevicesAlone(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	name := shaperName(pf)
	kerneltest.IP(t, "link add "+name+" type ifb")
	defer kerneltest.IP(t, "link del "+name)
	kerneltest.TC(t, "qdisc add dev pf0 root tbf rate 1gbit burst 10k latency 10ms")
	if _, err := h.SetShaper(kerneltest.Soon(t), Shaper{PF: pf, Rate: 1e9, Queue: 1 << 17}); !errors.Is(err, model.ErrPermanent) ||
		!strings.Contains(err.Error(), "ip link set "+name+" name") {
		t.Errorf("somebody else's device: %v", err)
	}
	kerneltest.Must(t, h.RemoveShaper(kerneltest.Soon(t), pf))
	if all, err := h.Shapers(kerneltest.Soon(t)); err != nil || len(all) != 0 {
		t.Errorf("lists somebody else's: %+v, %v", all, err)
	}
	if q := kerneltest.TC(t, "qdisc show dev "+name); strings.Contains(q, "htb") {
		t.Errorf("somebody else's device was touched: %s", q)
	}
	if q := kerneltest.TC(t, "qdisc show dev pf0"); !strings.Contains(q, "tbf") {
		t.Errorf("the PF's own qdisc was touched: %s", q)
	}
}

// lead redirects what a tap receives to a class of a shaper, as a TapPolicy does.
func lead(t testing.TB, h *testHost, tap string, dev int, class uint32) {
	t.Helper()
	l, err := h.Link(kerneltest.Soon(t), tap)
	kerneltest.Must(t, err)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(class)),
		asm.StoreMem(asm.R1, 32, asm.R2, asm.Word), // priority
		asm.Mov.Imm(asm.R1, int32(dev)),
		asm.Mov.Imm(asm.R2, 0), // egress
		asm.FnRedirect.Call(),
		asm.Return(),
	}})
	kerneltest.Must(t, err)
	tcx, err := link.AttachTCX(link.TCXOptions{Interface: l.Index, Program: prog, Attach: ebpf.AttachTCXIngress})
	kerneltest.Must(t, errors.Join(err, prog.Close()))
	t.Cleanup(func() { _ = tcx.Close() })
}

// TestShaperShares checks that queued frames leave as the classes require, guarantees first and the rest by weight, and that a
// change of a class immediately affects what is queued in it.
func TestShaperShares(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "sink", "br0")
	want := Shaper{PF: pf, Rate: 8e6, Queue: 8 << 20}
	weights := []int{0, 1, 1, 2}
	for i, w := range weights {
		want.Classes = append(want.Classes, ShaperClass{ID: uint16(2 + i), Rate: 8000, Ceil: 10e9, Quantum: uint32(w) * 2000})
	}
	want.Classes[0].Rate, want.Classes[0].Ceil, want.Classes[0].Quantum = 4e6, 4e6, 2000
	s, err := h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	frame := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, strings.Repeat("x", 1000))
	for i := range weights {
		vm := kerneltest.NewPort(t, fmt.Sprintf("tap%d", i), "br0")
		lead(t, h, vm.Name, s.Device, want.Classes[i].Handle())
		for range 4000 {
			vm.Send(t, frame)
		}
	}
	share := func(from Shaper) (parts []float64, at Shaper) {
		for {
			all, err := h.Shapers(kerneltest.Soon(t))
			kerneltest.Must(t, err)
			sum := 0.0
			parts = parts[:0]
			for i := range all[0].Classes {
				parts = append(parts, float64(all[0].Classes[i].Bytes-from.Classes[i].Bytes))
				sum += parts[i]
			}
			if sum > 1e6 {
				for i := range parts {
					parts[i] /= sum
					if c := all[0].Classes[i]; c.Waiting == 0 || c.Drops != 0 {
						t.Fatalf("class %d: %+v; want some that waits and none lost", c.ID, c)
					}
				}
				return parts, all[0]
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	from, err := h.Shapers(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	parts, at := share(from[0])
	expectParts(t, parts, 0.5, 0.125, 0.125, 0.25)
	want.Classes[0].Rate, want.Classes[0].Ceil = 2e6, 2e6
	_, err = h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	parts, _ = share(at)
	expectParts(t, parts, 0.25, 0.1875, 0.1875, 0.375)
}

func expectParts(t *testing.T, got []float64, want ...float64) {
	t.Helper()
	for i := range want {
		if d := got[i] - want[i]; d > 0.03 || d < -0.03 {
			t.Errorf("shares %.3f, want %.3f", got, want)
			return
		}
	}
}

// TestShaperHoldsBackSenders checks that a tap with a finite send buffer blocks its sender instead of losing frames, since QEMU
// then stops reading the guest's queue. A tap without one loses the frames that its class cannot queue.
func TestShaperHoldsBackSenders(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "sink", "br0")
	want := Shaper{PF: pf, Rate: 8e6, Queue: 128 << 10, Classes: []ShaperClass{class(2, 4), class(3, 4)}}
	s, err := h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	frame := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, strings.Repeat("x", 1000))
	held, free := kerneltest.NewPort(t, "tap0", "br0"), kerneltest.NewPort(t, "tap1", "br0")
	kerneltest.Must(t, held.SetSendBuffer(64<<10))
	lead(t, h, "tap0", s.Device, want.Classes[0].Handle())
	lead(t, h, "tap1", s.Device, want.Classes[1].Handle())
	const frames = 500 // four times what fits
	for range frames {
		free.Send(t, frame)
	}
	for range frames {
		held.Send(t, frame) // blocks until there is space
	}
	all, err := h.Shapers(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	if c := all[0].Class(2); c.Drops != 0 {
		t.Errorf("held back, %d of %d frames were lost", c.Drops, frames)
	}
	if c := all[0].Class(3); c.Drops == 0 {
		t.Errorf("not held back, none of %d frames was lost: what shows that the other was?", frames)
	}
}

// TestShaperLeavesUplinkAlone checks the qdisc of an uplink: frames return from a tree with its class as their priority, which
// must neither change their band nor match a class of the uplink's with the same number.
func TestShaperLeavesUplinkAlone(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "sink", "br0")
	vm := kerneltest.NewPort(t, "tap0", "br0")
	kerneltest.TC(t, "qdisc add dev sink root handle 1: htb default 99")
	want := Shaper{PF: pf, Rate: 1e9, Queue: 8 << 20}
	for id := 2; id <= 20; id++ {
		want.Classes = append(want.Classes, class(id, 1))
	}
	s, err := h.SetShaper(kerneltest.Soon(t), want)
	kerneltest.Must(t, err)
	kerneltest.TC(t, "class add dev sink parent 1: classid 1:99 htb rate 1gbit")
	for i := range s.Classes {
		c := &s.Classes[i]
		kerneltest.TC(t, fmt.Sprintf("class add dev sink parent 1: classid 1:%x htb rate 1gbit", c.Handle()&0xffff))
		if band := c.Handle() & 0xf; band != 0 {
			t.Errorf("frames of class %d are in band %d of pfifo_fast", c.ID, band)
		}
		lead(t, h, "tap0", s.Device, c.Handle())
		vm.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "shaped"))
	}
	sent := fmt.Sprintf("Sent %d bytes %d pkt", 60*len(s.Classes), len(s.Classes))
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		shown := kerneltest.TC(t, "-s class show dev sink classid 1:99")
		if strings.Contains(shown, sent) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want all frames in the class for those without one, %q: %s", sent, kerneltest.TC(t, "-s class show dev sink"))
		}
	}
}

// TestContractInShaper checks that in a tree the class enforces a contract in bits, since the policer would drop bursts that the
// class only delays. Frames that bypass the tree, and contracts in packets, stay policed.
func TestContractInShaper(t *testing.T) {
	h := newHost(t)
	pf := newPF(t, h)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "sink", "br0")
	vm := kerneltest.NewPort(t, "tap0", "br0")
	s, err := h.SetShaper(kerneltest.Soon(t), Shaper{PF: pf, Rate: 1e9, Queue: 8 << 20, Classes: []ShaperClass{class(2, 8)}})
	kerneltest.Must(t, err)
	kerneltest.Must(t, h.SetLocalMACs(kerneltest.Soon(t), []model.MAC{kerneltest.Other}))
	t.Cleanup(func() { _ = h.RemoveTap(context.Background(), "tap0") })
	for _, c := range []struct {
		what     string
		contract model.Rate
		to       model.MAC
		drops    bool
	}{
		{"bits, to the wire", model.Rate{Bits: 8e6}, kerneltest.Stray, false},
		{"bits, to a VM of this host", model.Rate{Bits: 8e6}, kerneltest.Other, true},
		{"packets, to the wire", model.Rate{Packets: 10}, kerneltest.Stray, true},
	} {
		kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
		edit := func(p *tap.Policy) {
			p.Tx.Contract, p.Shaper, p.Class = c.contract, s.Device, s.Classes[0].Handle()
		}
		_, err := h.UpdateTap(kerneltest.Soon(t), "tap0", edit)
		kerneltest.Must(t, err)
		frame := kerneltest.Frame(c.to, kerneltest.Guest, strings.Repeat("x", 1000))
		for range 2000 { // 2 s of the contract
			vm.Send(t, frame)
		}
		p, err := h.UpdateTap(kerneltest.Soon(t), "tap0", edit)
		kerneltest.Must(t, err)
		if (p.TxDropped.Packets > 0) != c.drops {
			t.Errorf("%s: dropped %+v", c.what, p.TxDropped)
		}
	}
}

// TestShapable checks that what libvirt creates for <bandwidth><outbound> still sees the tap's frames.
func TestShapable(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	l, err := h.Link(kerneltest.Soon(t), "tap0")
	kerneltest.Must(t, err)
	for _, c := range []struct {
		command string
		want    bool
	}{
		{"", true},
		{"qdisc add dev tap0 ingress", false},
		{"qdisc del dev tap0 ingress", true},
		{"qdisc add dev tap0 clsact", false},
		{"qdisc del dev tap0 clsact", true},
		{"qdisc add dev tap0 root handle 1: htb", true},
	} {
		if c.command != "" {
			kerneltest.TC(t, c.command)
		}
		if is, err := h.Shapable(kerneltest.Soon(t), "tap0", l.Index); is != c.want || err != nil {
			t.Errorf("after %q: %v, %v; want %v", c.command, is, err, c.want)
		}
	}
	if _, err := h.Shapable(kerneltest.Soon(t), "nosuch", 9999); !errors.Is(err, model.ErrGone) {
		t.Errorf("no such link: %v", err)
	}
}

func BenchmarkSetShaper(b *testing.B) {
	h := newHost(b)
	pf := newPF(b, h)
	want := Shaper{PF: pf, Rate: 100e9, Queue: 1 << 17}
	for i := range 100 {
		want.Classes = append(want.Classes, class(2+i, 100))
	}
	set := func(b *testing.B) {
		if _, err := h.SetShaper(b.Context(), want); err != nil {
			b.Fatal(err)
		}
	}
	set(b)
	for _, n := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("%d-of-100-changed", n), func(b *testing.B) {
			for k := range b.N {
				for i := range n {
					want.Classes[i].Rate = 1e8 + uint64(k%2)*8e6
				}
				set(b)
			}
		})
	}
}

// FuzzDecodeClass fuzzes the decoder of HTB classes.
func FuzzDecodeClass(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWTCLASS), classRequest(3, shaperHandle|32, ShaperClass{Rate: 1e9, Ceil: 400e9, Quantum: 1 << 16}).Message().Data)
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		c, ok := decodeClass(rtnl.Message{Type: typ, Data: data})
		if ok && (len(data) < rtnl.SizeofTraffic+sizeofHTB || c.Rate%8 != 0 || c.ID > MostShaped+1) {
			t.Errorf("took a class out of nothing: %+v", c)
		}
	})
}
