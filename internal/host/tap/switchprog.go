package tap

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"sluice/internal/host/bpf"
	"sluice/internal/model"
)

// switching is the part of a tap's program that enforces the rules of a switch port. The rules are compiled into straight-line
// code. A rule change loads a new program, and the kernel swaps it in atomically between two frames.
type switching struct {
	dir  int
	port *switchPort
	skb  *skbuff
}

// More stack slots of the program; see policer.go for the others.
const (
	stackRule = -88 // address of the counters and meters of the frame's rule
	stackPush = -96 // VLAN tag to push onto a frame from the guest, 0: none
	stackText = -160
)

// Offsets of struct __sk_buff (linux/bpf.h).
const (
	skbVLANTCI   = 24
	skbVLANProto = 28
	skbData      = 76
	skbDataEnd   = 80
)

// Registers of this part, which ends before the parts that use them otherwise: the two parts of the MAC address that selects the
// rule (see headFirst and headLast), and the frame's VLAN.
const (
	regWord = asm.R7
	regHalf = asm.R8
	regVLAN = asm.R9
)

// badTag marks a tag that no port accepts: a double tag, a priority tag (VLAN 0), or a tag type other than 802.1Q.
const badTag = 0xffff

// tagTypes are the EtherTypes of VLAN tags: those of the IEEE and older vendor-specific ones. The kernel strips the outer tag, so
// a tag found in the frame is a second one or comes from a program on this host.
var tagTypes = []uint16{unix.ETH_P_8021Q, unix.ETH_P_8021AD, 0x9100, 0x9200, 0x9300}

const (
	labelSpoof    = "drop spoof"
	labelVLAN     = "drop vlan"
	labelRate     = "drop rate"
	labelUnknown  = "drop unknown"
	labelSwitched = "switched"
)

// ruleLabel is the label of a rule's code.
func ruleLabel(i int) string { return fmt.Sprint("rule ", i) }

// judge finds the frame's rule and drops frames that violate it. It leaves the frame unchanged, except that at the tap's egress
// it removes the tag that the guest must not see.
func (s switching) judge() asm.Instructions {
	insns := asm.Instructions{
		asm.LoadMapPtr(asm.R1, s.port.rules.FD()), // a reference to the rules map, so that portOfLink finds it by the program
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackPush, asm.R1, asm.DWord),
	}
	insns = append(insns, s.belongs(noRule)...)
	insns = append(insns, loadHeader()...)
	insns = append(insns, readTag()...)
	if s.dir == dirTx {
		insns = append(insns, s.findPending()...)
		insns = append(insns, s.bySource()...)
	} else {
		insns = append(insns, s.byDestination()...)
	}
	for i := range s.port.spec.Rules {
		insns = append(insns, s.rule(i)...)
	}
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(labelSwitched))
}

// inPlace loads the address of the frame into R1, or jumps to otherwise if its first n bytes are not in one piece of memory.
func inPlace(n int32, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, regFrame, skbData, asm.Word),
		asm.LoadMem(asm.R2, regFrame, skbDataEnd, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R1),
		asm.Add.Imm(asm.R3, n),
		asm.JGT.Reg(asm.R3, asm.R2, otherwise),
	}
}

// loadHeader copies the Ethernet header to the stack, or drops the frame if it is shorter. The header is nearly always in one
// piece, which needs no call.
func loadHeader() asm.Instructions {
	insns := append(inPlace(14, "scattered"),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
		asm.StoreMem(asm.RFP, stackHeader, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, 8, asm.Word),
		asm.StoreMem(asm.RFP, stackHeader+8, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.R1, 12, asm.Half),
		asm.StoreMem(asm.RFP, stackHeader+12, asm.R2, asm.Half),
		asm.Ja.Label("header read"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("scattered"),
	)
	insns = append(insns, loadBytes(0, stackHeader, 14, labelUnknown)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("header read"))
}

// loadBytes copies n bytes of the frame to the stack, or jumps to short if the frame has fewer.
func loadBytes(offset, to, n int32, short string) asm.Instructions {
	return append(asm.Instructions{asm.Mov.Imm(asm.R2, offset)}, loadBytesAt(to, n, short)...)
}

// loadBytesAt is loadBytes with the offset in R2.
func loadBytesAt(to, n int32, short string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, to),
		asm.Mov.Imm(asm.R4, n),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, short),
	}
}

// belongs records the frame's rule in stackRule.
func (s switching) belongs(rule int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, s.port.table.FD(), uint32(ruleWord(rule)*8)),
		asm.StoreMem(asm.RFP, stackRule, asm.R1, asm.DWord),
	}
}

