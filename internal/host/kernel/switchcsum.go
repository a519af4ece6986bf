package kernel

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// leaves drops a frame if the kernel is to fill in a checksum in its first n bytes: the guest chooses where that is, and by the rest of
// the frame what comes to be there, which is after all checks. It notes at stackPartial whether there is any to fill in.
//
// No program is told, but two helpers behave accordingly. bpf_l4_csum_replace changes a checksum by a difference, but leaves one
// alone that is still to be made: here "the checksum" is two bytes of the Ethernet header, which are put back. bpf_skb_change_tail refuses
// (EINVAL, and nothing has changed) to cut such a frame off before the end of the checksum; one that it does cut off is dropped.
func (s speaking) leaves(n int32) asm.Instructions {
	partial, done := s.label(fmt.Sprint("checksum to come, not in ", n)), s.label(fmt.Sprint("no checksum in ", n))
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 1),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnL4CsumReplace.Call(),
		asm.JNE.Imm(asm.R0, 0, labelSpoof),
	}
	insns = append(insns, loadBytes(0, stackNext, 2, labelSpoof)...)
	return append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Half),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader, asm.Half),
		asm.Mov.Imm(asm.R3, 1),
		asm.StoreMem(asm.RFP, stackPartial, asm.R3, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, partial),
		asm.Mov.Imm(asm.R3, 0),
		asm.StoreMem(asm.RFP, stackPartial, asm.R3, asm.DWord),
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackHeader),
		asm.Mov.Imm(asm.R4, 2),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, labelSpoof),
		asm.Ja.Label(done),
		asm.Mov.Reg(asm.R1, regFrame).WithSymbol(partial),
		asm.Mov.Imm(asm.R2, n+1),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeTail.Call(),
		asm.JNE.Imm(asm.R0, -int32(unix.EINVAL), labelSpoof),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(done),
	)
}
