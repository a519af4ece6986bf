package tap

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"sluice/internal/host/bpf"
)

// policer is the program for one direction of a tap: it drops what exceeds the limits, and redirects what the guest sends to a
// shaper if there is one. The limits are in the tap's map, so changing them needs no new program.
//
// A meter is the virtual scheduling algorithm of ITU-T I.371, equivalent to a token bucket. Its only state is the time at which
// everything let through so far would have been sent at the limit. A frame passes while that is at most the burst ahead of now. A
// meter needs no lock: each frame's cost is added atomically, so every CPU's frames are counted. CPUs that check at the same
// moment may each let a frame through, and the frames that follow pay for the excess. There are no rounding remainders to lose
// either.
type policer struct {
	dir    int
	policy *ebpf.Map   // the tap's
	local  *ebpf.Map   // MACs whose frames bypass the shaper
	port   *switchPort // nil: the tap is not a switch port
}

// Directions, as the guest sees them.
const (
	dirTx = 0
	dirRx = 1
)

// Offsets of struct __sk_buff (linux/bpf.h).
const (
	skbLen      = 0
	skbPriority = 32
	skbGSOSize  = 176
)

// vlanTag is the size of a VLAN tag, which the kernel keeps outside the frame.
const vlanTag = 4

// Stack slots of the program.
const (
	stackSegments = -8
	stackLeased   = -16
	stackShaper   = -24 // the one to redirect the frame to, 0: none
	stackHeader   = -80 // the frame's first bytes
	headerBytes   = 54  // Ethernet and IPv6
)

// Registers with a fixed use: the frame, the tap's map, the time in ticks, and the frame's bits on the wire.
const (
	regFrame = asm.R6
	regMap   = asm.R7
	regNow   = asm.R8
	regBits  = asm.R9
)

// license lets the program read the kernel's struct sk_buff, which the kernel allows under the GPL only. These programs may be used under
// it too.
const license = "GPL"

func (p policer) load() (*ebpf.Program, error) {
	insns, err := p.program()
	if err != nil {
		return nil, err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "sluice_police", Type: ebpf.SchedCLS, Instructions: insns, License: license})
	if err != nil {
		return nil, fmt.Errorf("load eBPF program: %w", err)
	}
	return prog, nil
}

func (p policer) program() (asm.Instructions, error) {
	sw := switching{dir: p.dir, port: p.port}
	insns := asm.Instructions{asm.Mov.Reg(regFrame, asm.R1)}
	if p.port != nil {
		var err error
		if sw.skb, err = kernelSkbuff(); err != nil {
			return nil, err
		}
		insns = append(insns, sw.judge()...)
	}
	insns = append(insns,
		asm.LoadMapValue(regMap, p.policy.FD(), 0),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.RFP, stackLeased, asm.R2, asm.DWord),
		asm.LoadMem(asm.R1, regMap, wordDeadline*8, asm.DWord),
		asm.JGT.Reg(asm.R0, asm.R1, "no lease"),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreMem(asm.RFP, stackLeased, asm.R2, asm.DWord),
		asm.Mov.Reg(regNow, asm.R0).WithSymbol("no lease"),
		asm.LSh.Imm(regNow, tickShift),
	)
	if p.dir == dirTx {
		insns = append(insns, p.aim()...)
	}
	insns = append(insns, measure()...)
	insns = append(insns, p.forMeters("check", p.check)...)
	if p.port != nil {
		insns = append(insns, sw.meters()...)
	}
	insns = append(insns, p.forMeters("charge", p.charge)...)
	if p.port != nil {
		insns = append(insns, sw.push()...)
	}
	if p.dir == dirTx {
		insns = append(insns, p.shape()...)
	}
	insns = append(insns,
		asm.Mov.Imm(asm.R0, bpf.TCXNext).WithSymbol("next"),
		asm.Return(),
	)
	insns = append(insns, p.drop()...)
	if p.port != nil {
		insns = append(insns, sw.drops(insns)...)
	}
	return insns, nil
}

// forMeters emits code for each meter. The leased meters (Now) are skipped when the lease is over; until then each of them
// replaces its contract meter.
func (p policer) forMeters(what string, each func(m meter, done string) asm.Instructions) (insns asm.Instructions) {
	end := what + "ed"
	for m := range meters {
		if m == nowBits {
			insns = append(insns,
				asm.LoadMem(asm.R1, asm.RFP, stackLeased, asm.DWord),
				asm.JEq.Imm(asm.R1, 0, end),
			)
		}
		done := fmt.Sprint(what, " ", m)
		if m == contractBits && p.dir == dirTx { // the shaper's class enforces the contract, and TCP runs better there
			insns = append(insns,
				asm.LoadMem(asm.R1, asm.RFP, stackShaper, asm.DWord),
				asm.JNE.Imm(asm.R1, 0, done),
			)
		}
		if now, ok := m.leased(); ok {
			holds := done + " by contract"
			insns = append(insns,
				asm.LoadMem(asm.R1, asm.RFP, stackLeased, asm.DWord),
				asm.JEq.Imm(asm.R1, 0, holds),
				asm.LoadMem(asm.R1, regMap, int16(now.word(p.dir)+meterCost)*8, asm.DWord),
				asm.JNE.Imm(asm.R1, 0, done),
				asm.Mov.Imm(asm.R0, 0).WithSymbol(holds),
			)
		}
		insns = append(insns, each(m, done)...)
		insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(done))
	}
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(end))
}