// readTag loads the frame's VLAN into regVLAN; 0 means untagged.
func readTag() asm.Instructions {
	insns := asm.Instructions{
		asm.Mov.Imm(regVLAN, 0),
		asm.LoadMem(asm.R1, regFrame, bpf.SKBVLANPresent, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "type"),
		asm.LoadMem(regVLAN, regFrame, skbVLANTCI, asm.Word),
		asm.And.Imm(regVLAN, 0xfff),
		asm.JEq.Imm(regVLAN, 0, "bad tag"),
		asm.LoadMem(asm.R1, regFrame, skbVLANProto, asm.Word),
		asm.JNE.Imm(asm.R1, int32(bpf.NetworkOrder(unix.ETH_P_8021Q)), "bad tag"),
		asm.LoadMem(asm.R1, asm.RFP, stackHeader+12, asm.Half).WithSymbol("type"),
	}
	for _, t := range tagTypes {
		insns = append(insns, asm.JEq.Imm(asm.R1, int32(bpf.NetworkOrder(t)), "bad tag"))
	}
	return append(insns,
		asm.Ja.Label("tag read"),
		asm.Mov.Imm(regVLAN, badTag).WithSymbol("bad tag"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("tag read"),
	)
}

// bySource selects the rule of a frame from the guest.
func (s switching) bySource() asm.Instructions {
	insns := asm.Instructions{
		asm.LoadMem(regHalf, asm.RFP, stackHeader+6, asm.Half),
		asm.LoadMem(regWord, asm.RFP, stackHeader+8, asm.Word),
	}
	for i, r := range s.port.spec.Rules {
		insns = append(insns, matchMACs(fmt.Sprint("source ", i), r.MACs, ruleLabel(i), regWord, regHalf, headLast)...)
	}
	return append(insns, s.unlessOpen(labelSpoof))
}

// unlessOpen handles a frame whose address matches no rule: the first rule without source check takes it.
func (s switching) unlessOpen(otherwise string) asm.Instruction {
	for i, r := range s.port.spec.Rules {
		if r.NoSpoofCheck {
			return asm.Ja.Label(ruleLabel(i))
		}
	}
	return asm.Ja.Label(otherwise)
}

// byDestination selects the rule of a frame to the guest. Multicast and broadcast belong to the first rule whose VLAN matches.
// Unicast to another MAC, which the bridge floods while it does not know the port, is dropped without being counted.
func (s switching) byDestination() asm.Instructions {
	insns := asm.Instructions{
		asm.LoadMem(regWord, asm.RFP, stackHeader, asm.Word),
		asm.LoadMem(regHalf, asm.RFP, stackHeader+4, asm.Half),
		asm.LoadMem(asm.R1, asm.RFP, stackHeader, asm.Byte),
		asm.And.Imm(asm.R1, 1),
		asm.JNE.Imm(asm.R1, 0, "for all"),
	}
	for i, r := range s.port.spec.Rules {
		insns = append(insns, matchMACs(fmt.Sprint("destination ", i), r.MACs, ruleLabel(i), regWord, regHalf, headFirst)...)
	}
	insns = append(insns, s.unlessOpen(labelUnknown), asm.Mov.Imm(asm.R0, 0).WithSymbol("for all"))
	for i := range s.port.spec.Rules {
		next := fmt.Sprint("not of ", i)
		insns = append(insns, s.checkVLAN(i, next)...)
		insns = append(insns, asm.Ja.Label(ruleLabel(i)), asm.Mov.Imm(asm.R0, 0).WithSymbol(next))
	}
	return append(insns, asm.Ja.Label(labelVLAN))
}

// headFirst and headLast split an address into two loads, four bytes and then two or two and then four, depending on alignment.
func headFirst(m *model.MAC) (four, two []byte) { return m[:4], m[4:] }
func headLast(m *model.MAC) (four, two []byte)  { return m[2:], m[:2] }

// matchMACs jumps to found if the address in registers four and two is one of macs.
func matchMACs(name string, macs []model.MAC, found string, four, two asm.Register,
	split func(*model.MAC) (four, two []byte),
) (insns asm.Instructions) {
	for i := range macs {
		next := fmt.Sprint(name, " not ", i)
		w, h := split(&macs[i])
		insns = append(insns,
			asm.JNE.Imm32(four, word(w), next),
			asm.JEq.Imm32(two, int32(binary.NativeEndian.Uint16(h)), found),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(next),
		)
	}
	return insns
}

// rule checks a frame against rule i.
func (s switching) rule(i int) asm.Instructions {
	r := &s.port.spec.Rules[i]
	insns := s.belongs(i)
	insns[0] = insns[0].WithSymbol(ruleLabel(i))
	insns = append(insns, s.checkVLAN(i, labelVLAN)...)
	if s.dir == dirTx {
		if !r.NoSpoofCheck {
			insns = append(insns, asNoBridge(i)...)
		}
		insns = append(insns, speaking{i, r}.check()...)
	}
	switch {
	case r.VLAN == 0:
	case s.dir == dirTx:
		insns = append(insns, asm.Mov.Imm(asm.R1, int32(r.VLAN)), asm.StoreMem(asm.RFP, stackPush, asm.R1, asm.DWord))
	default:
		insns = append(insns, asm.Mov.Reg(asm.R1, regFrame), asm.FnSkbVlanPop.Call(), asm.JNE.Imm(asm.R0, 0, labelVLAN))
	}
	return append(insns, asm.Ja.Label(labelSwitched))
}

// groupsOfBridges are the destinations of control protocols between switches: spanning tree, pause, LACP, LLDP and VLAN
// registration (IEEE 802.1D, 802.1Q), and Cisco's spanning tree, CDP and VTP. A physical switch may shut down the host's port
// when it receives such a frame.
var groupsOfBridges = []struct {
	head       [4]byte
	first, end int32 // of the last two bytes
}{
	{[4]byte{0x01, 0x80, 0xc2, 0x00}, 0x0000, 0x0030},
	{[4]byte{0x01, 0x00, 0x0c, 0xcc}, 0xcccc, 0xccce},
}

// asNoBridge drops frames from the guest to these groups, with which it could pose as a bridge.
func asNoBridge(rule int) (insns asm.Instructions) {
	for i, g := range groupsOfBridges {
		next := fmt.Sprintf("rule %d, no group of bridges %d", rule, i)
		insns = append(insns,
			asm.LoadMem(asm.R1, asm.RFP, stackHeader, asm.Word),
			asm.JNE.Imm32(asm.R1, word(g.head[:]), next),
			asm.LoadMem(asm.R1, asm.RFP, stackHeader+4, asm.Half),
			asm.HostTo(asm.BE, asm.R1, asm.Half),
			asm.JLT.Imm(asm.R1, g.first, next),
			asm.JLT.Imm(asm.R1, g.end, labelSpoof),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(next),
		)
	}
	return insns
}

// checkVLAN jumps to otherwise if the rule does not allow the frame's tag. A guest on an access VLAN sends untagged frames.
func (s switching) checkVLAN(i int, otherwise string) asm.Instructions {
	r := &s.port.spec.Rules[i]
	if len(r.Trunk) == 0 {
		want := 0
		if s.dir == dirRx {
			want = r.VLAN
		}
		return asm.Instructions{asm.JNE.Imm(regVLAN, int32(want), otherwise)}
	}
	passes := fmt.Sprintf("%d passes or %s", i, otherwise)
	var insns asm.Instructions
	for k, v := range r.Trunk {
		next := fmt.Sprint(passes, " not ", k)
		insns = append(insns,
			asm.JLT.Imm(regVLAN, int32(v.First), next),
			asm.JLE.Imm(regVLAN, int32(v.Last), passes),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(next),
		)
	}
	return append(insns, asm.Ja.Label(otherwise), asm.Mov.Imm(asm.R0, 0).WithSymbol(passes))
}

// meters check the frame against the rates of its rule and charge it. They run after the tap's own meters have let it pass.
func (s switching) meters() asm.Instructions {
	if !slices.ContainsFunc(s.port.spec.Rules, func(r model.SwitchRule) bool {
		return [2]model.Rate{dirTx: r.Limit, dirRx: r.Receive}[s.dir] != model.Rate{}
	}) {
		return nil
	}
	insns := asm.Instructions{asm.LoadMem(asm.R5, asm.RFP, stackRule, asm.DWord)}
	kinds := []meter{contractBits, contractPackets}
	for _, m := range kinds {
		done := fmt.Sprint("rule's check ", m)
		insns = append(insns, checkMeter(asm.R5, ruleMeter(m, s.dir), done, labelRate)...)
		insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(done))
	}
	for _, m := range kinds {
		done := fmt.Sprint("rule's charge ", m)
		insns = append(insns, chargeMeter(asm.R5, ruleMeter(m, s.dir), m, done)...)
		insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol(done))
	}
	return insns
}

