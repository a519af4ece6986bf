package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// speaking holds what a guest says of addresses to one rule: the sources of IP, and what ARP and neighbour discovery (ND,
// RFC 4861) tell others of who has which address.
//
//   - Sources: one of Addresses; 0.0.0.0 to 255.255.255.255 (DHCP); :: to a group (duplicate address detection, MLD); the link-local
//     address that is made of one of its MACs (EUI-64). A guest that makes its link-local address otherwise needs it in Addresses.
//   - ARP: requests and replies for IPv4 over Ethernet, from one of its MACs and Addresses, or 0.0.0.0 (a probe).
//   - ND: link-layer options with one of its MACs, advertisements for its Addresses; no router advertisement and no redirect.
//     Of extension headers there may be hop-by-hop options (MLD has them) and, but for ICMPv6, a fragment's: behind others ND might hide.
//     So a large ping over IPv6 does not pass, nor does AH.
//   - No checksum that the kernel is to fill in (VIRTIO_NET_HDR_F_NEEDS_CSUM) where addresses are, nor behind ICMPv6 and the extension
//     headers above: it does so when the frame has passed.
//   - No IEEE 802.3 frames with a length: the header behind that (SNAP) might hide any of this.
type speaking struct {
	n    int
	rule *model.SwitchRule
}

// Places in the program's stack: the header behind Ethernet's, and what is read of those behind it.
const (
	stackNext    = -120
	stackPartial = -168 // whether the kernel is to fill in a checksum
	mostOption   = 4    // of an ND message; SEND (RFC 3971) needs more, and none of ours
)

// Registers: where in the frame the header is that is looked at, its type, and where the IPv6 packet ends.
const (
	regType   = asm.R7
	regOffset = asm.R8
	regEnd    = asm.R9
)

// Next headers (IANA) that the unix package does not name are written as numbers.
var extensions = []int32{unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_FRAGMENT, unix.IPPROTO_AH, unix.IPPROTO_DSTOPTS, unix.IPPROTO_MH, 139, 140}

// Types of ND messages and options.
const (
	routerSolicitation    = 133
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	redirect              = 137

	sourceLinkLayer = 1
	targetLinkLayer = 2
)

func (s speaking) label(what string) string { return fmt.Sprint(what, " of rule ", s.n) }

func (s speaking) passes() string { return s.label("passes") }

// check is for what comes from the guest.
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
		part = append(s.leaves(checked), part...)
		part[0] = part[0].WithSymbol(s.label(name))
		insns = append(insns, asm.JEq.Imm(asm.R1, etherType, s.label(name)))
		parts = append(parts, part...)
	}
	if r.CheckARP {
		add(unix.ETH_P_ARP, "ARP", 14+18, s.arp())
	}
	if len(r.Addresses) > 0 {
		add(unix.ETH_P_IP, "IPv4", 14+20, s.ipv4())
	}
	add(unix.ETH_P_IPV6, "IPv6", 14+40, s.ipv6())
	insns = append(insns, asm.Ja.Label(s.passes()))
	insns = append(insns, parts...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(s.passes()))
}

func (s speaking) arp() asm.Instructions {
	known, asked := s.label("ARP known"), s.label("ARP asked")
	insns := loadBytes(14, stackText, 28, labelSpoof)
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackText, asm.Word),
		asm.JNE.Imm32(asm.R1, word([]byte{0, 1, 8, 0}), labelSpoof), // IPv4 over Ethernet
		asm.LoadMem(asm.R1, asm.RFP, stackText+4, asm.Half),
		asm.JNE.Imm(asm.R1, int32(networkOrder(0x0604)), labelSpoof), // with addresses of 6 and 4 bytes
		asm.LoadMem(asm.R1, asm.RFP, stackText+6, asm.Half),
		asm.JEq.Imm(asm.R1, int32(networkOrder(1)), asked),
		asm.JNE.Imm(asm.R1, int32(networkOrder(2)), labelSpoof),
		asm.LoadMem(asm.R4, asm.RFP, stackText+8, asm.Word).WithSymbol(asked),
		asm.LoadMem(asm.R5, asm.RFP, stackText+12, asm.Half),
	)
	insns = append(insns, matchMACs(s.label("ARP sender"), s.rule.MACs, known, asm.R4, asm.R5, headFirst)...)
	insns = append(insns, asm.Ja.Label(labelSpoof), asm.LoadMem(asm.R1, asm.RFP, stackText+14, asm.Half).WithSymbol(known))
	if len(s.rule.Addresses) == 0 {
		return append(insns, asm.Ja.Label(s.passes()))
	}
	insns = append(insns, asm.LoadMem(asm.R2, asm.RFP, stackText+16, asm.Half))
	for i, a := range append(s.v4(), [4]byte{}) {
		next := fmt.Sprint(s.label("ARP address"), " not ", i)
		insns = append(insns,
			asm.JNE.Imm(asm.R1, int32(binary.NativeEndian.Uint16(a[:])), next),
			asm.JEq.Imm(asm.R2, int32(binary.NativeEndian.Uint16(a[2:])), s.passes()),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(next),
		)
	}
	return append(insns, asm.Ja.Label(labelSpoof))
}

