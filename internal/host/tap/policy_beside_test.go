package tap

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"sluice/internal/host/bpf"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// counting loads somebody else's program, which counts the frames it sees and lets them pass.
func counting(t *testing.T, kind ebpf.ProgramType, pass int32) (*ebpf.Program, func() uint64) {
	t.Helper()
	table, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = table.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: kind, Instructions: asm.Instructions{
		asm.LoadMapValue(asm.R1, table.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, pass),
		asm.Return(),
	}})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = prog.Close() })
	return prog, func() (n uint64) {
		t.Helper()
		kerneltest.Must(t, table.Lookup(uint32(0), &n))
		return n
	}
}

// TestBesideOthers checks that programs and filters of others on a tap see the same frames before, during and after the use of
// ours, and that ours work.
func TestBesideOthers(t *testing.T) {
	const xdpPass = 2
	const filter = " u32 match u32 0 0 action mirred egress redirect dev sink0"
	for name, put := range map[string]func(t *testing.T, index int) (seen func() uint64){
		"TCX ingress": func(t *testing.T, index int) func() uint64 {
			prog, seen := counting(t, ebpf.SchedCLS, bpf.TCXNext)
			l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: ebpf.AttachTCXIngress})
			kerneltest.Must(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return seen
		},
		"XDP": func(t *testing.T, index int) func() uint64 {
			prog, seen := counting(t, ebpf.XDP, xdpPass)
			l, err := link.AttachXDP(link.XDPOptions{Interface: index, Program: prog, Flags: link.XDPGenericMode})
			kerneltest.Must(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return seen
		},
		// What libvirt's <bandwidth> creates, except for the action: this kernel may have none that drops.
		"libvirt's bandwidth": func(t *testing.T, _ int) func() uint64 {
			newSink(t)
			kerneltest.TC(t, "qdisc add dev tap0 root handle 1: htb default 1")
			kerneltest.TC(t, "class add dev tap0 parent 1: classid 1:1 htb rate 1gbit")
			kerneltest.TC(t, "qdisc add dev tap0 ingress")
			kerneltest.TC(t, "filter add dev tap0 parent ffff: protocol all"+filter)
			return counterOf(t, "sink0")
		},
		"clsact": func(t *testing.T, _ int) func() uint64 {
			newSink(t)
			kerneltest.TC(t, "qdisc add dev tap0 clsact")
			kerneltest.TC(t, "filter add dev tap0 ingress protocol all"+filter)
			return counterOf(t, "sink0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			tap := kerneltest.NewPort(t, "tap0", "")
			l, err := h.Link(kerneltest.Soon(t), "tap0")
			kerneltest.Must(t, err)
			seen := put(t, l.Index)
			qdiscs := func() string {
				return kerneltest.TC(t, "qdisc show dev tap0") + kerneltest.TC(t, "filter show dev tap0 ingress") +
					kerneltest.TC(t, "class show dev tap0")
			}
			sees := func(when string) {
				t.Helper()
				before := seen()
				send(t, tap, minBurst)
				if got := seen() - before; got != minBurst {
					t.Errorf("%s theirs saw %d frames, want %d", when, got, minBurst)
				}
			}
			before := qdiscs()
			sees("before")
			update(t, h, "tap0", func(p *Policy) { p.Tx.Contract, p.Rx.Contract = few, few })
			sees("with ours")
			send(t, tap, 100)
			if d := policies(t, h)[0].TxDropped.Packets; d < 99 {
				t.Errorf("ours dropped %d, want all but one or two", d)
			}
			setPort(t, h, ofGuest(func(*model.SwitchRule) {}))
			kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
			sees("as a switch port")
			seenBefore := seen()
			for range minBurst {
				tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "spoofed"))
			}
			if got := seen() - seenBefore; got != 0 && name != "XDP" { // which runs before all others
				t.Errorf("theirs saw %d frames that the switch port dropped", got)
			}
			if c := switchPorts(t, h)[0].Counts; c[1].Spoof != minBurst {
				t.Errorf("the switch port dropped %+v, want %d", c, minBurst)
			}
			kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
			sees("when ours have gone")
			if after := qdiscs(); after != before {
				t.Errorf("qdiscs and filters were\n%s\nand are\n%s", before, after)
			}
		})
	}
}

// newSink creates sink0, which discards what is sent out of it.
func newSink(t *testing.T) {
	kerneltest.IP(t, "link add sink0 type veth peer name sink1")
	t.Cleanup(func() { kerneltest.IP(t, "link del sink0") })
	for _, name := range []string{"sink0", "sink1"} {
		kerneltest.Quiet(t, name)
		kerneltest.IP(t, "link set "+name+" up")
	}
}

