package tap

import (
	"slices"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
)

// measure computes how many frames the NIC will make of this one, and their bits on the wire. The kernel has not yet counted the
// segments of frames from a guest.
func measure() asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, stackSegments, asm.R1, asm.DWord),
		asm.LoadMem(regBits, regFrame, skbLen, asm.Word),
		asm.LoadMem(asm.R1, regFrame, skbGSOSize, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "measured"),
	}, loadBytes(0, stackHeader, headerBytes, "measured"), asm.Instructions{
		// R1: offset of the transport header, R2: its protocol.
		asm.LoadMem(asm.R3, asm.RFP, stackHeader+12, asm.Half),
		asm.JEq.Imm(asm.R3, int32(bpf.NetworkOrder(unix.ETH_P_IPV6)), "IPv6"),
		asm.LoadMem(asm.R1, asm.RFP, stackHeader+14, asm.Byte),
		asm.And.Imm(asm.R1, 0xf),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Imm(asm.R1, 14),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader+14+9, asm.Byte),
		asm.Ja.Label("transport"),
		asm.Mov.Imm(asm.R1, 14+40).WithSymbol("IPv6"),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader+14+6, asm.Byte),
		// R5: the length of all headers.
		asm.Mov.Reg(asm.R5, asm.R1).WithSymbol("transport"),
		asm.Add.Imm(asm.R5, 8),
		asm.JNE.Imm(asm.R2, unix.IPPROTO_TCP, "headers"),
		asm.StoreMem(asm.RFP, stackHeader+8, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.Add.Imm(asm.R2, 12),
	}, loadBytesAt(stackHeader, 1, "measured"), asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackHeader, asm.Byte),
		asm.RSh.Imm(asm.R1, 4),
		asm.LSh.Imm(asm.R1, 2),
		asm.LoadMem(asm.R5, asm.RFP, stackHeader+8, asm.DWord),
		asm.Add.Reg(asm.R5, asm.R1),
		// Segments: the payload divided by the segment size, rounded up.
		asm.JGE.Reg(asm.R5, regBits, "measured").WithSymbol("headers"),
		asm.LoadMem(asm.R2, regFrame, skbGSOSize, asm.Word),
		asm.Mov.Reg(asm.R1, regBits),
		asm.Sub.Reg(asm.R1, asm.R5),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.Sub.Imm(asm.R1, 1),
		asm.Div.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, stackSegments, asm.R1, asm.DWord),
		// Every segment but the first gets a copy of the headers.
		asm.Sub.Imm(asm.R1, 1),
		asm.Mul.Reg(asm.R1, asm.R5),
		asm.Add.Reg(regBits, asm.R1),
		asm.Mov.Imm(asm.R1, bpf.WireOverhead).WithSymbol("measured"),
		asm.LoadMem(asm.R2, regFrame, bpf.SKBVLANPresent, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "untagged"),
		asm.Mov.Imm(asm.R1, bpf.WireOverhead+vlanTag),
		asm.LoadMem(asm.R2, asm.RFP, stackSegments, asm.DWord).WithSymbol("untagged"),
		asm.Mul.Reg(asm.R1, asm.R2),
		asm.Add.Reg(regBits, asm.R1),
		asm.LSh.Imm(regBits, 3),
	})
}
