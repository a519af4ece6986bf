package tap

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// withChecksum prepends a struct virtio_net_hdr that makes the kernel write the checksum of the bytes from start on to that
// place, and sets the frame's last two bytes so that the checksum is value.
func withChecksum(frame []byte, start, place int, value uint16) []byte {
	frame = slices.Clone(frame)
	clear(frame[len(frame)-2:])
	sum := uint32(value)
	for i := start; i < len(frame); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(frame[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(frame[len(frame)-2:], ^uint16(sum)) //nolint:gosec // 16 bits by now
	header := []byte{1, 0, 0, 0, 0, 0}                             // VIRTIO_NET_HDR_F_NEEDS_CSUM
	header = binary.NativeEndian.AppendUint16(header, uint16(start))
	header = binary.NativeEndian.AppendUint16(header, uint16(place-start))
	return append(header, frame...)
}

// TestSwitchChecksum checks that a guest may leave a checksum to the kernel, which writes it after the frame has passed the
// rules, unless it would overwrite bytes that the rules have checked.
func TestSwitchChecksum(t *testing.T) {
	const ip6 = 14 + 40
	h := newHost(t)
	tap, out := kerneltest.NewOffloadPort(t, "tap0", ""), kerneltest.NewPort(t, "out0", "")
	setPort(t, h, ofGuest(func(r *model.SwitchRule) {
		r.CheckARP = true
		r.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	}))
	joinPorts(t, h, "tap0", "out0")
	send := func(frame []byte) { tap.Send(t, append(make([]byte, 10), frame...)) }
	marker := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "marker")
	hidden := ndMessage(neighborAdvertisement, "fd00::9", targetLinkLayer, kerneltest.Other)
	option := []byte{59, 0, 5, 2, 0, 0, 1, 0}
	fragment := []byte{unix.IPPROTO_UDP, 0, 0, 1, 0, 0, 0, 1}
	echo := slices.Concat([]byte{128, 0}, hidden[2:])
	probe := ether(unix.ETH_P_ARP, arpFor(1, kerneltest.Guest, "0.0.0.0", kerneltest.NoMAC, "10.0.0.1"))
	for name, c := range map[string]struct {
		frame        []byte
		start, place int
		value        uint16
		passes       bool
	}{
		"ARP's address":               {arp(2, kerneltest.Guest, "10.0.0.1"), 20, 30, 0x00fe, false},
		"ARP's MAC":                   {arp(2, kerneltest.Guest, "10.0.0.1"), 20, 26, 0x1234, false},
		"address that a probe is for": {probe, 20, 40, 0x0002, false},
		"RARP's MAC": {
			ether(unix.ETH_P_RARP, arpFor(3, kerneltest.Guest, "0.0.0.0", kerneltest.Guest, "0.0.0.0")), 20, 36,
			0x0002, false,
		},
		"source of IPv4":      {ipv4("10.0.0.1", "10.0.0.9"), 20, 28, 0x0002, false},
		"source of IPv6":      {ipv6("fd00::1", "fd00::9", unix.IPPROTO_UDP, make([]byte, 16)), 20, 36, 0x0002, false},
		"what is behind IPv6": {ipv6("fd00::1", "ff02::1", 59, hidden), 20, 20, unix.IPPROTO_ICMPV6<<8 | 255, false},
		"type of ICMPv6":      {ipv6("fd00::1", "ff02::1", unix.IPPROTO_ICMPV6, echo), ip6, ip6, neighborAdvertisement << 8, false},
		"what is behind options": {
			ipv6("fd00::1", "ff02::1", unix.IPPROTO_HOPOPTS, append(option, hidden...)), ip6, ip6,
			unix.IPPROTO_ICMPV6 << 8, false,
		},
		"what is behind a fragment": {
			ipv6("fd00::1", "ff02::1", unix.IPPROTO_FRAGMENT, append(fragment, hidden...)), ip6, ip6,
			unix.IPPROTO_ICMPV6 << 8, false,
		},
		"port of UDP over IPv4": {
			ipv4With("10.0.0.1", "10.0.0.9", unix.IPPROTO_UDP, nil, append(udp(67, 0), 0, 0)), 34, 36, portDHCP,
			false,
		},
		"UDP behind options": {
			ipv4With("10.0.0.1", "10.0.0.9", unix.IPPROTO_UDP, make([]byte, 8), append(udp(67, 0), 0, 0)), 34, 44,
			portDHCP, false,
		},
		"port of UDP over IPv6": {ipv6("fd00::1", "fd00::9", unix.IPPROTO_UDP, append(udp(547, 0), 0, 0)), ip6, ip6 + 2, portDHCPv6, false},
		"type of IGMP": {
			ipv4With("10.0.0.1", "224.0.0.1", unix.IPPROTO_IGMP, nil, make([]byte, 8)), 34, 34, igmpQuery << 8,
			false,
		},
		"protocol of IPv4": {
			ipv4With("10.0.0.1", "224.0.0.1", 0, nil, []byte{igmpQuery, 9, 0, 0, 0, 0, 0, 0}), 20, 22,
			64<<8 | unix.IPPROTO_IGMP, false,
		},
		"UDP over IPv4":    {ipv4("10.0.0.1", "10.0.0.9"), 34, 34 + 6, 0x1234, true},
		"UDP over IPv6":    {ipv6("fd00::1", "fd00::9", unix.IPPROTO_UDP, make([]byte, 16)), ip6, ip6 + 6, 0x1234, true},
		"another protocol": {ether(0x88b5, []byte("text")), 34, 40, 0x1234, true},
	} {
		sent := withChecksum(c.frame, c.start, c.place, c.value)
		before := switchPorts(t, h)[0].Counts[0].Spoof
		tap.Send(t, sent)
		if c.passes {
			want := slices.Clone(sent[10:])
			binary.BigEndian.PutUint16(want[c.place:], c.value)
			out.Expect(t, want)
		}
		send(marker)
		if got := out.Next(t); !slices.Equal(got, marker) {
			t.Errorf("%s: came out as %x", name, got)
			out.Expect(t, marker)
		}
		if got := switchPorts(t, h)[0].Counts[0].Spoof - before; (got == 1) == c.passes {
			t.Errorf("%s: %d counted", name, got)
		}
	}
}

// TestSwitchChecksumInEthernet checks that no rule lets through a frame with a pending checksum in the Ethernet header. This
// machine's kernel may refuse such a frame earlier, so an XDP program removes bytes in front that make the place look legitimate.
func TestSwitchChecksumInEthernet(t *testing.T) {
	const before = 16 // bytes to be removed
	h := newHost(t)
	tap, out := kerneltest.NewOffloadPort(t, "tap0", ""), kerneltest.NewPort(t, "out0", "")
	setPort(t, h, ofGuest(func(*model.SwitchRule) {}))
	joinPorts(t, h, "tap0", "out0")
	shorten(t, h, "tap0", before)
	frame := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "a text of more bytes than headers have")
	send := func(start, place int, value uint16) {
		tap.Send(t, withChecksum(slices.Concat(make([]byte, before), frame), before+start, before+place, value))
	}
	marker := func() {
		t.Helper()
		tap.Send(t, slices.Concat(make([]byte, 10+before), frame))
		if got := out.Next(t); !slices.Equal(got, frame) {
			t.Errorf("came out as %x, want %x", got, frame)
			out.Expect(t, frame)
		}
	}
	for place := 4; place < 14; place++ { // lower places are refused by every kernel
		send(4, place, 0x8100)
		marker()
	}
	if c := switchPorts(t, h)[0].Counts[1]; c.Spoof != 10 {
		t.Errorf("%d dropped, want 10", c.Spoof)
	}
	send(4, 14, 0x1234)
	if got := out.Next(t); !slices.Equal(got[:14], frame[:14]) || binary.BigEndian.Uint16(got[14:]) != 0x1234 {
		t.Errorf("behind the Ethernet header: came out as %x", got)
	}
	marker()
}

// shorten removes the first n bytes of all frames that an interface receives.
func shorten(t *testing.T, h *testHost, name string, n int32) {
	t.Helper()
	l, err := h.Link(kerneltest.Soon(t), name)
	kerneltest.Must(t, err)
	const pass = 2 // XDP_PASS
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, n),
		asm.FnXdpAdjustHead.Call(),
		asm.Mov.Imm(asm.R0, pass),
		asm.Return(),
	}})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = prog.Close() })
	attached, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: l.Index, Flags: link.XDPGenericMode})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = attached.Close() })
}
