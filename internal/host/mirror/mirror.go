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

// mirror sends a copy of what the bridge sends out of a tap to one MAC out of a PF too,
// where the VF's filter takes it. What came in through the PF is left out: the NIC has
// given that to the VF already, and it would go round. Broadcasts are left out as well,
// since the bridge sends them out of both by itself.
type mirror struct {
	tap, pf int // ifindexes
	port    int // ifindex of the bridge's port that leads to the PF: of the PF, or of its bond
	mac     model.MAC
	vlan    int // tag for the copy, 0: none
}

// load loads the program.
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

// attach attaches the program to the tap's egress. Unless it is pinned, the kernel removes
// it with the last reference to the link.
func (m mirror) attach(prog *ebpf.Program) (link.Link, error) {
	return bpf.AttachTCX(link.TCXOptions{Interface: m.tap, Program: prog, Attach: ebpf.AttachTCXEgress})
}

// program builds the eBPF program.
func (m mirror) program() asm.Instructions {
	hi := int64(binary.BigEndian.Uint32(m.mac[:4]))
	lo := int64(binary.BigEndian.Uint16(m.mac[4:]))
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		// Came in through the PF? The kernel names the bond of a PF that is in one.
		asm.LoadMem(asm.R2, asm.R6, bpf.SKBIngressIfindex, asm.Word),
		asm.JEq.Imm(asm.R2, int32(m.pf), "next"),
		asm.JEq.Imm(asm.R2, int32(m.port), "next"),
		// To somebody else? (Absolute loads are in host order, and take the context from R6.)
		asm.LoadAbs(0, asm.Word),
		asm.LoadImm(asm.R2, hi, asm.DWord),
		asm.JNE.Reg(asm.R0, asm.R2, "next"),
		asm.LoadAbs(4, asm.Half),
		asm.JNE.Imm(asm.R0, int32(lo), "next"),
	}
	if m.vlan == 0 {
		insns = append(insns, m.clone("")...)
	} else {
		insns = append(insns, m.tagAndClone()...)
	}
	return append(insns,
		asm.Mov.Imm(asm.R0, bpf.TCXNext).WithSymbol("next"),
		asm.Return(),
	)
}

// clone sends a copy out of the PF. If that fails the original is none the worse.
func (m mirror) clone(label string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(label),
		asm.Mov.Imm(asm.R2, int32(m.pf)),
		asm.Mov.Imm(asm.R3, 0), // egress
		asm.FnCloneRedirect.Call(),
	}
}

// tagAndClone gives the frame the VF's VLAN tag for as long as it is copied. One that has
// a tag leaves as it is.
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
