package tap

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"pgregory.net/rapid"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// The few values of random rules and frames, so that they often match.
var (
	someMACs = []model.MAC{kerneltest.Guest, kerneltest.Other, kerneltest.Stray, zeroed(3), zeroed(4)}
	someV4   = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("192.168.255.254")}
	someV6   = []netip.Addr{
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::ffff:1"), netip.MustParseAddr("fe80::1"),
		linkLocal(kerneltest.Guest), linkLocal(kerneltest.Stray),
	}
	someAddresses = slices.Concat(someV4, someV6)
	someVLANs     = []int{1, 2, 9, 10, 11, 20, 4093, 4094}
)

// among draws one of the arguments.
func among[T any](all ...T) *rapid.Generator[T] { return rapid.SampledFrom(all) }

// often is true in most draws.
var often = rapid.Map(rapid.IntRange(0, 9), func(n int) bool { return n > 0 })

func drawRule(t *rapid.T) model.SwitchRule {
	r := model.SwitchRule{
		MACs:         rapid.SliceOfNDistinct(among(someMACs...), 1, 3, rapid.ID).Draw(t, "MACs"),
		NoSpoofCheck: !often.Draw(t, "checks source"), CheckARP: rapid.Bool().Draw(t, "check ARP"),
	}
	if rapid.Bool().Draw(t, "has addresses") {
		r.Addresses = rapid.SliceOfNDistinct(among(someAddresses...), 1, 4, rapid.ID).Draw(t, "addresses")
	}
	switch rapid.IntRange(0, 2).Draw(t, "sort of port") {
	case 1:
		r.VLAN = among(someVLANs...).Draw(t, "access")
	case 2:
		for _, v := range rapid.SliceOfN(among(someVLANs...), 1, 3).Draw(t, "trunk") {
			r.Trunk = append(r.Trunk, model.VLANRange{First: v, Last: min(model.MaxVLAN, v+rapid.IntRange(0, 2).Draw(t, "more"))})
		}
	}
	return r
}

// drawFrame draws a frame that usually almost matches one of the rules.
func drawFrame(t *rapid.T, dir int, rules []model.SwitchRule) []byte {
	r := among(rules...).Draw(t, "rule")
	groups := []model.MAC{kerneltest.Broadcast, {0x33, 0x33, 0, 0, 0, 1}, {1, 0, 0x5e, 0, 0, 1}, {1, 0x80, 0xc2, 0, 0, 0xe}}
	dst, src := among(append(groups, someMACs...)...).Draw(t, "to"), among(someMACs...).Draw(t, "from")
	if often.Draw(t, "of the rule") {
		*[2]*model.MAC{dirTx: &src, dirRx: &dst}[dir] = among(r.MACs...).Draw(t, "its MAC")
	}
	body := rapid.OneOf(rapid.Custom(drawARP), rapid.Custom(drawIPv4), rapid.Custom(drawIPv6), rapid.Custom(drawOther)).Draw(t, "body")
	if !often.Draw(t, "unharmed") {
		body[rapid.IntRange(0, len(body)-1).Draw(t, "harmed at")] = rapid.Byte().Draw(t, "harm")
	}
	if !often.Draw(t, "whole") {
		body = body[:rapid.IntRange(8, len(body)).Draw(t, "cut to")]
	}
	frame := slices.Concat(dst[:], src[:], body)
	if often.Draw(t, "of its VLAN") {
		switch {
		case len(r.Trunk) > 0:
			return vlan(frame, uint16(r.Trunk[0].First))
		case dir == dirRx && r.VLAN != 0:
			return vlan(frame, uint16(r.VLAN))
		}
		return frame
	}
	for range among(0, 0, 1, 1, 1, 2).Draw(t, "tags") {
		tci := among(append(someVLANs, 0)...).Draw(t, "VLAN") | rapid.IntRange(0, 15).Draw(t, "priority")<<12
		frame = tagged(frame, among[uint16](0x8100, 0x8100, 0x8100, 0x88a8).Draw(t, "tag"), uint16(tci))
	}
	return frame
}

