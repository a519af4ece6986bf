package tap

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"sluice/internal/host/bpf"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// BenchmarkSwitch measures the cost of a frame in the program at a tap's ingress, run repeatedly by the kernel
// (BPF_PROG_TEST_RUN).
func BenchmarkSwitch(b *testing.B) {
	const many = 1 << 50 // bits/s: nothing is dropped
	limits := PathRates{Now: model.Rate{Bits: many, Packets: many}, Contract: model.Rate{Bits: many, Packets: many}}
	ports := map[string]*model.SwitchPort{"limits": nil}
	for name, edit := range map[string]func(*model.SwitchRule){
		"limits and MAC": func(*model.SwitchRule) {},
		"limits, MAC, ARP and ND, addresses, rates of the rule": func(r *model.SwitchRule) {
			r.CheckARP, r.Addresses = true, []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			r.Limit = model.Rate{Bits: many, Packets: many}
		},
	} {
		p := ofGuest(edit)
		ports[name] = &p
	}
	frame := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "as long as an IP header, at least")
	copy(frame[12:], []byte{8, 0, 0x45, 0, 0, byte(len(frame) - 14), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1}) // IPv4, UDP
	for name, port := range ports {
		b.Run(name, func(b *testing.B) {
			h := newHost(b)
			kerneltest.NewPort(b, "tap0", "")
			defer kerneltest.IP(b, "link del tap0")
			if port != nil {
				if _, err := h.SetSwitchPort(kerneltest.Soon(b), *port); err != nil {
					b.Fatal(err)
				}
			}
			update(b, h, "tap0", func(p *Policy) { p.Tx = limits })
			prog, err := h.taps.program(h.taps.opened("tap0"), dirTx)
			if err != nil {
				b.Fatal(err)
			}
			defer prog.Close()
			b.ResetTimer()
			ret, err := prog.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(b.N)}) //nolint:gosec // b.N is not that large
			if err != nil || ret == bpf.TCXDrop {
				b.Fatalf("the program returned %d: %v", ret, err)
			}
		})
	}
}
