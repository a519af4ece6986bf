package tap

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// speaking checks the addresses that a guest uses or claims against one rule: IP sources, and the bindings announced by ARP, RARP
// and neighbour discovery (ND, RFC 4861). It also keeps the guest from acting as a router, DHCP server or multicast querier.
//
//   - Sources: one of Addresses; 0.0.0.0 to 255.255.255.255 (DHCP); :: to a multicast group (duplicate address detection, MLD);
//     the link-local address formed from one of its MACs (EUI-64). A guest that forms its link-local address otherwise needs it
//     in Addresses.
//   - ARP: requests and replies for IPv4 over Ethernet, from one of its MACs and Addresses, or from 0.0.0.0 for one of its
//     Addresses. Such a probe (RFC 5227) makes other hosts give up the probed address.
//   - RARP: announcements of its own MACs, as QEMU sends after a migration.
//   - ND: link-layer options with one of its MACs; advertisements for its Addresses, and likewise solicitations from ::, which
//     claim an address as probes do; no router advertisements and no redirects.
//   - Nothing to the ports of DHCP clients, and no IGMP or MLD queries, even in an IPv4 packet with options.
//   - IPv6 extension headers: only hop-by-hop options (used by MLD) and, except with ICMPv6, a fragment header. Others could hide
//     any of the above. Therefore neither AH nor fragmented pings over IPv6 pass. Only the first fragment contains the ports,
//     since a later one begins at least 8 bytes further.
//   - No checksum left for the kernel to fill in (VIRTIO_NET_HDR_F_NEEDS_CSUM) inside the inspected bytes, nor behind ICMPv6,
//     IGMP, IPv4 options and the extension headers above: the kernel writes it after the frame has passed.
//   - No IEEE 802.3 frames with a length field: the following SNAP header could hide any of the above.
type speaking struct {
	n    int
	rule *model.SwitchRule
}

// stackNext is the stack slot for what is read of headers behind the IP header.
const stackNext = -120

// Registers: the type and frame offset of the header under inspection, and the end of the IPv6 packet.
const (
	regType   = asm.R7
	regOffset = asm.R8
	regEnd    = asm.R9
)

// Client ports, and an IGMP message type.
const (
	portDHCP   = 68
	portDHCPv6 = 546
	igmpQuery  = 0x11
)

func (s speaking) label(what string) string { return fmt.Sprint(what, " of rule ", s.n) }

func (s speaking) passes() string { return s.label("passes") }

// check checks a frame from the guest.
func (s speaking) check() asm.Instructions {
	r := s.rule
	if !r.CheckARP && len(r.Addresses) == 0 {
		return nil
	}
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackHeader+12, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JLT.Imm(asm.R1, 0x600, labelSpoof),
	}
	var parts asm.Instructions
	add := func(etherType int32, name string, checked int32, part asm.Instructions) {
		part = append(untouched(s.label(name), checked), part...)
		part[0] = part[0].WithSymbol(s.label(name))
		insns = append(insns, asm.JEq.Imm(asm.R1, etherType, s.label(name)))
		parts = append(parts, part...)
	}
	if r.CheckARP {
		add(unix.ETH_P_ARP, "ARP", 14+28, s.arp())
		add(unix.ETH_P_RARP, "RARP", 14+28, s.rarp())
	}
	add(unix.ETH_P_IP, "IPv4", 14+20, s.ipv4())
	add(unix.ETH_P_IPV6, "IPv6", 14+40, s.ipv6())
	insns = append(insns, asm.Ja.Label(s.passes()))
	insns = append(insns, parts...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(s.passes()))
}

// arpHeader reads an ARP or RARP packet for IPv4 over Ethernet and drops any other.
func arpHeader() asm.Instructions {
	return append(loadBytes(14, stackText, 28, labelSpoof),
		asm.LoadMem(asm.R1, asm.RFP, stackText, asm.Word),
		asm.JNE.Imm32(asm.R1, word([]byte{0, 1, 8, 0}), labelSpoof), // IPv4 over Ethernet
		asm.LoadMem(asm.R1, asm.RFP, stackText+4, asm.Half),
		asm.JNE.Imm(asm.R1, int32(bpf.NetworkOrder(0x0604)), labelSpoof), // with addresses of 6 and 4 bytes
		asm.LoadMem(asm.R1, asm.RFP, stackText+6, asm.Half),
	)
}

// arpSender drops a packet whose sender MAC is not one of the rule's, and loads the sender's IPv4 address into R1 and R2, two
// bytes each.
func (s speaking) arpSender(what string) asm.Instructions {
	known := s.label(what + " known")
	insns := asm.Instructions{
		asm.LoadMem(asm.R4, asm.RFP, stackText+8, asm.Word),
		asm.LoadMem(asm.R5, asm.RFP, stackText+12, asm.Half),
	}
	insns = append(insns, matchMACs(s.label(what+" sender"), s.rule.MACs, known, asm.R4, asm.R5, headFirst)...)
	return append(insns,
		asm.Ja.Label(labelSpoof),
		asm.LoadMem(asm.R1, asm.RFP, stackText+14, asm.Half).WithSymbol(known),
		asm.LoadMem(asm.R2, asm.RFP, stackText+16, asm.Half),
	)
}

