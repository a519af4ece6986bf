package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/htb"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// place is a point at which a frame over the limit is dropped or, for comparison, is not.
type place struct {
	name   string
	before func(*tapBench) error
	after  func(*tapBench) error
}

// dropFrames is how many frames are written per measurement, of the minimum size.
const (
	dropFrames  = 200_000
	dropRepeats = 5
)

// least is a rate close to nothing.
const least = 8000

// places returns the places, earliest in the path first.
func places() []place {
	return []place{
		bare("XDP, in the tap's driver", func(tap int, p *ebpf.Program) (link.Link, error) {
			return link.AttachXDP(link.XDPOptions{Interface: tap, Program: p, Flags: link.XDPDriverMode})
		}, ebpf.XDP, xdpDrop),
		bare("XDP, generic", func(tap int, p *ebpf.Program) (link.Link, error) {
			return link.AttachXDP(link.XDPOptions{Interface: tap, Program: p, Flags: link.XDPGenericMode})
		}, ebpf.XDP, xdpDrop),
		bare("TCX", func(tap int, p *ebpf.Program) (link.Link, error) {
			return link.AttachTCX(link.TCXOptions{Interface: tap, Program: p, Attach: ebpf.AttachTCXIngress})
		}, ebpf.SchedCLS, tcxDrop),
		{"TCX policer on the tap", func(b *tapBench) error {
			_, err := b.host.UpdateTap(context.Background(), tapName(0), func(t *tap.Policy) { t.Tx.Contract = model.Rate{Bits: least} })
			return err
		}, removePolicers},
		{"HTB on an ifb before the bridge", func(b *tapBench) error {
			up, err := net.InterfaceByName("up1")
			if err != nil {
				return err
			}
			sh, err := b.host.SetShaper(context.Background(), htb.Shaper{
				PF: up.Index, Rate: tapLink, Queue: 4 * segmentWire,
				Classes: []htb.ShaperClass{{ID: 2, Rate: least, Ceil: least, Quantum: 2 * segmentWire}},
			})
			if err != nil {
				return err
			}
			_, err = b.host.UpdateTap(context.Background(), tapName(0),
				func(t *tap.Policy) { t.Shaper, t.Class = sh.Device, sh.Classes[0].Handle() })
			return err
		}, func(b *tapBench) error {
			up, err := net.InterfaceByName("up1")
			return cmp.Or(removePolicers(b), err, b.host.RemoveShaper(context.Background(), up.Index))
		}},
		{"HTB behind the bridge", func(b *tapBench) error {
			return shapeByTC(b, []tapGuest{{sla: model.Rate{Bits: least}}})
		}, func(*tapBench) error {
			return batch("tc", "filter del dev up1 parent 1:", "class del dev up1 classid "+tapClassID(0))
		}},
		{"forwarded, not dropped", func(*tapBench) error { return nil }, func(*tapBench) error { return nil }},
	}
}

const (
	xdpDrop = 1
	tcxDrop = 2
)

// bare is a place whose program only drops: the minimum cost of any policer there.
func bare(name string, attach func(tap int, p *ebpf.Program) (link.Link, error), kind ebpf.ProgramType, verdict int32) place {
	var there link.Link
	return place{name + ", a program that only drops", func(*tapBench) error {
		tap, err := net.InterfaceByName(tapName(0))
		if err != nil {
			return err
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: kind, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
		})
		if err != nil {
			return err
		}
		defer prog.Close() // the link keeps the program
		there, err = attach(tap.Index, prog)
		return err
	}, func(*tapBench) error { return there.Close() }}
}

// drops measures the cost of a dropped frame at each place, interleaved.
func (b *tapBench) drops(o options) error {
	list := places()
	runs := make([][]float64, len(list))
	for range dropRepeats {
		for i, p := range list {
			if err := p.before(b); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			ns, err := b.costOfWrite()
			if err := cmp.Or(err, p.after(b)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			runs[i] = append(runs[i], ns)
		}
	}
	fmt.Printf("\n| where a 64-byte packet of a tap is dropped | CPU ns per packet, median of %d; load %s |\n| --- | --- |\n", dropRepeats,
		load())
	for i, p := range list {
		ns := medianOf(runs[i], func(v float64) float64 { return v })
		fmt.Printf("| %s | %.0f |\n", p.name, ns)
		if err := o.keep(map[string]any{"time": time.Now().UTC(), "scenario": "tap-drops", "place": p.name, "ns": ns}); err != nil {
			return err
		}
	}
	return nil
}

// costOfWrite returns the CPU time of writing one frame to the first tap, in ns, which includes its whole way through the kernel. The
// first thousand frames only fill queues and are not counted.
func (b *tapBench) costOfWrite() (ns float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	raw, err := b.bed.taps[0].SyscallConn()
	if err != nil {
		return 0, err
	}
	frame := makeFrame(0, small)
	failed := raw.Control(func(fd uintptr) {
		for range 1000 {
			_, _ = unix.Write(int(fd), frame)
		}
		used := threadCPU()
		for range dropFrames {
			if _, err = unix.Write(int(fd), frame); err != nil {
				return
			}
		}
		ns = float64((threadCPU() - used).Nanoseconds()) / dropFrames
	})
	return ns, cmp.Or(failed, err)
}