// counterOf returns a counter of frames sent out of an interface.
func counterOf(t *testing.T, name string) func() uint64 {
	h := newHost(t)
	return func() uint64 {
		t.Helper()
		l, err := h.Link(kerneltest.Soon(t), name)
		kerneltest.Must(t, err)
		return l.Counters.TxPackets
	}
}

// TestMirrorIsLimited checks that frames dropped by a receive limit are not mirrored during a dual path either, in whichever
// order the two were set up.
func TestMirrorIsLimited(t *testing.T) {
	for _, first := range []string{"dual path", "limit"} {
		t.Run(first, func(t *testing.T) {
			h, l := newHost(t), kerneltest.NewLAN(t)
			limit := func() { update(t, h, "tap0", func(p *Policy) { p.Rx.Contract = few }) }
			if first == "limit" {
				limit()
			}
			openQuietly(t, h, dual)
			if first == "dual path" {
				limit()
			}
			toGuest := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "to the guest")
			const sent = 5 * minBurst
			for range sent {
				l.Peer.Send(t, toGuest)
			}
			marker := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "marker")
			l.Peer.Send(t, marker)
			copies := 0
			for ; string(l.PF.Next(t)) != string(marker); copies++ {
			}
			dropped := policies(t, h)[0].RxDropped.Packets
			if passed := sent + 1 - int(dropped); copies > passed || copies < passed-1 ||
				copies >= sent { // the marker may have been dropped at the tap
				t.Errorf("%d frames copied, %d passed the limit of %d", copies, passed, sent)
			}
			for range copies {
				l.Tap.Expect(t, toGuest)
			}
			kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
			if all := policies(t, h); len(all) != 1 || all[0].Detached != model.No {
				t.Errorf("after the dual path: %+v", all)
			}
		})
	}
}

// TestMirrorOfSwitchPort checks that frames dropped by a switch port are not mirrored during a dual path either, in whichever
// order the two were set up.
func TestMirrorOfSwitchPort(t *testing.T) {
	for _, first := range []string{"dual path", "port"} {
		t.Run(first, func(t *testing.T) {
			h, l := newHost(t), kerneltest.NewLAN(t)
			port := func() { setPort(t, h, ofGuest(func(*model.SwitchRule) {})) }
			if first == "port" {
				port()
			}
			openQuietly(t, h, dual)
			if first == "dual path" {
				port()
			}
			good := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "to the guest")
			l.Peer.Send(t, vlan(good, 5))
			l.Peer.Send(t, good)
			for _, p := range []*kerneltest.Port{l.Tap, l.PF} {
				p.Expect(t, good)
			}
			if c := switchPorts(t, h)[0].Counts; c[0] != oneVLAN {
				t.Errorf("counts %+v", c)
			}
			kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
			l.Peer.Send(t, vlan(good, 5))
			for _, p := range []*kerneltest.Port{l.Tap, l.PF} {
				p.Expect(t, vlan(good, 5))
			}
		})
	}
}

// smallTree creates an ifb with an HTB of two classes that lose nothing.
func smallTree(t *testing.T, h *testHost) int {
	t.Helper()
	kerneltest.IP(t, "link add ifb9 type ifb")
	t.Cleanup(func() { kerneltest.IP(t, "link del ifb9") })
	kerneltest.Quiet(t, "ifb9")
	kerneltest.IP(t, "link set ifb9 up")
	kerneltest.TC(t, "qdisc add dev ifb9 root handle 1: htb")
	kerneltest.TC(t, "class add dev ifb9 parent 1: classid 1:5 htb rate 1gbit")
	kerneltest.TC(t, "class add dev ifb9 parent 1: classid 1:6 htb rate 1gbit")
	l, err := h.Link(kerneltest.Soon(t), "ifb9")
	kerneltest.Must(t, err)
	return l.Index
}

