package tap

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// stackPartial is the stack slot that records whether the kernel is to fill in a checksum.
const stackPartial = -168

// findPartial records at stackPartial whether the kernel is to fill in a checksum (VIRTIO_NET_HDR_F_NEEDS_CSUM), and drops the
// frame if that checksum lies in the Ethernet header. The guest chooses its place, and by the rest of the frame its value, and
// the kernel writes it after all checks. Newer kernels accept only places behind the Ethernet header; this check covers all
// kernels.
//
// Programs cannot query this, but two helpers reveal it. bpf_l4_csum_replace adjusts a checksum by a difference, but leaves a
// checksum alone that is still to be filled in. Here "the checksum" is two bytes of the Ethernet header, which are restored from
// stackHeader. For the other helper see cut.
//
// This costs every frame one call: the two bytes are compared and restored in place.
func findPartial() asm.Instructions {
	const whole, partial = "no checksum to come", "checksum to come"
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 1),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnL4CsumReplace.Call(),
		asm.JNE.Imm(asm.R0, 0, labelSpoof),
	}
	insns = append(insns, inPlace(2, labelSpoof)...) // the helper has made them so
	insns = append(insns,
		asm.LoadMem(asm.R2, asm.RFP, stackHeader, asm.Half),
		asm.LoadMem(asm.R3, asm.R1, 0, asm.Half),
		asm.Mov.Imm(asm.R4, 1),
		asm.JEq.Reg(asm.R2, asm.R3, partial),
		asm.StoreMem(asm.R1, 0, asm.R2, asm.Half),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.RFP, stackPartial, asm.R4, asm.DWord),
		asm.Ja.Label(whole),
		asm.StoreMem(asm.RFP, stackPartial, asm.R4, asm.DWord).WithSymbol(partial),
	)
	insns = append(insns, cut(14)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(whole))
}

// untouched drops a frame if the kernel is to fill in a checksum that begins in its first n bytes.
func untouched(what string, n int32) asm.Instructions {
	whole := what + " untouched"
	insns := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackPartial, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, whole),
	}
	insns = append(insns, cut(n)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(whole))
}

// cut drops a frame whose pending checksum does not lie behind its first n bytes. bpf_skb_change_tail refuses to cut such a frame
// off before the end of the checksum: it returns EINVAL and changes nothing. A frame that it does truncate is dropped.
func cut(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Imm(asm.R2, n+1),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeTail.Call(),
		asm.JNE.Imm(asm.R0, -int32(unix.EINVAL), labelSpoof),
	}
}
