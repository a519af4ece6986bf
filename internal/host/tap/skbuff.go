package tap

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"sluice/internal/model"
)

// skbuff says where the running kernel keeps some fields of its struct sk_buff: offsets in bytes.
type skbuff struct {
	castID btf.TypeID // of bpf_cast_to_kern_ctx

	head, data, csumStart, csumOffset, summed int16

	summedMask, summedPartial int32 // of ip_summed within its byte: all values, and CHECKSUM_PARTIAL
}

// checksumPartial is CHECKSUM_PARTIAL of linux/skbuff.h.
const checksumPartial = 3

// kernelSkbuff reads the kernel's type information (BTF) once.
var kernelSkbuff = sync.OnceValues(func() (*skbuff, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("%w: a switch port needs the kernel's type information, /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): %w",
			model.ErrPermanent, err)
	}
	f, err := findSkbuff(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: type information of this kernel: %w", model.ErrPermanent, err)
	}
	return f, nil
})

func findSkbuff(spec *btf.Spec) (*skbuff, error) {
	var cast *btf.Func
	if err := spec.TypeByName("bpf_cast_to_kern_ctx", &cast); err != nil {
		return nil, err
	}
	id, err := spec.TypeID(cast)
	if err != nil {
		return nil, err
	}
	var frame *btf.Struct
	if err := spec.TypeByName("sk_buff", &frame); err != nil {
		return nil, err
	}
	f := &skbuff{castID: id}
	for name, at := range map[string]*int16{
		"head": &f.head, "data": &f.data, "csum_start": &f.csumStart, "csum_offset": &f.csumOffset, "ip_summed": &f.summed,
	} {
		m, bits, ok := member(frame.Members, name)
		if !ok {
			return nil, fmt.Errorf("struct sk_buff has no %s", name)
		}
		*at = int16(bits / 8) //nolint:gosec // the structure has a few hundred bytes
		if name == "ip_summed" {
			f.summedMask = (1<<m.BitfieldSize - 1) << (bits % 8)
			f.summedPartial = checksumPartial << (bits % 8)
		}
	}
	return f, nil
}

// member finds a member by name, in anonymous structures and unions too, and its offset in bits.
func member(members []btf.Member, name string) (found btf.Member, offset btf.Bits, ok bool) {
	for _, m := range members {
		if m.Name == name {
			return m, m.Offset, true
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if found, offset, ok := member(inner, name); ok {
			return found, m.Offset + offset, true
		}
	}
	return btf.Member{}, 0, false
}

// cast turns the program's context in R1 into a pointer in R0 to the struct sk_buff behind it, which can be read.
func (f *skbuff) cast() asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(f.castID)}
}