func (s speaking) arp() asm.Instructions {
	asked := s.label("ARP asked")
	insns := append(arpHeader(),
		asm.JEq.Imm(asm.R1, int32(bpf.NetworkOrder(1)), asked),
		asm.JNE.Imm(asm.R1, int32(bpf.NetworkOrder(2)), labelSpoof),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(asked),
	)
	insns = append(insns, s.arpSender("ARP")...)
	if len(s.rule.Addresses) == 0 {
		return append(insns, asm.Ja.Label(s.passes()))
	}
	for i, a := range s.v4() {
		next := fmt.Sprint(s.label("ARP address"), " not ", i)
		insns = append(insns,
			asm.JNE.Imm(asm.R1, int32(binary.NativeEndian.Uint16(a[:])), next),
			asm.JEq.Imm(asm.R2, int32(binary.NativeEndian.Uint16(a[2:])), s.passes()),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(next),
		)
	}
	insns = append(insns, // a probe?
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.JNE.Imm(asm.R2, 0, labelSpoof),
		asm.LoadMem(asm.R1, asm.RFP, stackText+24, asm.Word),
	)
	return append(s.matchV4(insns, s.passes()), asm.Ja.Label(labelSpoof))
}

// rarp passes only announcements of a MAC: a request by the guest for itself, with sender IP address 0.
func (s speaking) rarp() asm.Instructions {
	insns := append(arpHeader(), asm.JNE.Imm(asm.R1, int32(bpf.NetworkOrder(3)), labelSpoof))
	insns = append(insns, s.arpSender("RARP")...)
	insns = append(insns,
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.JNE.Imm(asm.R2, 0, labelSpoof),
		asm.LoadMem(asm.R5, asm.RFP, stackText+18, asm.Half),
		asm.LoadMem(asm.R4, asm.RFP, stackText+20, asm.Word),
	)
	insns = append(insns, matchMACs(s.label("RARP target"), s.rule.MACs, s.passes(), asm.R4, asm.R5, headLast)...)
	return append(insns, asm.Ja.Label(labelSpoof))
}

func (s speaking) ipv4() asm.Instructions {
	insns := loadBytes(14, stackText, 20, labelSpoof)
	if len(s.rule.Addresses) > 0 {
		known := s.label("IPv4 source known")
		insns = s.matchV4(append(insns, asm.LoadMem(asm.R1, asm.RFP, stackText+12, asm.Word)), known)
		insns = append(insns,
			asm.JNE.Imm(asm.R1, 0, labelSpoof),
			asm.LoadMem(asm.R1, asm.RFP, stackText+16, asm.Word),
			asm.JNE.Imm32(asm.R1, -1, labelSpoof),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(known),
		)
	}
	if !s.rule.CheckARP {
		return append(insns, asm.Ja.Label(s.passes()))
	}
	datagram := s.label("IPv4 UDP")
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackText+6, asm.Half),
		asm.And.Imm(asm.R1, int32(bpf.NetworkOrder(0x1fff))),
		asm.JNE.Imm(asm.R1, 0, s.passes()), // a later fragment
		asm.LoadMem(regOffset, asm.RFP, stackText, asm.Byte),
		asm.And.Imm(regOffset, 0xf),
		asm.LSh.Imm(regOffset, 2),
		asm.Add.Imm(regOffset, 14),
		asm.LoadMem(regType, asm.RFP, stackText+9, asm.Byte),
		asm.JEq.Imm(regType, unix.IPPROTO_UDP, datagram),
		asm.JNE.Imm(regType, unix.IPPROTO_IGMP, s.passes()),
		asm.LoadMem(asm.R1, asm.RFP, stackPending, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.Mov.Reg(asm.R2, regOffset),
	)
	insns = append(insns, loadBytesAt(stackNext, 1, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(asm.R1, igmpQuery, labelSpoof),
		asm.Ja.Label(s.passes()),
	)
	return append(insns, s.udp(datagram, 14+20, portDHCP)...)
}

// udp checks the datagram at regOffset, which equals usual if there are no IP options, and drops it if it is for the client port.
func (s speaking) udp(name string, usual int32, client uint16) asm.Instructions {
	ports := name + " ports"
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackPending, asm.DWord).WithSymbol(name),
		asm.JEq.Imm(asm.R1, 0, ports),
		asm.JNE.Imm(regOffset, usual, labelSpoof),
	}
	insns = append(insns, untouched(name, usual+4)...)
	insns = append(insns, asm.Mov.Reg(asm.R2, regOffset).WithSymbol(ports))
	insns = append(insns, loadBytesAt(stackNext, 4, labelSpoof)...)
	return append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackNext+2, asm.Half),
		asm.JEq.Imm(asm.R1, int32(bpf.NetworkOrder(client)), labelSpoof),
		asm.Ja.Label(s.passes()),
	)
}

// matchV4 jumps to found if the address in R1 is one of the rule's.
func (s speaking) matchV4(insns asm.Instructions, found string) asm.Instructions {
	for _, a := range s.v4() {
		insns = append(insns, asm.JEq.Imm32(asm.R1, word(a[:]), found))
	}
	return insns
}

// word returns four bytes of a frame as the program loads them.
func word(b []byte) int32 { return int32(binary.NativeEndian.Uint32(b)) }

func (s speaking) v4() (all [][4]byte) {
	for _, a := range s.rule.Addresses {
		if a.Is4() {
			all = append(all, a.As4())
		}
	}
	return all
}