// TestShaper checks that frames pass through their class on the ifb and reach the bridge once, except those to addresses on this
// host and those after the end of the lease.
func TestShaper(t *testing.T) {
	h := newHostWith(t, options{BPFFS: kerneltest.BPFFS(t)})
	l := kerneltest.NewLAN(t)
	ifb := smallTree(t, h)
	kerneltest.Must(t, h.SetLocalMACs(kerneltest.Soon(t), []model.MAC{kerneltest.Other, kerneltest.Guest}))
	kerneltest.Must(t, h.SetLocalMACs(kerneltest.Soon(t), []model.MAC{kerneltest.Other}))
	got := update(t, h, "tap0", func(p *Policy) { p.Shaper, p.Class = ifb, 1<<16|5 })
	if got.Shaper != ifb || got.Class != 1<<16|5 {
		t.Errorf("stands %+v", got)
	}
	shaped := func() uint64 {
		l, err := h.Link(kerneltest.Soon(t), "ifb9")
		kerneltest.Must(t, err)
		return l.Counters.RxPackets // what it received
	}
	out, local := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "out"), kerneltest.Frame(kerneltest.Other, kerneltest.Guest, "local")
	l.Tap.Send(t, out)
	l.Peer.Expect(t, out)
	l.PF.Expect(t, out)
	if n := shaped(); n != 1 {
		t.Errorf("%d frames went through the shaper, want 1", n)
	}
	if s := kerneltest.TC(t, "-s class show dev ifb9 classid 1:5"); !strings.Contains(s, "Sent 60 bytes 1 pkt") {
		t.Errorf("the class has\n%s", s)
	}
	l.Tap.Send(t, local)
	l.Peer.Expect(t, local)
	l.PF.Expect(t, local)
	if n := shaped(); n != 1 {
		t.Errorf("%d frames went through the shaper, want 1: the other stays on this host", n)
	}
	h.taps.opened("tap0").mem.set(wordDeadline, 0)
	l.Tap.Send(t, out)
	l.Peer.Expect(t, out) // and nothing before it: no frame was duplicated
	l.PF.Expect(t, out)
	if n := shaped(); n != 1 {
		t.Errorf("%d frames went through the shaper, want 1: the lease is over", n)
	}
	update(t, h, "tap0", func(p *Policy) { p.Class = 1<<16 | 6 })
	l.Tap.Send(t, out)
	l.Peer.Expect(t, out)
	if s := kerneltest.TC(t, "-s class show dev ifb9 classid 1:6"); !strings.Contains(s, "Sent 60 bytes 1 pkt") {
		t.Errorf("the other class has\n%s", s)
	}
	// The next process uses the same addresses.
	kerneltest.Must(t, h.taps.drop())
	update(t, h, "tap0", func(*Policy) {})
	l.Tap.Send(t, local)
	l.Peer.Expect(t, local)
	if n := shaped(); n != 2 {
		t.Errorf("%d frames went through the shaper, want 2", n)
	}
}

// TestShaperHidesNothing checks that a shaper is refused if somebody else has filters behind our program, which would not see the
// frames.
func TestShaperHidesNothing(t *testing.T) {
	for _, qdisc := range []string{"ingress", "clsact"} {
		t.Run(qdisc, func(t *testing.T) {
			h := newHost(t)
			kerneltest.NewPort(t, "tap0", "")
			ifb := smallTree(t, h)
			kerneltest.TC(t, "qdisc add dev tap0 "+qdisc)
			_, err := h.UpdateTap(kerneltest.Soon(t), "tap0", func(p *Policy) { p.Shaper, p.Class = ifb, 1<<16|5 })
			if !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), qdisc) {
				t.Errorf("error %v, want one that names the qdisc", err)
			}
			noPolicies(t, h)
			if got := update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = few }); got.Tx.Contract != few {
				t.Errorf("without a shaper: %+v", got)
			}
		})
	}
}

// TestShaperComesLast checks that a program that somebody attaches to the tap later still sees every frame.
func TestShaperComesLast(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	ifb := smallTree(t, h)
	policy := func(p *Policy) { p.Shaper, p.Class, p.Tx.Contract = ifb, 1<<16|5, model.Rate{Bits: 1e9} }
	index := update(t, h, "tap0", policy).Index
	prog, seen := counting(t, ebpf.SchedCLS, bpf.TCXNext)
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: ebpf.AttachTCXIngress})
	kerneltest.Must(t, err)
	defer l.Close()
	got := update(t, h, "tap0", policy)
	send(t, tap, minBurst)
	if n := seen(); n != minBurst || got.Shaper != ifb || got.Tx.Contract.Bits != 1e9 {
		t.Errorf("theirs saw %d of %d frames; stands %+v", n, minBurst, got)
	}
	sink, err := h.Link(kerneltest.Soon(t), "ifb9")
	kerneltest.Must(t, err)
	if sink.Counters.RxPackets != minBurst {
		t.Errorf("%d of %d frames went through the shaper", sink.Counters.RxPackets, minBurst)
	}
	kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
	noPolicies(t, h)
}
