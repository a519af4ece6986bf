package bandwidth

import (
	"cmp"
	"fmt"
	"maps"
	mathbits "math/bits"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/model"
)

// Asked is what the SLA of a NIC asks for, and of which link.
type Asked struct {
	ID     model.NICID
	VMName string
	PF     string // whose link it shares; "": unknown
	Speed  uint64 // of that link, bits/s; 0: unknown
	OnVF   bool   // its guest sends through a VF: its packets do not load the host
	SLA    model.SLA
	// A virtual PF asks for all of its functions in an Asked of its own, which follows those of its VM's NICs and has the ID of
	// the PF's own NIC (Whole is set). Its functions, that NIC included, ask inside it.
	VirtualPF string
	Whole     bool
	Wrong     []model.Problem // of the rules from which the SLA comes
}

// Over is a link, or the host, on which more is asked for than it has.
type Over struct {
	PF    string // "": the packets/s that the host carries on virtio; "VM/name": a virtual PF
	Asked uint64 // bits/s, or packets/s
	Have  uint64
	Text  string // the sum, and who gets less
}

// Admission is the result of admission control: what can be promised of all guarantees.
type Admission struct {
	Promised []model.Rate // of each Asked; packets/s are those of its VM. Of a function: inside what its virtual PF is promised
	Over     []Over       // by PF, then the host, then virtual PFs
	Problems []model.Problem
}

// AskedOf lists what the NICs of a Snapshot ask for, in its order; those of a VM's virtual PFs follow the VM's NICs. All VMs
// count that are not stopped: a paused or migrating VM may continue at any moment. Of ports and claims
// those count that FitPorts and FitClaims keep; claims whose VMs are not here ask last.
func AskedOf(snap *model.Snapshot, rules *model.Rules) []Asked {
	_, claims, kept := Fit(snap, rules)
	return claims.asked(snap, &kept)
}

// Fit decides which guarantees of ports, and then which claims the host keeps. kept are the rules with those ports alone.
func Fit(snap *model.Snapshot, rules *model.Rules) (ports FittedPorts, claims FittedClaims, kept model.Rules) {
	ports = FitPorts(snap, rules)
	kept = ports.Rules(rules)
	return ports, FitClaims(snap, &kept), kept
}

// askedBy lists what the NICs that are here ask for.
func askedBy(snap *model.Snapshot, rules *model.Rules) []Asked {
	out := make([]Asked, 0, len(snap.VMs))
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		if vm.State == model.VMStopped {
			continue
		}
		for k := range vm.NICs {
			nic := &vm.NICs[k]
			a := Asked{ID: model.NICID{VM: vm.ID, NIC: nic.Alias}, VMName: vm.Name, VirtualPF: nic.VirtualPF}
			if nic.VirtualPF != "" {
				a.SLA, a.Wrong = insideSLA(rules, vm, nic)
			} else {
				a.SLA = rules.SLA(vm, nic)
				a.Wrong = wrongRules(rules, vm, nic, a.SLA.Class)
			}
			if pf := pfOf(snap, nic); pf != nil {
				a.PF, a.Speed = pf.Name, pf.Shared()
			}
			if vf := snap.FindVF(nic.VF); nic.VF != model.NoVF {
				a.OnVF = vf == nil || vf.InGuest != model.No
			}
			out = append(out, a)
		}
		out = askedTogether(out, len(out)-len(vm.NICs), rules, vm)
	}
	return out
}

// Admit adds up what is asked for on each link, and in packets/s on the host, and decides what is promised: all of it if there
// is enough, otherwise guarantees of lower classes are reduced first, within a class in proportion. A guarantee counts only as
// far as its NIC's limit and link allow it. A link of unknown speed is treated as unlimited, as are packets if hostPackets is
// 0.
func Admit(asked []Asked, hostPackets uint64) Admission {
	out := Admission{Promised: make([]model.Rate, len(asked))}
	for i := range asked {
		a := &asked[i]
		out.Promised[i] = a.most()
		out.Problems = append(append(out.Problems, a.Wrong...), a.problems()...)
	}
	links := linkClaims(asked)
	packets, vms := packetClaims(asked, func(a *Asked) bool { return !a.OnVF })
	for _, pf := range slices.Sorted(maps.Keys(links)) {
		for k, kept := range out.divide(linkSupply(pf, links[pf][0].asked.Speed), links[pf]) {
			out.Promised[links[pf][k].place].Bits = kept
		}
	}
	kept := out.divide(hostSupply(hostPackets), packets)
	for i := range asked {
		if at, ok := vms[asked[i].ID.VM]; ok && out.Promised[i].Packets > 0 && !asked[i].inside() {
			out.Promised[i].Packets = kept[at]
		}
	}
	out.admitInside(asked)
	out.packetLimits(asked, hostPackets)
	return out
}

