package tap

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// verdict is the result for a frame at a switch port.
type verdict struct {
	out    []byte // as it leaves, nil: dropped
	rule   int    // that counts it, noRule: none
	reason string // "spoof", "vlan", or "" if not counted
}

// decide is a plain implementation of the rules of a switch port, the oracle for the programs.
func decide(dir int, frame []byte, rules []model.SwitchRule) verdict {
	var tags [][]byte
	rest := frame[12:]
	for len(rest) >= 6 && isTag(rest, 0x8100, 0x88a8) && len(tags) == 0 {
		tags, rest = append(tags, rest[:4]), rest[4:]
	}
	id := 0
	if len(tags) == 1 {
		id = int(binary.BigEndian.Uint16(tags[0][2:])) & 0xfff
	}
	bad := isTag(rest, 0x8100, 0x88a8, 0x9100, 0x9200, 0x9300) || len(tags) == 1 && (id == 0 || !isTag(tags[0], 0x8100))
	inVLAN := func(r *model.SwitchRule) bool {
		switch {
		case bad:
			return false
		case len(r.Trunk) > 0:
			return r.Trunk.Has(id)
		case dir == dirRx:
			return id == r.VLAN
		}
		return id == 0
	}
	dst, src := model.MAC(frame[:6]), model.MAC(frame[6:12])
	untagged := slices.Concat(frame[:12], rest)
	if dir == dirTx {
		i := ruleOf(src, rules)
		switch {
		case i == noRule:
			return verdict{nil, noRule, "spoof"}
		case !inVLAN(&rules[i]):
			return verdict{nil, i, "vlan"}
		case !rules[i].NoSpoofCheck && ofBridges(dst):
			return verdict{nil, i, "spoof"}
		case !honest(untagged, &rules[i]):
			return verdict{nil, i, "spoof"}
		case rules[i].VLAN != 0:
			return verdict{vlan(frame, uint16(rules[i].VLAN)), i, ""}
		}
		return verdict{frame, i, ""}
	}
	i := ruleOf(dst, rules)
	if dst[0]&1 != 0 {
		if i = slices.IndexFunc(rules, func(r model.SwitchRule) bool { return inVLAN(&r) }); i < 0 {
			return verdict{nil, noRule, "vlan"}
		}
	}
	switch {
	case i == noRule:
		return verdict{nil, noRule, ""}
	case !inVLAN(&rules[i]):
		return verdict{nil, i, "vlan"}
	case rules[i].VLAN != 0:
		return verdict{untagged, i, ""}
	}
	return verdict{frame, i, ""}
}

func isTag(b []byte, types ...uint16) bool {
	return len(b) >= 2 && slices.Contains(types, binary.BigEndian.Uint16(b))
}

// ruleOf returns the first rule with the address, or else the first that does not check sources.
func ruleOf(m model.MAC, rules []model.SwitchRule) int {
	if i := slices.IndexFunc(rules, func(r model.SwitchRule) bool { return slices.Contains(r.MACs, m) }); i >= 0 {
		return i
	}
	if i := slices.IndexFunc(rules, func(r model.SwitchRule) bool { return r.NoSpoofCheck }); i >= 0 {
		return i
	}
	return noRule
}

// ofBridges reports whether an address belongs to control protocols between switches.
func ofBridges(m model.MAC) bool {
	return slices.Equal(m[:5], []byte{1, 0x80, 0xc2, 0, 0}) && m[5] < 0x30 || slices.Equal(m[:5], []byte{1, 0, 0xc, 0xcc, 0xcc}) &&
		(m[5] == 0xcc || m[5] == 0xcd)
}

// honest reports whether a frame uses and claims only permitted addresses.
func honest(frame []byte, r *model.SwitchRule) bool {
	if !r.CheckARP && len(r.Addresses) == 0 {
		return true
	}
	packet := frame[14:]
	switch etherType := binary.BigEndian.Uint16(frame[12:]); {
	case etherType < 0x600:
		return false
	case etherType == 0x806:
		return !r.CheckARP || honestARP(packet, r)
	case etherType == 0x8035:
		return !r.CheckARP || announces(packet, r)
	case etherType == 0x800:
		return honestIPv4(packet, r)
	case etherType == 0x86dd:
		return honestIPv6(packet, r)
	}
	return true
}

func honestARP(p []byte, r *model.SwitchRule) bool {
	if len(p) < 28 || !slices.Equal(p[:6], []byte{0, 1, 8, 0, 6, 4}) {
		return false
	}
	if op := binary.BigEndian.Uint16(p[6:]); op != 1 && op != 2 {
		return false
	}
	sender, target := netip.AddrFrom4([4]byte(p[14:18])), netip.AddrFrom4([4]byte(p[24:28]))
	if sender.IsUnspecified() { // a probe whether the target is taken
		sender = target
	}
	return slices.Contains(r.MACs, model.MAC(p[8:14])) && (len(r.Addresses) == 0 || slices.Contains(r.Addresses, sender))
}

// announces reports whether a RARP packet only announces the guest's location, as QEMU does after a migration.
func announces(p []byte, r *model.SwitchRule) bool {
	return len(p) >= 28 && slices.Equal(p[:8], []byte{0, 1, 8, 0, 6, 4, 0, 3}) && slices.Equal(p[14:18], []byte{0, 0, 0, 0}) &&
		slices.Contains(r.MACs, model.MAC(p[8:14])) && slices.Contains(r.MACs, model.MAC(p[18:24]))
}