func (s speaking) ipv4() asm.Instructions {
	insns := loadBytes(14, stackText, 20, labelSpoof)
	insns = append(insns, asm.LoadMem(asm.R1, asm.RFP, stackText+12, asm.Word))
	for _, a := range s.v4() {
		insns = append(insns, asm.JEq.Imm32(asm.R1, word(a[:]), s.passes()))
	}
	return append(insns,
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.LoadMem(asm.R1, asm.RFP, stackText+16, asm.Word),
		asm.JNE.Imm32(asm.R1, -1, labelSpoof),
		asm.Ja.Label(s.passes()),
	)
}

func (s speaking) ipv6() asm.Instructions {
	insns := loadBytes(14, stackText, 40, labelSpoof)
	if len(s.rule.Addresses) > 0 {
		known := s.label("source known")
		insns = append(insns, s.matchV6("source", stackText+8, append(s.v6(), [16]byte{}), known)...)
		insns = append(insns, asm.Ja.Label(labelSpoof))
		insns = append(insns, asm.LoadMem(asm.R1, asm.RFP, stackText+8, asm.DWord).WithSymbol(known))
		insns = append(insns, s.unspecified()...)
	}
	if !s.rule.CheckARP {
		return append(insns, asm.Ja.Label(s.passes()))
	}
	insns = append(insns, s.toUpperLayer()...)
	return append(insns, s.nd()...)
}

// unspecified lets :: be the source of what is for a group alone.
func (s speaking) unspecified() asm.Instructions {
	specified := s.label("specified")
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.RFP, stackText+16, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.JNE.Imm(asm.R1, 0, specified),
		asm.LoadMem(asm.R1, asm.RFP, stackText+24, asm.Byte),
		asm.JNE.Imm(asm.R1, 0xff, labelSpoof),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(specified),
	}
}

