package tap

import "github.com/cilium/ebpf/asm"

// stackPending is the stack slot that says where in the frame the kernel is to fill in a checksum, 0: nowhere.
const stackPending = -168

// findPending records at stackPending where the kernel is to fill in a checksum (VIRTIO_NET_HDR_F_NEEDS_CSUM), and drops the frame
// if that is in the Ethernet header. The guest chooses the place, and by the rest of the frame the value, and the kernel writes it
// after all checks. Newer kernels accept only places behind the Ethernet header; this check covers all kernels.
//
// No helper tells it, so the program reads the kernel's own struct sk_buff: ip_summed, and csum_start, which counts from the
// buffer's head.
func (s switching) findPending() asm.Instructions {
	const whole = "no checksum to come"
	f := s.skb
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regFrame),
		f.cast(),
		asm.Mov.Imm(asm.R1, 0),
		asm.LoadMem(asm.R2, asm.R0, f.summed, asm.Byte),
		asm.And.Imm(asm.R2, f.summedMask),
		asm.JNE.Imm(asm.R2, f.summedPartial, whole),
		asm.LoadMem(asm.R1, asm.R0, f.head, asm.DWord),
		asm.LoadMem(asm.R2, asm.R0, f.csumStart, asm.Half),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.R0, f.csumOffset, asm.Half),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.R0, f.data, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R2),
		asm.JSLT.Imm(asm.R1, 14, labelSpoof),
		asm.StoreMem(asm.RFP, stackPending, asm.R1, asm.DWord).WithSymbol(whole),
	}
}

// untouched drops a frame if the kernel is to fill in a checksum that begins in its first n bytes.
func untouched(what string, n int32) asm.Instructions {
	whole := what + " untouched"
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, stackPending, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, whole),
		asm.JLT.Imm(asm.R1, n, labelSpoof),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(whole),
	}
}
