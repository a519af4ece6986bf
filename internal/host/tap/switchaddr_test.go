package tap

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// ether puts a packet into a broadcast frame from the guest.
func ether(etherType uint16, packet []byte) []byte {
	f := slices.Concat(kerneltest.Broadcast[:], kerneltest.Guest[:], []byte{byte(etherType >> 8), byte(etherType)}, packet)
	return append(f, make([]byte, max(0, 60-len(f)))...)
}

func arp(operation byte, sender model.MAC, address string) []byte {
	return ether(unix.ETH_P_ARP, arpFor(operation, sender, address, model.MAC{}, "0.0.0.0"))
}

func arpFor(operation byte, sender model.MAC, address string, target model.MAC, wanted string) []byte {
	a, w := netip.MustParseAddr(address), netip.MustParseAddr(wanted)
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, operation}, sender[:], a.AsSlice(), target[:], w.AsSlice())
}

func ipv6(src, dst string, next byte, payload []byte) []byte {
	s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	return ether(unix.ETH_P_IPV6, slices.Concat([]byte{0x60, 0, 0, 0, 0, byte(len(payload)), next, 255}, s.AsSlice(), d.AsSlice(), payload))
}

func nd(src string, kind byte, target string, option byte, address model.MAC) []byte {
	return ipv6(src, "ff02::1", unix.IPPROTO_ICMPV6, ndMessage(kind, target, option, address))
}

func ndMessage(kind byte, target string, option byte, address model.MAC) []byte {
	b := []byte{kind, 0, 0, 0, 0, 0, 0, 0}
	if target != "" {
		b = append(b, netip.MustParseAddr(target).AsSlice()...)
	}
	return slices.Concat(b, []byte{option, 1}, address[:])
}

func ipv4(src, dst string) []byte { return ipv4With(src, dst, unix.IPPROTO_UDP, nil, udp(1, 2)) }

// ipv4With is a packet with those options, whose length is a multiple of 4 bytes.
func ipv4With(src, dst string, protocol byte, options, payload []byte) []byte {
	s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	header := []byte{byte(0x45 + len(options)/4), 0, 0, byte(20 + len(options) + len(payload)), 0, 0, 0, 0, 64, protocol, 0, 0}
	return ether(unix.ETH_P_IP, slices.Concat(header, s.AsSlice(), d.AsSlice(), options, payload))
}

// udp is a datagram without payload.
func udp(from, to uint16) []byte {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)
	return append(b, 0, 8, 0, 0)
}

// jumbo sets the length of a packet to 0, as in a jumbogram.
func jumbo(frame []byte) []byte {
	frame[14+4], frame[14+5] = 0, 0
	return frame
}

