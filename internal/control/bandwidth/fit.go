package bandwidth

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/model"
)

// Fitted is a claim, and what the host makes of it.
type Fitted struct {
	model.Claim
	VMName string // its UUID, if it is not on the host
	NIC    string // "": no running VM has it, and the claim is reserved on its PF
	Why    string // why it is refused; "": it is kept
	Remedy string
	pf     *model.PF  // of a reserved claim; nil: it is in packets alone
	room   model.Rate // that is reserved: what the VM's NICs are not guaranteed by others
}

// FittedClaims are all claims of a host, sorted by VM and NIC.
type FittedClaims []Fitted

// FitClaims decides which claims the host keeps: in order of VM and NIC each one that the other SLAs and the claims before it leave
// room for, whole or not at all. So a claim never reduces what another NIC is promised. VMs that have a VF count in packets too, because
// they may return to virtio.
func FitClaims(snap *model.Snapshot, rules *model.Rules) FittedClaims {
	if len(rules.Claims) == 0 {
		return nil
	}
	f := newFitting(snap, rules)
	list := slices.Clone(rules.Claims)
	slices.SortFunc(list, model.Claim.Compare)
	out := make(FittedClaims, 0, len(list))
	for _, c := range slices.CompactFunc(list, func(a, b model.Claim) bool { return a.Compare(b) == 0 }) {
		out = append(out, f.fit(c))
	}
	return out
}

// Rules returns rules with the claims that are kept.
func (l FittedClaims) Rules(rules *model.Rules) model.Rules {
	out := *rules
	out.Claims = nil
	for i := range l {
		if l[i].Why == "" {
			out.Claims = append(out.Claims, l[i].Claim)
		}
	}
	slices.SortFunc(out.Claims, model.Claim.Compare) // one for a whole VM has become one for its NIC
	return out
}

// asked lists what is asked for with the claims that are kept.
func (l FittedClaims) asked(snap *model.Snapshot, rules *model.Rules) []Asked {
	kept := l.Rules(rules)
	out := askedBy(snap, &kept)
	for i := range l {
		if c := &l[i]; c.Why == "" && c.NIC == "" && !c.room.IsZero() {
			out = append(out, c.reserve())
		}
	}
	return out
}

// reserve is what a claim asks for whose VM is not here.
func (c *Fitted) reserve() Asked {
	a := Asked{ID: model.NICID{VM: c.VM, NIC: c.MAC.String()}, VMName: c.VMName, SLA: c.SLA()}
	a.SLA.Guarantee = c.room
	if c.pf != nil {
		a.PF, a.Speed = c.pf.Name, c.pf.Shared()
	}
	return a
}

// problems lists the claims that are refused.
func (l FittedClaims) problems() (out []model.Problem) {
	for i := range l {
		if c := &l[i]; c.Why != "" {
			of := c.MAC.String() + " of " + c.VMName
			if c.MAC.IsZero() {
				of = c.VMName
			}
			text := fmt.Sprintf("the claim of %s for %s is refused: %s", c.Guarantee, of, c.Why)
			out = append(out, model.Problem{Subject: c.VMName, Text: text, Remedy: c.Remedy})
		}
	}
	return out
}

// fitting is what has been promised so far.
type fitting struct {
	snap    *model.Snapshot
	local   model.Rules // without claims
	links   map[string]uint64
	packets uint64
	vms     map[model.VMID]uint64 // packets/s of each VM
	nics    map[nicKey][]nicHere
	named   map[nicKey]bool        // have a claim of their own, or of their whole VM that has been decided on
	spent   map[model.NICID]uint64 // of what NICs are guaranteed without claims, bits/s that count for a claim already
}

type nicKey struct {
	vm  model.VMID
	mac model.MAC
}

type nicHere struct {
	vm    *model.VM
	nic   *model.NIC
	asked Asked // without the claim
}

func (n *nicHere) id() model.NICID { return model.NICID{VM: n.vm.ID, NIC: n.nic.Alias} }

// bits is what the NIC is guaranteed without the claim, as far as its link carries it.
func (n *nicHere) bits() uint64 { return n.asked.most().Capped(model.Rate{Bits: n.asked.Speed}).Bits }

// unspent is what a NIC is guaranteed without claims, and no claim has counted yet.
type unspent struct {
	id   model.NICID
	pf   string
	bits uint64
}