// push adds the tag of the guest's VLAN. It comes last, so that the meters count what the guest sent.
func (s switching) push() asm.Instructions {
	if s.dir != dirTx {
		return nil
	}
	return asm.Instructions{
		asm.LoadMem(asm.R3, asm.RFP, stackPush, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, "tagged"),
		asm.Mov.Reg(asm.R1, regFrame),
		asm.Mov.Imm(asm.R2, int32(bpf.NetworkOrder(unix.ETH_P_8021Q))),
		asm.FnSkbVlanPush.Call(),
		asm.JNE.Imm(asm.R0, 0, labelVLAN),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("tagged"),
	}
}

// drops counts dropped frames by reason. It omits reasons that no instruction jumps to, because the verifier rejects unreachable
// code.
func (s switching) drops(all asm.Instructions) (insns asm.Instructions) {
	used := map[string]bool{}
	for i := range all {
		used[all[i].Reference()] = true
	}
	for _, reason := range []struct {
		label string
		word  int
	}{{labelSpoof, wordSpoof}, {labelVLAN, wordVLAN}, {labelRate, wordRate}} {
		if !used[reason.label] {
			continue
		}
		insns = append(insns,
			asm.LoadMem(asm.R2, asm.RFP, stackRule, asm.DWord).WithSymbol(reason.label),
			asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(asm.R2, asm.R1, asm.DWord, int16(reason.word*8)),
			asm.Mov.Imm(asm.R0, bpf.TCXDrop),
			asm.Return(),
		)
	}
	return append(insns, asm.Mov.Imm(asm.R0, bpf.TCXDrop).WithSymbol(labelUnknown), asm.Return())
}