func (p policer) check(m meter, done string) asm.Instructions {
	return checkMeter(regMap, m.word(p.dir), done, "drop")
}

func (p policer) charge(m meter, done string) asm.Instructions {
	return chargeMeter(regMap, m.word(p.dir), m, done)
}

// checkMeter jumps to above if the meter is more than its burst ahead of now. The meter begins at that word of what base points
// to.
func checkMeter(base asm.Register, word int, done, above string) asm.Instructions {
	at := int16(word * 8)
	return asm.Instructions{
		asm.LoadMem(asm.R1, base, at+meterCost*8, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, done),
		asm.LoadMem(asm.R1, base, at+meterTAT*8, asm.DWord),
		asm.LoadMem(asm.R2, base, at+meterBurst*8, asm.DWord),
		asm.Add.Reg(asm.R2, regNow),
		asm.JGT.Reg(asm.R1, asm.R2, above),
	}
}

// chargeMeter adds the cost of the frame to the meter, after moving a meter that is behind up to the current time.
func chargeMeter(base asm.Register, word int, m meter, done string) asm.Instructions {
	at := int16(word * 8)
	insns := asm.Instructions{
		asm.LoadMem(asm.R3, base, at+meterCost*8, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, done),
	}
	if m.bits() {
		insns = append(insns, asm.Mul.Reg(asm.R3, regBits), asm.RSh.Imm(asm.R3, costShift))
	} else {
		insns = append(insns, asm.LoadMem(asm.R1, asm.RFP, stackSegments, asm.DWord), asm.Mul.Reg(asm.R3, asm.R1))
	}
	add := done + " add"
	return append(insns,
		asm.LoadMem(asm.R0, base, at+meterTAT*8, asm.DWord),
		asm.JGE.Reg(asm.R0, regNow, add),
		compareAndSwap(base, regNow, at+meterTAT*8), // if it fails, another CPU has done it
		asm.AddAtomic.Mem(base, asm.R3, asm.DWord, at+meterTAT*8).WithSymbol(add),
	)
}

// compareAndSwap stores src in memory if the memory equals R0. ebpf v0.22 encodes every atomic operation as an addition unless
// the constant gives the operation.
func compareAndSwap(dst, src asm.Register, offset int16) asm.Instruction {
	ins := asm.CmpXchg.Mem(dst, src, asm.DWord, offset)
	ins.Constant = int64(asm.CmpXchg >> 8)
	return ins
}

// aim decides whether the frame goes through a shaper: not if its destination is a tap of this host.
func (p policer) aim() asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackShaper, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, stackHeader, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackLeased, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "aimed"),
		asm.LoadMem(regBits, regMap, wordShaper*8, asm.DWord),
		asm.JEq.Imm(regBits, 0, "aimed"),
	}, loadBytes(0, stackHeader, 6, "aimed"), asm.Instructions{
		asm.LoadMapPtr(asm.R1, p.local.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackHeader),
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "aimed"),
		asm.StoreMem(asm.RFP, stackShaper, regBits, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("aimed"),
	})
}

// shape sets the frame's class and redirects it to the shaper, which reinjects it behind this program.
func (p policer) shape() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.RFP, stackShaper, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "next"),
		asm.LoadMem(asm.R1, regMap, wordClass*8, asm.DWord),
		asm.StoreMem(regFrame, skbPriority, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.Mov.Imm(asm.R2, 0), // egress
		asm.FnRedirect.Call(),
		asm.Return(),
	}
}

// drop counts the frame the way the tap's own counters do: one that is still to be segmented counts once.
func (p policer) drop() asm.Instructions {
	base := wordMeters + p.dir*dirWords
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 1).WithSymbol("drop"),
		asm.AddAtomic.Mem(regMap, asm.R1, asm.DWord, int16(base+wordDroppedPackets)*8),
		asm.LoadMem(asm.R1, regFrame, skbLen, asm.Word),
		asm.LoadMem(asm.R2, regFrame, bpf.SKBVLANPresent, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "dropped"),
		asm.Add.Imm(asm.R1, vlanTag),
		asm.AddAtomic.Mem(regMap, asm.R1, asm.DWord, int16(base+wordDroppedBytes)*8).WithSymbol("dropped"),
		asm.Mov.Imm(asm.R0, bpf.TCXDrop),
		asm.Return(),
	}
}