func newFitting(snap *model.Snapshot, rules *model.Rules) *fitting {
	f := &fitting{
		snap: snap, local: *rules, links: map[string]uint64{}, vms: map[model.VMID]uint64{}, nics: map[nicKey][]nicHere{},
		named: map[nicKey]bool{}, spent: map[model.NICID]uint64{},
	}
	for i := range rules.Claims {
		f.named[nicKey{rules.Claims[i].VM, rules.Claims[i].MAC}] = true
	}
	f.local.Claims = nil
	asked := askedBy(snap, &f.local)
	all := ClaimsOf(asked)
	f.links, f.packets = all.Links, all.Packets
	byID := map[model.NICID]*Asked{}
	for i := range asked {
		if a := &asked[i]; !a.inside() {
			f.vms[a.ID.VM] = max(f.vms[a.ID.VM], a.most().Packets)
			byID[a.ID] = a
		}
	}
	for vm, nic := range snap.NICs() {
		if vm.State == model.VMStopped {
			continue
		}
		here := nicHere{vm: vm, nic: nic}
		if a := byID[model.NICID{VM: vm.ID, NIC: nic.Alias}]; a != nil {
			here.asked = *a
		}
		key := nicKey{vm.ID, nic.MAC}
		f.nics[key] = append(f.nics[key], here)
	}
	for i := range rules.Claims {
		c := &rules.Claims[i]
		if here := f.nics[nicKey{c.VM, c.MAC}]; len(here) == 1 {
			f.spend(c, &here[0])
		}
	}
	return f
}

// spend counts what a NIC is guaranteed for its claim. Where the claim sets the guarantee, nothing of it is left for another.
func (f *fitting) spend(c *model.Claim, n *nicHere) {
	f.spent[n.id()] = n.bits()
	if f.with(c, n).Guarantee == n.asked.SLA.Guarantee {
		f.spent[n.id()] = min(n.bits(), c.Guarantee.Bits)
	}
}

// with is the SLA of a NIC that has that claim.
func (f *fitting) with(c *model.Claim, n *nicHere) model.SLA {
	with := f.local
	with.Claims = []model.Claim{*c}
	return with.SLA(n.vm, n.nic)
}

const moveAway = "lower another guarantee on this host, or let the VM go elsewhere: `sluice fleet release`, then `sluice fleet place`"

// fit decides about one claim, and counts it if it is kept.
func (f *fitting) fit(c model.Claim) Fitted {
	out := Fitted{Claim: c, VMName: string(c.VM)}
	if vm := f.snap.FindVM(c.VM); vm != nil {
		out.VMName = vm.Name
	}
	var own []unspent
	if c.MAC.IsZero() {
		out.MAC, own = f.whole(&c)
	}
	here := f.nics[nicKey{c.VM, out.MAC}]
	switch {
	case out.MAC.IsZero() || len(here) == 0:
		f.reserve(&out, own)
	case len(here) > 1:
		out.Why, out.Remedy = "the VM has several NICs with that address", "give each its own"
	default:
		f.fitHere(&out, &here[0])
		if out.Why != "" && c.MAC.IsZero() { // what the NIC cannot have is kept for the VM nevertheless, if there is room
			out = Fitted{Claim: c, VMName: out.VMName}
			f.reserve(&out, own)
		} else if out.Why == "" {
			f.spend(&out.Claim, &here[0])
		}
	}
	return out
}

// whole returns the NIC that a claim for a whole VM is for: the only one behind the PF, or another PF of its network; if it is in packets
// alone, which all NICs of a VM share, the first. If there is none or several, it is zero, and own is what these are guaranteed without
// claims and no other claim has counted.
func (f *fitting) whole(c *model.Claim) (mac model.MAC, own []unspent) {
	vm := f.snap.FindVM(c.VM)
	if vm == nil {
		return mac, nil
	}
	found := 0
	for i := range vm.NICs {
		nic := &vm.NICs[i]
		here := f.nics[nicKey{c.VM, nic.MAC}]
		if len(here) == 0 || c.PF != "" && !f.behind(nic, c.PF) {
			continue
		}
		for k := range here {
			if n := &here[k]; n.nic == nic && n.bits() > f.spent[n.id()] {
				own = append(own, unspent{n.id(), n.asked.PF, n.bits() - f.spent[n.id()]})
			}
		}
		if found++; found == 1 && len(here) == 1 && nic.VirtualPF == "" && !f.named[nicKey{c.VM, nic.MAC}] {
			mac = nic.MAC
		}
	}
	if found > 1 && c.PF != "" {
		return model.MAC{}, own
	}
	f.named[nicKey{c.VM, mac}] = true
	return mac, own
}