// most is what a NIC asks for, capped by its limit.
func (a *Asked) most() model.Rate { return a.SLA.Guarantee.Capped(a.SLA.Limit) }

// linkClaims lists what is asked of each link in bits/s, by PF.
func linkClaims(asked []Asked) map[string][]claim {
	links := map[string][]claim{}
	for i := range asked {
		if a := &asked[i]; !a.inside() && a.PF != "" && a.most().Bits > 0 {
			links[a.PF] = append(links[a.PF], claim{a, i, a.most().Capped(model.Rate{Bits: a.Speed}).Bits})
		}
	}
	return links
}

// packetClaims lists what is asked of the host in packets/s by NICs that count: one claim for each VM, whose NICs share it. vms has the
// index of each VM's.
func packetClaims(asked []Asked, counts func(*Asked) bool) (list []claim, vms map[model.VMID]int) {
	vms = map[model.VMID]int{}
	for i := range asked {
		a := &asked[i]
		if a.inside() {
			continue
		}
		if at, ok := vms[a.ID.VM]; ok {
			list[at].most = max(list[at].most, a.most().Packets)
		} else if a.most().Packets > 0 && counts(a) {
			vms[a.ID.VM] = len(list)
			list = append(list, claim{a, i, a.most().Packets})
		}
	}
	return list, vms
}

// claim is what one NIC, or VM, asks of one supply.
type claim struct {
	asked *Asked
	place int
	most  uint64 // what it asks for, capped by what it could have at all
}

// supply is a resource on which claims are made.
type supply struct {
	name  string // "": the host's packets
	have  uint64 // bits/s or packets/s; 0: unlimited
	where string // follows "more is guaranteed": "on pf0 "
	here  string // the same if the subject is already named: "", or "inside it "
	less  string // what the guarantees exceed
	what  string // what has it
	unit  string
	scale float64 // of the unit
	who   func(*Asked) string

	inside bool // a virtual PF
}

func linkSupply(pf string, speed uint64) supply {
	unit, scale := scaleOf(speed)
	return supply{
		name: pf, have: speed, where: "on " + pf + " ", less: "than its link carries", what: "link", unit: unit, scale: scale, who: vmOf,
	}
}

func hostSupply(packets uint64) supply {
	return supply{
		have: packets, less: "in packets on virtio than the host carries", what: "host", unit: "kpps", scale: 1e3, who: vmOf,
	}
}

func vmOf(a *Asked) string { return a.VMName }

// divide returns what each claim gets.
func (out *Admission) divide(from supply, list []claim) []uint64 {
	have := from.have
	kept, order := make([]uint64, len(list)), make([]int, len(list))
	sum := uint64(0)
	for i := range list {
		kept[i], order[i] = list[i].most, i
		sum += list[i].most
	}
	if have == 0 || sum <= have {
		return kept
	}
	priority := func(i int) int { return list[i].asked.SLA.Priority }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(priority(b), priority(a)) })
	left := have
	for len(order) > 0 {
		end := slices.IndexFunc(order, func(i int) bool { return priority(i) != priority(order[0]) })
		if end < 0 {
			end = len(order)
		}
		class := uint64(0)
		for _, i := range order[:end] {
			class += kept[i]
		}
		part := min(left, class)
		for _, i := range order[:end] {
			kept[i] = portion(kept[i], part, class)
		}
		left -= part
		order = order[end:]
	}
	what, remedy := from.over(list, kept)
	out.Over = append(out.Over, Over{from.name, sum, have, "more is guaranteed " + from.where + what})
	out.Problems = append(out.Problems, model.Problem{Subject: from.name, Text: "more is guaranteed " + from.here + what, Remedy: remedy})
	return kept
}

// portion is x * part / whole, rounded down.
func portion(x, part, whole uint64) uint64 {
	hi, lo := mathbits.Mul64(x, part)
	q, _ := mathbits.Div64(hi, lo, whole)
	return q
}

// named is the maximum number of NICs or VMs that a Problem names.
const named = 5