func honestIPv4(p []byte, r *model.SwitchRule) bool {
	if len(p) < 20 {
		return false
	}
	src, dst := netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	if len(r.Addresses) > 0 && !slices.Contains(r.Addresses, src) && (!src.IsUnspecified() || dst != netip.MustParseAddr("255.255.255.255")) {
		return false
	}
	if later := binary.BigEndian.Uint16(p[6:])&0x1fff != 0; later || !r.CheckARP {
		return true
	}
	upper := p[min(len(p), 4*int(p[0]&15)):]
	switch p[9] {
	case 2: // IGMP
		return len(upper) >= 1 && upper[0] != 0x11 // a query
	case 17: // UDP
		return len(upper) >= 4 && binary.BigEndian.Uint16(upper[2:]) != 68 // to a DHCP client
	}
	return true
}

func honestIPv6(p []byte, r *model.SwitchRule) bool {
	if len(p) < 40 {
		return false
	}
	src, dst := netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	known := len(r.Addresses) == 0 || ownsV6(src, r) || src.IsUnspecified() && dst.IsMulticast()
	return known && (!r.CheckARP || honestND(p, r))
}

func ownsV6(a netip.Addr, r *model.SwitchRule) bool {
	return slices.Contains(r.Addresses, a) || slices.ContainsFunc(r.MACs, func(m model.MAC) bool {
		return a == netip.AddrFrom16([16]byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	})
}

func honestND(p []byte, r *model.SwitchRule) bool {
	length, next := int(binary.BigEndian.Uint16(p[4:])), p[6]
	end, rest := 40+length, p[40:]
	if next == 0 { // hop-by-hop options
		if length == 0 || len(rest) < 2 {
			return false
		}
		next = rest[0]
		rest = rest[min(len(rest), 8*(int(rest[1])+1)):]
	}
	later := false
	if next == 44 { // a fragment header
		if len(rest) < 4 || rest[0] == 58 {
			return false
		}
		next, later = rest[0], binary.BigEndian.Uint16(rest[2:])&0xfff8 != 0
		rest = rest[min(len(rest), 8):]
	}
	if slices.Contains([]byte{0, 43, 44, 51, 60, 135, 139, 140}, next) {
		return false
	}
	if next == 17 && !later {
		return len(rest) >= 4 && binary.BigEndian.Uint16(rest[2:]) != 546 // to a DHCPv6 client
	}
	return next != 58 || honestICMPv6(rest, end-(len(p)-len(rest)), r, netip.AddrFrom16([16]byte(p[8:24])))
}

// honestICMPv6 checks a message of that length, of which m may contain more or less.
func honestICMPv6(m []byte, length int, r *model.SwitchRule, src netip.Addr) bool {
	if len(m) < 1 {
		return false
	}
	var options int
	switch m[0] {
	case 130, 134, 137: // MLD query, router advertisement, redirect
		return false
	case 133: // router solicitation
		options = 8
	case 135, 136: // neighbour solicitation and advertisement
		options = 24
		claims := m[0] == 136 || src.IsUnspecified() // duplicate address detection claims the target
		if claims && len(r.Addresses) > 0 && (len(m) < 24 || !ownsV6(netip.AddrFrom16([16]byte(m[8:24])), r)) {
			return false
		}
	default:
		return true
	}
	for n := 0; options != length; n++ {
		if n == 4 || options > length || len(m) < options+8 {
			return false
		}
		o := m[options:]
		if link := o[0] == 1 || o[0] == 2; o[1] == 0 || link && !slices.Contains(r.MACs, model.MAC(o[2:8])) {
			return false
		}
		options += 8 * int(o[1])
	}
	return true
}

// TestLargestSwitchPort checks that the kernel accepts the programs of a port of maximum size, and that they enforce its last
// rule.
func TestLargestSwitchPort(t *testing.T) {
	h := newHost(t)
	tap, out := kerneltest.NewPort(t, "tap0", ""), kerneltest.NewPort(t, "out0", "")
	port := model.SwitchPort{Tap: "tap0"}
	for i := range maxRules {
		r := model.SwitchRule{CheckARP: true, Limit: model.Rate{Bits: 1e9, Packets: 1e6}, Receive: model.Rate{Bits: 1e9, Packets: 1e6}}
		for k := range mostMACs {
			r.MACs = append(r.MACs, model.MAC{2, 0, 0, 0, byte(i), byte(k)})
		}
		for k := range model.MaxPortAddresses {
			r.Addresses = append(r.Addresses, netip.AddrFrom16([16]byte{0xfd, 14: byte(i), 15: byte(k)}))
		}
		for k := range model.MaxTrunkRanges {
			r.Trunk = append(r.Trunk, model.VLANRange{First: 100*i + 10*k + 1, Last: 100*i + 10*k + 5})
		}
		port.Rules = append(port.Rules, r)
	}
	setPort(t, h, port)
	joinPorts(t, h, "tap0", "out0")
	last := &port.Rules[maxRules-1]
	mac, address := last.MACs[mostMACs-1], last.Addresses[model.MaxPortAddresses-1].String()
	good := nd(address, neighborAdvertisement, address, targetLinkLayer, mac)
	bad := nd(address, neighborAdvertisement, address, targetLinkLayer, port.Rules[0].MACs[0])
	for _, f := range [][]byte{good, bad} {
		copy(f[6:], mac[:])
		tap.Send(t, vlan(f, uint16(last.Trunk[model.MaxTrunkRanges-1].Last)))
		tap.Send(t, vlan(f, uint16(last.Trunk[0].First-1)))
	}
	out.Expect(t, vlan(good, uint16(last.Trunk[model.MaxTrunkRanges-1].Last)))
	if c := switchPorts(t, h)[0].Counts[maxRules-1]; c != (model.SwitchDrop{Spoof: 1, VLAN: 2}) {
		t.Errorf("counts %+v", c)
	}
}