// toUpperLayer goes past the extension headers that may be there, to ICMPv6; the rest passes or does not.
func (s speaking) toUpperLayer() asm.Instructions {
	upper, unfragmented := s.label("upper layer"), s.label("unfragmented")
	insns := asm.Instructions{
		asm.LoadMem(regType, asm.RFP, stackText+6, asm.Byte),
		asm.Mov.Imm(regOffset, 14+40),
		asm.LoadMem(regEnd, asm.RFP, stackText+4, asm.Half),
		asm.HostTo(asm.BE, regEnd, asm.Half),
		asm.JNE.Imm(regType, unix.IPPROTO_HOPOPTS, upper),
		asm.JEq.Imm(regEnd, 0, labelSpoof), // a jumbogram, whose end is told elsewhere
		asm.LoadMem(asm.R1, asm.RFP, stackPartial, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
	}
	insns = append(insns, loadBytes(14+40, stackNext, 2, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(regType, asm.RFP, stackNext, asm.Byte),
		asm.LoadMem(asm.R1, asm.RFP, stackNext+1, asm.Byte),
		asm.LSh.Imm(asm.R1, 3),
		asm.Add.Reg(regOffset, asm.R1),
		asm.Add.Imm(regOffset, 8),
		asm.Add.Imm(regEnd, 14+40).WithSymbol(upper),
		asm.JNE.Imm(regType, unix.IPPROTO_FRAGMENT, unfragmented),
		asm.LoadMem(asm.R1, asm.RFP, stackPartial, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.Mov.Reg(asm.R2, regOffset),
	)
	insns = append(insns, loadBytesAt(stackNext, 1, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(regType, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(regType, unix.IPPROTO_ICMPV6, labelSpoof),
		asm.JEq.Imm(regType, unix.IPPROTO_ICMPV6, s.label("ICMPv6")).WithSymbol(unfragmented),
	)
	for _, e := range extensions {
		insns = append(insns, asm.JEq.Imm(regType, e, labelSpoof))
	}
	return append(insns, asm.Ja.Label(s.passes()))
}

// nd looks at an ICMPv6 message at regOffset.
func (s speaking) nd() asm.Instructions {
	options := s.label("options")
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackPartial, asm.DWord).WithSymbol(s.label("ICMPv6")),
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.Mov.Reg(asm.R2, regOffset),
	}
	insns = append(insns, loadBytesAt(stackNext, 1, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(asm.R1, routerAdvertisement, labelSpoof),
		asm.JEq.Imm(asm.R1, redirect, labelSpoof),
		asm.Add.Imm(regOffset, 8),
		asm.JEq.Imm(asm.R1, routerSolicitation, options),
		asm.Add.Imm(regOffset, 16),
		asm.JEq.Imm(asm.R1, neighborSolicitation, options),
		asm.JNE.Imm(asm.R1, neighborAdvertisement, s.passes()),
	)
	if len(s.rule.Addresses) > 0 {
		insns = append(insns, asm.Mov.Reg(asm.R2, regOffset), asm.Sub.Imm(asm.R2, 16))
		insns = append(insns, loadBytesAt(stackNext, 16, labelSpoof)...)
		insns = append(insns, s.matchV6("target", stackNext, s.v6(), options)...)
		insns = append(insns, asm.Ja.Label(labelSpoof))
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(options))
	for i := range mostOption {
		insns = append(insns, s.option(fmt.Sprint(s.label("option"), " ", i))...)
	}
	return append(insns, asm.JNE.Reg(regOffset, regEnd, labelSpoof), asm.Ja.Label(s.passes()))
}

// option looks at the ND option at regOffset, and goes past it. Where the packet ends with the one before, all is well: one whose
// length is none, or leads beyond the end, never comes to that.
func (s speaking) option(name string) asm.Instructions {
	link, known := name+" link layer", name+" known"
	insns := asm.Instructions{
		asm.JEq.Reg(regOffset, regEnd, s.passes()),
		asm.Mov.Reg(asm.R2, regOffset),
	}
	insns = append(insns, loadBytesAt(stackNext, 8, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(asm.R2, asm.RFP, stackNext+1, asm.Byte), // in units of 8 bytes
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(asm.R1, sourceLinkLayer, link),
		asm.JNE.Imm(asm.R1, targetLinkLayer, known),
		asm.LoadMem(asm.R5, asm.RFP, stackNext+2, asm.Half).WithSymbol(link),
		asm.LoadMem(asm.R4, asm.RFP, stackNext+4, asm.Word),
	)
	insns = append(insns, matchMACs(name, s.rule.MACs, known, asm.R4, asm.R5, headLast)...)
	return append(insns,
		asm.Ja.Label(labelSpoof),
		asm.LSh.Imm(asm.R2, 3).WithSymbol(known),
		asm.Add.Reg(regOffset, asm.R2),
	)
}

// matchV6 jumps if the address at that place of the stack is one of these.
func (s speaking) matchV6(what string, at int16, addresses [][16]byte, found string) (insns asm.Instructions) {
	for i, a := range addresses {
		next := fmt.Sprint(s.label(what), " not ", i)
		for k := int16(0); k < 16; k += 4 {
			insns = append(insns, asm.LoadMem(asm.R1, asm.RFP, at+k, asm.Word), asm.JNE.Imm32(asm.R1, word(a[k:]), next))
		}
		insns = append(insns, asm.Ja.Label(found), asm.Mov.Imm(asm.R0, 0).WithSymbol(next))
	}
	return insns
}

// word is four bytes of a frame as the program reads them.
func word(b []byte) int32 { return int32(binary.NativeEndian.Uint32(b)) }

func (s speaking) v4() (all [][4]byte) {
	for _, a := range s.rule.Addresses {
		if a.Is4() {
			all = append(all, a.As4())
		}
	}
	return all
}

// v6 are the addresses that may be sent from, with those made of its MACs.
func (s speaking) v6() (all [][16]byte) {
	for _, a := range s.rule.Addresses {
		if a.Is6() {
			all = append(all, a.As16())
		}
	}
	for _, m := range s.rule.MACs {
		all = append(all, linkLocal(m).As16())
	}
	return all
}

// linkLocal is the address that a guest makes of a MAC (RFC 4291, appendix A).
func linkLocal(m model.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}
