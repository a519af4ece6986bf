package tap

import (
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// extensions are the next-header values of IPv6 extension headers (IANA), as numbers where package unix does not name them.
var extensions = []int32{
	unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_FRAGMENT, unix.IPPROTO_AH, unix.IPPROTO_DSTOPTS,
	unix.IPPROTO_MH, 139, 140,
}

// ND message and option types, and the MLD query.
const (
	listenerQuery         = 130
	routerSolicitation    = 133
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	redirect              = 137

	sourceLinkLayer = 1
	targetLinkLayer = 2

	mostOption = 4 // options per ND message; only SEND (RFC 3971), which is not supported, needs more
)

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

// unspecified accepts the source :: only for multicast destinations.
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

// toUpperLayer skips the permitted extension headers up to ICMPv6 or UDP. Other upper layers pass; other extension headers are
// dropped.
func (s speaking) toUpperLayer() asm.Instructions {
	upper, unfragmented, later, datagram := s.label("upper layer"), s.label("unfragmented"), s.label("later fragment"), s.label("IPv6 UDP")
	insns := asm.Instructions{
		asm.LoadMem(regType, asm.RFP, stackText+6, asm.Byte),
		asm.Mov.Imm(regOffset, 14+40),
		asm.LoadMem(regEnd, asm.RFP, stackText+4, asm.Half),
		asm.HostTo(asm.BE, regEnd, asm.Half),
		asm.JNE.Imm(regType, unix.IPPROTO_HOPOPTS, upper),
		asm.JEq.Imm(regEnd, 0, labelSpoof), // a jumbogram, whose length is elsewhere
		asm.LoadMem(asm.R1, asm.RFP, stackPending, asm.DWord),
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
		asm.LoadMem(asm.R1, asm.RFP, stackPending, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.Mov.Reg(asm.R2, regOffset),
	)
	insns = append(insns, loadBytesAt(stackNext, 4, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(regType, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(regType, unix.IPPROTO_ICMPV6, labelSpoof),
		asm.Add.Imm(regOffset, 8),
		asm.LoadMem(asm.R1, asm.RFP, stackNext+2, asm.Half),
		asm.And.Imm(asm.R1, int32(bpf.NetworkOrder(0xfff8))),
		asm.JNE.Imm(asm.R1, 0, later),
		asm.JEq.Imm(regType, unix.IPPROTO_ICMPV6, s.label("ICMPv6")).WithSymbol(unfragmented),
		asm.JEq.Imm(regType, unix.IPPROTO_UDP, datagram),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(later),
	)
	for _, e := range extensions {
		insns = append(insns, asm.JEq.Imm(regType, e, labelSpoof))
	}
	insns = append(insns, asm.Ja.Label(s.passes()))
	return append(insns, s.udp(datagram, 14+40, portDHCPv6)...)
}

// nd checks the ICMPv6 message at regOffset.
func (s speaking) nd() asm.Instructions {
	options, claim := s.label("options"), s.label("claim")
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackPending, asm.DWord).WithSymbol(s.label("ICMPv6")),
		asm.JNE.Imm(asm.R1, 0, labelSpoof),
		asm.Mov.Reg(asm.R2, regOffset),
	}
	insns = append(insns, loadBytesAt(stackNext, 1, labelSpoof)...)
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(asm.R1, listenerQuery, labelSpoof),
		asm.JEq.Imm(asm.R1, routerAdvertisement, labelSpoof),
		asm.JEq.Imm(asm.R1, redirect, labelSpoof),
		asm.Add.Imm(regOffset, 8),
		asm.JEq.Imm(asm.R1, routerSolicitation, options),
		asm.Add.Imm(regOffset, 16),
		asm.JEq.Imm(asm.R1, neighborAdvertisement, claim),
		asm.JNE.Imm(asm.R1, neighborSolicitation, s.passes()),
		asm.LoadMem(asm.R1, asm.RFP, stackText+8, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, stackText+16, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.JNE.Imm(asm.R1, 0, options),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(claim), // of the target address: an advertisement, or duplicate address detection
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

// option checks the ND option at regOffset and skips it. The message passes if the packet ends exactly where the previous option
// ended, which an option whose length is zero or exceeds the packet never reaches.
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

// matchV6 jumps to found if the address at that stack slot is one of addresses.
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

// v6 returns the permitted source addresses, including the link-local ones formed from the rule's MACs.
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

// linkLocal is the address that a guest forms from a MAC (RFC 4291, appendix A).
func linkLocal(m model.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}