// over describes with all figures what the guarantees exceed and the consequence, and the remedy.
func (s *supply) over(list []claim, kept []uint64) (what, remedy string) {
	var less []string
	for i := range list {
		if kept[i] < list[i].most {
			less = append(less, fmt.Sprintf("%s keeps %s of %s %s", s.who(list[i].asked),
				strconv.FormatFloat(float64(kept[i])/s.scale, 'f', 3, 64), s.number(list[i].most), s.unit))
		}
	}
	return fmt.Sprintf("%s: asked %s; %s", s.less, s.sum(list), few(less, ", ")), "lower a guarantee where it comes from: " + s.places(list)
}

func (s *supply) number(x uint64) string { return strconv.FormatFloat(float64(x)/s.scale, 'f', -1, 64) }

// sum is what is claimed, added up, and what there is.
func (s *supply) sum(list []claim) string {
	var terms []string
	for i := range list {
		terms = append(terms, s.number(list[i].most))
	}
	return fmt.Sprintf("%s %s, %s %s %s", few(terms, " + "), s.unit, s.what, s.number(s.have), s.unit)
}

// places says where the claims come from, and how to change them there.
func (s *supply) places(list []claim) string {
	var places []string
	for i := range list {
		places = append(places, fmt.Sprintf("%s: %s", s.who(list[i].asked), cmp.Or(list[i].asked.SLA.Source, "not known")))
	}
	return few(places, "; ") + s.howTo(list)
}

// howTo describes how to change the SLA sources that their name alone does not explain.
func (s *supply) howTo(list []claim) string {
	from := func(part string) bool {
		return slices.ContainsFunc(list, func(c claim) bool { return strings.Contains(c.asked.SLA.Source, part) })
	}
	var ways []string
	if s.inside {
		ways = append(ways, "a function's: `sluice vpf set`")
	}
	if from("sluice sla set") {
		ways = append(ways, "set at run time: `sluice sla set VM` or `sluice sla clear VM`")
	}
	if from("Neutron") {
		ways = append(ways, "a port of Neutron: change its QoS policy, or above it `sluice sla set VM`")
	}
	if from("metadata") {
		ways = append(ways, "metadata: replace it by `virsh metadata VM --uri urn:sluice:sla:1 --key sluice --live --config --set "+
			"'<sla guarantee=\"1Gbit\"/>'`, or above it `sluice sla set VM`")
	}
	if from(".yaml") {
		ways = append(ways, "a file: change it, then `sluice reload`")
	}
	if len(ways) == 0 {
		return ""
	}
	return " (" + strings.Join(ways, "; ") + ")"
}

// few joins the first elements of a list and adds how many more there are.
func few(list []string, between string) string {
	if len(list) <= named {
		return strings.Join(list, between)
	}
	return strings.Join(list[:named], between) + fmt.Sprintf("%s%d more", between, len(list)-named)
}

// scaleOf is the customary unit for a link of that speed.
func scaleOf(have uint64) (string, float64) {
	if have >= 1e9 {
		return "Gbit/s", 1e9
	}
	return "Mbit/s", 1e6
}

// problems lists what is wrong with one NIC's SLA by itself.
func (a *Asked) problems() (list []model.Problem) {
	g, l := a.SLA.Guarantee, a.SLA.Limit
	report := func(text, remedy string) {
		list = append(list, model.Problem{Subject: a.VMName, Text: "NIC " + a.ID.NIC + " of " + a.VMName + ": " + text + " (" +
			cmp.Or(a.SLA.Source, "not known") + ")", Remedy: remedy})
	}
	if g.Exceeds(l) {
		report(fmt.Sprintf("its guarantee of %s is above its limit of %s, and the limit applies", g, l), "lower the guarantee or raise the limit")
	}
	switch {
	case g.Bits == 0 || a.inside():
	case a.PF == "":
		report(fmt.Sprintf("it is guaranteed %s, but no PF connects its network: nothing keeps others from using that bandwidth", g),
			"put a PF, or the bond of one, into its bridge")
		list[len(list)-1].Info = true
	case a.Speed > 0 && g.Bits > a.Speed:
		report(fmt.Sprintf("it is guaranteed %s, but the link of %s carries %s", model.Rate{Bits: g.Bits}, a.PF, model.Rate{Bits: a.Speed}),
			"lower the guarantee")
	}
	return list
}

// Worse describes what is newly oversubscribed, or more than before; "" if nothing is.
func (out *Admission) Worse(before *Admission) string {
	for _, o := range out.Over {
		if !slices.ContainsFunc(before.Over, func(b Over) bool { return b.PF == o.PF && b.Asked >= o.Asked }) {
			return o.Text
		}
	}
	return ""
}