// fitHere decides about the claim of a NIC that is here. Where a more specific source sets the guarantee, the claim sets nothing.
func (f *fitting) fitHere(c *Fitted, n *nicHere) {
	c.NIC = n.nic.Alias
	c.Why, c.Remedy = f.give(n, f.with(&c.Claim, n), moveAway)
}

// give counts what an SLA guarantees to a NIC that is here, or says why not, and what helps: away, if others have the room.
func (f *fitting) give(n *nicHere, sla model.SLA, away string) (why, remedy string) {
	before, g := n.asked, sla.Guarantee
	switch {
	case n.nic.VirtualPF != "":
		return "the NIC belongs to a virtual PF", "set the SLA of the virtual PF: `sluice sla set`"
	case g == before.SLA.Guarantee:
		return "", ""
	case g.Exceeds(sla.Limit):
		return fmt.Sprintf("the NIC's limit is %s", sla.Limit), "raise the limit where it comes from: " + cmp.Or(sla.Source, "not known")
	case g.Bits > 0 && before.PF == "":
		return "no PF connects the NIC's network",
			"put a PF, or the bond of one, into its bridge, or name the bridge as pfs[].network in sluice.yaml"
	}
	if why := f.take(n.vm.ID, before.PF, before.Speed, n.bits(), g); why != "" {
		return why, away
	}
	return "", ""
}

// behind reports whether a NIC shares the link of a PF, or of another one of the same network.
func (f *fitting) behind(nic *model.NIC, address model.PCIAddress) bool {
	pf := pfOf(f.snap, nic)
	return pf != nil && (pf.Address == address || slices.ContainsFunc(f.snap.PFs, func(o model.PF) bool {
		return o.Address == address && o.Network != "" && o.Network == pf.Network
	}))
}

// reserve decides about a claim that is for no NIC that is here: its VM is not here or does not run, or has several NICs behind the PF. Of
// these the last have own without the claim, which counts for one claim only.
func (f *fitting) reserve(c *Fitted, own []unspent) {
	c.room = c.Guarantee
	name, speed := "", uint64(0) // of a claim in packets alone
	if at := slices.IndexFunc(f.snap.PFs, func(pf model.PF) bool { return pf.Address == c.PF }); at >= 0 {
		c.pf = &f.snap.PFs[at]
		name, speed = c.pf.Name, c.pf.Shared()
	} else if c.PF != "" {
		c.Why, c.Remedy = fmt.Sprintf("this host has no PF %s", c.PF), moveAway
		return
	}
	here := uint64(0) // of own, on this link
	for i := range own {
		p := &own[i]
		if p.pf != name && f.over(p.pf) {
			p.bits = 0 // it is not kept
		}
		p.bits = min(p.bits, c.room.Bits)
		c.room.Bits -= p.bits
		if p.pf == name {
			here += p.bits
		}
	}
	if c.Why = f.take(c.VM, name, speed, here, model.Rate{Bits: here + c.room.Bits, Packets: c.room.Packets}); c.Why != "" {
		c.Remedy = moveAway
		return
	}
	for _, p := range own {
		f.spent[p.id] += p.bits
	}
}

// over reports whether more is guaranteed on a link than it carries.
func (f *fitting) over(name string) bool {
	pf := f.snap.FindPF(name)
	return pf != nil && pf.Shared() > 0 && f.links[name] > pf.Shared()
}

// take counts a guarantee of a VM that replaces one of old bits/s, or says why there is no room for it.
func (f *fitting) take(vm model.VMID, pf string, speed, old uint64, g model.Rate) (why string) {
	bits := f.links[pf] - min(old, f.links[pf]) + g.Bits
	packets := f.packets
	most := max(f.vms[vm], g.Packets)
	packets += most - f.vms[vm]
	switch {
	case g.Bits > 0 && speed > 0 && bits > speed:
		return fmt.Sprintf("%s carries %s, of which others are guaranteed %s", pf, model.Rate{Bits: speed}, model.Rate{Bits: bits - g.Bits})
	case g.Packets > 0 && f.local.HostPackets > 0 && packets > f.local.HostPackets:
		return fmt.Sprintf("the host carries %s on virtio, of which others are guaranteed %s",
			model.Rate{Packets: f.local.HostPackets}, model.Rate{Packets: f.packets - f.vms[vm]})
	}
	f.links[pf], f.packets, f.vms[vm] = bits, packets, most
	return ""
}
