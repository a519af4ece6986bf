package tap

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// stackPartial is where in the program's stack it says whether the kernel is to fill in a checksum.
const stackPartial = -168

// findPartial notes at stackPartial whether the kernel is to fill in a checksum (VIRTIO_NET_HDR_F_NEEDS_CSUM), and drops a frame if that
// comes to be in the Ethernet header. The guest chooses where it is, and by the rest of the frame what it is; it is filled in after all
// checks. Newer kernels let it begin behind the Ethernet header alone; this holds for all.
//
// No program is told of it, but two helpers behave accordingly. bpf_l4_csum_replace changes a checksum by a difference, but leaves one
// alone that is still to be made: here "the checksum" is two bytes of the Ethernet header, which are put back. For the other see untouched.
func findPartial() asm.Instructions {
	const whole = "no checksum to come"
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
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Half),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader, asm.Half),
		asm.Mov.Imm(asm.R3, 1),
		asm.StoreMem(asm.RFP, stackPartial, asm.R3, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, "checksum to come"),
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
		asm.Ja.Label(whole),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("checksum to come"),
	)
	insns = append(insns, cut(14)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(whole))
}

// untouched drops a frame if the kernel is to fill in a checksum in its first n bytes.
func untouched(what string, n int32) asm.Instructions {
	whole := what + " untouched"
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackPartial, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, whole),
	}
	insns = append(insns, cut(n)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(whole))
}

// cut tries to cut a frame with a checksum to come off in the middle of it, if that begins in the first n bytes.
// bpf_skb_change_tail refuses (EINVAL, and nothing has changed) to cut such a frame off before the end of the checksum; one that it does
// cut off is dropped.
func cut(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Imm(asm.R2, n+1),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeTail.Call(),
		asm.JNE.Imm(asm.R0, -int32(unix.EINVAL), labelSpoof),
	}
}
