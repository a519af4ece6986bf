package mirror

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// mirror copies frames for one MAC that the bridge sends out of a tap to a PF, whose filter for the VF receives them, or to
// the VF's representor. It omits frames that came in through the PF, because the NIC has already delivered them to the VF and they
// would loop, and those that the VF sent. It also omits broadcasts, because the bridge floods them to both.
type mirror struct {
	tap, out int // ifindexes
	port     int // ifindex of the bridge port that leads to the PF: the PF, or its bond
	mac      model.MAC
	vlan     int  // tag for the copy, 0: none
	redirect bool // frames go there instead of being copied
	all      bool // frames for every MAC
	ingress  bool // frames that come in by the interface tap, and the copies come in by out
}

func (m mirror) load() (*ebpf.Program, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "sluice_mirror",
		Type:         ebpf.SchedCLS,
		Instructions: m.program(),
	})
	if err != nil {
		return nil, fmt.Errorf("load eBPF program: %w", err)
	}
	return prog, nil
}

// attach attaches the program to the tap's egress or ingress. Unless the link is pinned, the kernel removes it with its last reference.
func (m mirror) attach(prog *ebpf.Program) (link.Link, error) {
	at := ebpf.AttachTCXEgress
	if m.ingress {
		at = ebpf.AttachTCXIngress
	}
	return bpf.AttachTCX(link.TCXOptions{Interface: m.tap, Program: prog, Attach: at})
}

// program builds the eBPF program.
func (m mirror) program() asm.Instructions {
	hi := int64(binary.BigEndian.Uint32(m.mac[:4]))
	lo := int64(binary.BigEndian.Uint16(m.mac[4:]))
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		// Received through the PF, or from the VF? For a PF in a bond the kernel reports the bond.
		asm.LoadMem(asm.R2, asm.R6, bpf.SKBIngressIfindex, asm.Word),
		asm.JEq.Imm(asm.R2, int32(m.out), "next"),
		asm.JEq.Imm(asm.R2, int32(m.port), "next"),
	}
	if !m.all {
		insns = append(insns,
			// For another MAC? (Absolute loads are in host order and use the context in R6.)
			asm.LoadAbs(0, asm.Word),
			asm.LoadImm(asm.R2, hi, asm.DWord),
			asm.JNE.Reg(asm.R0, asm.R2, "next"),
			asm.LoadAbs(4, asm.Half),
			asm.JNE.Imm(asm.R0, int32(lo), "next"),
		)
	}
	switch {
	case m.redirect:
		insns = append(insns, m.send()...)
	case m.vlan == 0:
		insns = append(insns, m.clone("")...)
	default:
		insns = append(insns, m.tagAndClone()...)
	}
	return append(insns,
		asm.Mov.Imm(asm.R0, bpf.TCXNext).WithSymbol("next"),
		asm.Return(),
	)
}

// clone sends a copy out of the PF. A failure does not affect the original.
func (m mirror) clone(label string) asm.Instructions {
	flags := int32(0) // egress
	if m.ingress {
		flags = unix.BPF_F_INGRESS
	}
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(label),
		asm.Mov.Imm(asm.R2, int32(m.out)),
		asm.Mov.Imm(asm.R3, flags),
		asm.FnCloneRedirect.Call(),
	}
}

// send sends the frame itself out of the PF, with the VF's VLAN tag unless it has one already.
func (m mirror) send() (insns asm.Instructions) {
	if m.vlan != 0 {
		insns = asm.Instructions{
			asm.LoadMem(asm.R7, asm.R6, bpf.SKBVLANPresent, asm.Word),
			asm.JNE.Imm(asm.R7, 0, "send"),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, int32(bpf.NetworkOrder(unix.ETH_P_8021Q))),
			asm.Mov.Imm(asm.R3, int32(m.vlan)),
			asm.FnSkbVlanPush.Call(),
		}
	}
	return append(insns,
		asm.Mov.Imm(asm.R1, int32(m.out)).WithSymbol("send"),
		asm.Mov.Imm(asm.R2, 0), // egress
		asm.FnRedirect.Call(),
		asm.Return(),
	)
}

// tagAndClone adds the VF's VLAN tag to the frame while it is copied. A frame that already has a tag is copied unchanged.
func (m mirror) tagAndClone() asm.Instructions {
	insns := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R6, bpf.SKBVLANPresent, asm.Word),
		asm.JNE.Imm(asm.R7, 0, "clone"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, int32(bpf.NetworkOrder(unix.ETH_P_8021Q))),
		asm.Mov.Imm(asm.R3, int32(m.vlan)),
		asm.FnSkbVlanPush.Call(),
	}
	insns = append(insns, m.clone("clone")...)
	return append(insns,
		asm.JNE.Imm(asm.R7, 0, "next"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSkbVlanPop.Call(),
	)
}