func drawOther(t *rapid.T) []byte {
	etherType := among[uint16](0x88b5, 0x8035, 0x9100, 0x9200, 0x9300, 0x0026, 0x05ff, 0x0600).Draw(t, "type")
	return append(binary.BigEndian.AppendUint16(nil, etherType), rapid.SliceOfN(rapid.Byte(), 40, 60).Draw(t, "payload")...)
}

func drawARP(t *rapid.T) []byte {
	kind := among([]byte{8, 6}, []byte{8, 6}, []byte{0x80, 0x35}).Draw(t, "ARP or RARP")
	b := append(slices.Clone(kind), 0, 1, 8, 0, 6, 4, 0, among[byte](1, 1, 2, 2, 3, 3, 4, 8).Draw(t, "operation"))
	for range 2 {
		m, a := among(append(someMACs, kerneltest.NoMAC)...).Draw(t, "MAC"), among(append(someV4, netip.IPv4Unspecified())...).Draw(t, "address")
		b = slices.Concat(b, m[:], a.AsSlice())
	}
	return append(b, make([]byte, rapid.IntRange(0, 18).Draw(t, "padding"))...)
}

func drawIPv4(t *rapid.T) []byte {
	ends := slices.Concat(someV4, []netip.Addr{netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255")})
	src, dst := among(ends...).Draw(t, "source"), among(ends...).Draw(t, "destination")
	options := 4 * among(0, 0, 0, 1, 2).Draw(t, "words of options")
	fragment := among([]byte{0, 0}, []byte{0, 0}, []byte{0x40, 0}, []byte{0x20, 0}, []byte{0, 1}).Draw(t, "fragment")
	upper := among[byte](17, 17, 2, 2, 6, 1).Draw(t, "upper layer")
	b := []byte{8, 0, byte(0x45 + options/4), 0, 0, 28, 0, 0, fragment[0], fragment[1], 64, upper, 0, 0}
	payload := drawUDP(t, 67, 68)
	if upper == 2 {
		payload[0] = among[byte](0x11, 0x11, 0x16, 0x22).Draw(t, "IGMP")
	}
	padding := make([]byte, among(0, 10).Draw(t, "padding"))
	return slices.Concat(b, src.AsSlice(), dst.AsSlice(), make([]byte, options), payload, padding)
}

// drawUDP draws a datagram, possibly with one of those ports.
func drawUDP(t *rapid.T, ports ...uint16) []byte {
	b := make([]byte, 0, 16)
	for range 2 {
		b = binary.BigEndian.AppendUint16(b, among(append(ports, ports[0]<<8|ports[1]>>8, 53)...).Draw(t, "port"))
	}
	return append(b, make([]byte, 12)...)
}

// drawIPv6 draws a packet with consistent headers.
func drawIPv6(t *rapid.T) []byte {
	next := among[byte](58, 58, 58, 58, 58, 6, 17, 17, 60, 51, 43, 59).Draw(t, "upper layer")
	var payload []byte
	if next == 58 {
		payload = drawICMPv6(t)
	} else {
		payload = drawUDP(t, 546, 547)
	}
	for _, h := range among([]byte{}, []byte{}, []byte{}, []byte{0}, []byte{44}, []byte{0, 44}, []byte{60}, []byte{0, 0}).Draw(t,
		"extensions") {
		header := make([]byte, 8)
		header[0] = next
		if h == 44 {
			copy(header[2:], among([]byte{0, 0}, []byte{0, 1}, []byte{0, 8}, []byte{0xff, 0xf8}).Draw(t, "fragment"))
		}
		if h == 0 && rapid.Bool().Draw(t, "long") {
			header[1] = 1
			header = append(header, make([]byte, 8)...)
		}
		next, payload = h, append(header, payload...)
	}
	ends := slices.Concat(someV6, []netip.Addr{netip.IPv6Unspecified(), netip.MustParseAddr("ff02::1")})
	src, dst := among(ends...).Draw(t, "source"), among(ends...).Draw(t, "destination")
	length := len(payload)
	if !often.Draw(t, "length told") {
		length = among(0, length-8, length+8).Draw(t, "length")
	}
	b := []byte{0x86, 0xdd, 0x60, 0, 0, 0, byte(length >> 8), byte(length), next, 255}
	return slices.Concat(b, src.AsSlice(), dst.AsSlice(), payload, make([]byte, among(0, 0, 4, 16).Draw(t, "padding")))
}

func drawICMPv6(t *rapid.T) []byte {
	kind := among[byte](130, 133, 134, 135, 135, 136, 136, 136, 137, 128, 143).Draw(t, "message")
	b := []byte{kind, 0, 0, 0, 0, 0, 0, 0}
	if kind == 135 || kind == 136 || kind == 137 {
		b = append(b, among(someV6...).Draw(t, "target").AsSlice()...)
	}
	for range among(0, 1, 1, 1, 2, 4, 5).Draw(t, "options") {
		m := among(someMACs...).Draw(t, "link-layer address")
		switch o := among[byte](1, 1, 2, 2, 14, 99).Draw(t, "option"); {
		case !often.Draw(t, "option well made"):
			b = slices.Concat(b, []byte{o, among[byte](0, 2).Draw(t, "its length")}, m[:], make([]byte, 8))
		default:
			b = slices.Concat(b, []byte{o, 1}, m[:])
		}
	}
	return b
}

// TestSwitchDecides compares the programs with decide for arbitrary frames.
func TestSwitchDecides(t *testing.T) {
	h := newHost(t)
	ports := [2]*kerneltest.Port{kerneltest.NewPort(t, "tap0", ""), kerneltest.NewPort(t, "out0", "")}
	setPort(t, h, access)
	joinPorts(t, h, "tap0", "out0") // behind the switch port
	joinPorts(t, h, "out0", "tap0")
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(drawRule), 1, 4).Draw(rt, "rules")
		_, err := h.SetSwitchPort(kerneltest.Soon(t), model.SwitchPort{Tap: "tap0", Rules: rules})
		kerneltest.Must(t, err)
		mem := h.taps.opened("tap0").port.mem
		for range 40 {
			dir := rapid.IntRange(0, 1).Draw(rt, "direction")
			frame := drawFrame(rt, dir, rules)
			want := decide(dir, frame, rules)
			before := mem.all()
			ports[dir].Send(t, frame)
			count(&before[want.rule], want.reason)
			if got := mem.all(); got != before {
				rt.Fatalf("direction %d, %x: counts %v, want %v for %+v", dir, frame, got, before, want)
			}
			if want.out != nil {
				if got := ports[1-dir].Next(t); !slices.Equal(got, want.out) {
					rt.Fatalf("direction %d, %x came out as %x, want %x", dir, frame, got, want.out)
				}
			}
			seen[[2]string{"sent", "received"}[dir]+" "+want.reason]++
		}
	})
	t.Log("frames by what became of them:", seen)
	for _, what := range []string{"sent ", "sent spoof", "sent vlan", "received ", "received vlan"} {
		if seen[what] < 10 {
			t.Errorf("%d frames were %q: too few to say anything", seen[what], what)
		}
	}
	kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
}

// all returns the counts by rule, those of no rule last.
func (p portMemory) all() (all [maxRules + 1]model.SwitchDrop) {
	copy(all[:], p.counts(maxRules))
	return all
}

func count(d *model.SwitchDrop, reason string) {
	switch reason {
	case "spoof":
		d.Spoof++
	case "vlan":
		d.VLAN++
	}
}

// joinPorts redirects what one port receives to the other, behind every other program and bypassing everything else that inspects
// frames.
func joinPorts(t *testing.T, h *testHost, from, to string) {
	a, err := h.Link(kerneltest.Soon(t), from)
	kerneltest.Must(t, err)
	b, err := h.Link(kerneltest.Soon(t), to)
	kerneltest.Must(t, err)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "join", Type: ebpf.SchedCLS, Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(b.Index)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
	}})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = prog.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: a.Index, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}