// TestSwitchAddresses checks that the rules apply to the addresses that a guest uses or claims in IP, ARP and ND.
func TestSwitchAddresses(t *testing.T) {
	h := newHost(t)
	tap, out := kerneltest.NewPort(t, "tap0", ""), kerneltest.NewPort(t, "out0", "") // not over a bridge, which drops invalid IP
	own := linkLocal(kerneltest.Guest).String()
	solicited := ndMessage(neighborAdvertisement, "fd00::1", targetLinkLayer, kerneltest.Other)
	alert := []byte{0x94, 4, 0, 0} // the router alert option
	later := func(f []byte) []byte { f[14+7] = 1; return f }
	hopByHop := func(next byte) []byte { return []byte{next, 0, 5, 2, 0, 0, 1, 0} }
	setPort(t, h, ofGuest(func(r *model.SwitchRule) {
		r.CheckARP = true
		r.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	}))
	joinPorts(t, h, "tap0", "out0")
	passing := map[string][]byte{
		"ARP request":           arp(1, kerneltest.Guest, "10.0.0.1"),
		"ARP reply":             arp(2, kerneltest.Guest, "10.0.0.1"),
		"ARP probe":             ether(unix.ETH_P_ARP, arpFor(1, kerneltest.Guest, "0.0.0.0", kerneltest.NoMAC, "10.0.0.1")),
		"RARP of a migrated VM": ether(unix.ETH_P_RARP, arpFor(3, kerneltest.Guest, "0.0.0.0", kerneltest.Guest, "0.0.0.0")),
		"IPv4":                  ipv4("10.0.0.1", "10.0.0.9"),
		"DHCP":                  ipv4With("0.0.0.0", "255.255.255.255", unix.IPPROTO_UDP, nil, udp(68, 67)),
		"IGMP report":           ipv4With("10.0.0.1", "224.0.0.22", unix.IPPROTO_IGMP, alert, []byte{0x22, 0, 0, 0, 0, 0, 0, 0}),
		"later fragment":        later(ipv4With("10.0.0.1", "10.0.0.9", unix.IPPROTO_UDP, nil, udp(67, 68))),
		"DHCPv6":                ipv6("fd00::1", "ff02::1:2", unix.IPPROTO_UDP, udp(546, 547)),
		"later fragment of IPv6": ipv6("fd00::1", "fd00::9", unix.IPPROTO_FRAGMENT,
			append([]byte{unix.IPPROTO_UDP, 0, 0, 8, 0, 0, 0, 1}, udp(547, 546)...)),
		"IPv6":                     ipv6("fd00::1", "fd00::9", unix.IPPROTO_UDP, make([]byte, 16)),
		"IPv6 fragment":            ipv6("fd00::1", "fd00::9", unix.IPPROTO_FRAGMENT, []byte{unix.IPPROTO_UDP, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}),
		"solicitation":             nd("fd00::1", neighborSolicitation, "fd00::9", sourceLinkLayer, kerneltest.Guest),
		"solicitation, link-local": nd(own, neighborSolicitation, "fd00::9", sourceLinkLayer, kerneltest.Guest),
		"duplicate detection": ipv6("::", "ff02::1:ff00:1", unix.IPPROTO_ICMPV6,
			ndMessage(neighborSolicitation, "fd00::1", 14, kerneltest.Guest)),
		"advertisement":             nd("fd00::1", neighborAdvertisement, "fd00::1", targetLinkLayer, kerneltest.Guest),
		"advertisement, link-local": nd(own, neighborAdvertisement, own, targetLinkLayer, kerneltest.Guest),
		"router solicitation":       nd(own, routerSolicitation, "", sourceLinkLayer, kerneltest.Guest),
		"MLD": ipv6("::", "ff02::16", unix.IPPROTO_HOPOPTS,
			append(hopByHop(unix.IPPROTO_ICMPV6), 143, 0, 0, 0, 0, 0, 0, 0)),
		"another protocol": ether(0x88b5, []byte("text")),
	}
	dropped := map[string][]byte{
		"ARP with another's MAC":       arp(2, kerneltest.Other, "10.0.0.1"),
		"ARP with another's address":   arp(2, kerneltest.Guest, "10.0.0.2"),
		"ARP request from another":     arp(1, kerneltest.Guest, "10.0.0.254"),
		"ARP of another sort":          arp(8, kerneltest.Guest, "10.0.0.1"),
		"cut ARP":                      arp(2, kerneltest.Guest, "10.0.0.1")[:40],
		"ARP probe for another's":      ether(unix.ETH_P_ARP, arpFor(1, kerneltest.Guest, "0.0.0.0", kerneltest.NoMAC, "10.0.0.2")),
		"RARP reply":                   ether(unix.ETH_P_RARP, arpFor(4, kerneltest.Guest, "0.0.0.0", kerneltest.Guest, "0.0.0.0")),
		"RARP from another":            ether(unix.ETH_P_RARP, arpFor(3, kerneltest.Other, "0.0.0.0", kerneltest.Guest, "0.0.0.0")),
		"RARP for another":             ether(unix.ETH_P_RARP, arpFor(3, kerneltest.Guest, "0.0.0.0", kerneltest.Other, "0.0.0.0")),
		"RARP with an address":         ether(unix.ETH_P_RARP, arpFor(3, kerneltest.Guest, "0.0.0.2", kerneltest.Guest, "0.0.0.0")),
		"DHCP offer":                   ipv4With("10.0.0.1", "255.255.255.255", unix.IPPROTO_UDP, nil, udp(67, 68)),
		"DHCP offer behind options":    ipv4With("10.0.0.1", "255.255.255.255", unix.IPPROTO_UDP, alert, udp(67, 68)),
		"DHCP offer from another port": ipv4With("10.0.0.1", "10.0.0.9", unix.IPPROTO_UDP, nil, udp(1067, 68)),
		"IGMP query":                   ipv4With("10.0.0.1", "224.0.0.1", unix.IPPROTO_IGMP, nil, []byte{0x11, 100, 0, 0, 0, 0, 0, 0}),
		"IGMP query behind options":    ipv4With("10.0.0.1", "224.0.0.1", unix.IPPROTO_IGMP, alert, []byte{0x11, 100, 0, 0, 0, 0, 0, 0}),
		"DHCPv6 advertise":             ipv6("fd00::1", "fd00::9", unix.IPPROTO_UDP, udp(547, 546)),
		"DHCPv6 behind hop-by-hop":     ipv6("fd00::1", "fd00::9", unix.IPPROTO_HOPOPTS, append(hopByHop(unix.IPPROTO_UDP), udp(547, 546)...)),
		"DHCPv6 in a first fragment": ipv6("fd00::1", "fd00::9", unix.IPPROTO_FRAGMENT,
			append([]byte{unix.IPPROTO_UDP, 0, 0, 1, 0, 0, 0, 1}, udp(547, 546)...)),
		"MLD query": ipv6(own, "ff02::1", unix.IPPROTO_HOPOPTS,
			append(hopByHop(unix.IPPROTO_ICMPV6), append([]byte{130}, make([]byte, 23)...)...)),
		"MLD query without options": ipv6(own, "ff02::1", unix.IPPROTO_ICMPV6, append([]byte{130}, make([]byte, 23)...)),
		"duplicate detection, another's": ipv6("::", "ff02::1:ff00:9", unix.IPPROTO_ICMPV6,
			ndMessage(neighborSolicitation, "fd00::9", 14, kerneltest.Guest)),
		"jumbogram": jumbo(ipv6("fd00::1", "fd00::9", unix.IPPROTO_HOPOPTS,
			append(hopByHop(unix.IPPROTO_UDP), udp(1, 2)...))),
		"IPv4 from another":              ipv4("10.0.0.2", "10.0.0.9"),
		"IPv4 from nobody":               ipv4("0.0.0.0", "10.0.0.9"),
		"IPv6 from another":              ipv6("fd00::2", "fd00::9", unix.IPPROTO_UDP, make([]byte, 16)),
		"IPv6 from nobody":               ipv6("::", "fd00::9", unix.IPPROTO_UDP, make([]byte, 16)),
		"IPv6, another's link-local":     ipv6(linkLocal(kerneltest.Other).String(), "fd00::9", unix.IPPROTO_UDP, make([]byte, 16)),
		"solicitation, another's MAC":    nd("fd00::1", neighborSolicitation, "fd00::9", sourceLinkLayer, kerneltest.Other),
		"advertisement, another's MAC":   nd("fd00::1", neighborAdvertisement, "fd00::1", targetLinkLayer, kerneltest.Other),
		"advertisement, another address": nd("fd00::1", neighborAdvertisement, "fd00::9", targetLinkLayer, kerneltest.Guest),
		"router advertisement":           nd(own, routerAdvertisement, "", sourceLinkLayer, kerneltest.Guest),
		"redirect":                       nd(own, redirect, "fd00::9", targetLinkLayer, kerneltest.Guest),
		"ND behind hop-by-hop options":   ipv6("fd00::1", "ff02::1", unix.IPPROTO_HOPOPTS, append(hopByHop(unix.IPPROTO_ICMPV6), solicited...)),
		"ND behind destination options":  ipv6("fd00::1", "ff02::1", unix.IPPROTO_DSTOPTS, append(hopByHop(unix.IPPROTO_ICMPV6), solicited...)),
		"ND behind two headers": ipv6("fd00::1", "ff02::1", unix.IPPROTO_HOPOPTS,
			slices.Concat(hopByHop(unix.IPPROTO_DSTOPTS), hopByHop(unix.IPPROTO_ICMPV6), solicited)),
		"ND in a fragment": ipv6("fd00::1", "ff02::1", unix.IPPROTO_FRAGMENT,
			append([]byte{unix.IPPROTO_ICMPV6, 0, 0, 1, 0, 0, 0, 1}, solicited...)),
		"ARP behind SNAP": ether(44, append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 6}, arp(2, kerneltest.Other, "10.0.0.1")[14:]...)),
	}
	var all []crossing
	for name, f := range passing {
		all = append(all, crossing{name, f, f, model.SwitchDrop{}, false})
	}
	for name, f := range dropped {
		all = append(all, crossing{name, f, nil, oneSpoof, false})
	}
	marker := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "marker")
	crosses(t, h, tap, out, marker, marker, all)
}
