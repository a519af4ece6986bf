package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// world is everything that was read, before it is combined.
type world struct {
	now      time.Time
	inv      *inventory
	open     map[model.PCIAddress]model.Tri // for each VF that a domain holds: whether the guest uses it
	domains  []libvirt.Domain
	pool     Pool
	failover func(name string, id model.VMID) model.Failover
	aside    func(*model.VF) string // see Options.SetAside
	measured func(*model.PF)
}

// joiner holds the lookup tables of a join. They are reused by the next one.
type joiner struct {
	uplinks Uplinks
	links   uplink.Links
	holders map[model.PCIAddress]holder
	nics    map[model.MAC]bool
}

func newJoiner(up Uplinks) *joiner {
	return &joiner{
		uplinks: up,
		holders: map[model.PCIAddress]holder{},
		nics:    map[model.MAC]bool{},
	}
}

// index fills the lookup tables.
func (j *joiner) index(links []netdev.Link, domains []libvirt.Domain) {
	j.links.Index(links)
	clear(j.holders)
	for i := range domains {
		for k := range domains[i].Hostdevs {
			h := &domains[i].Hostdevs[k]
			j.holders[h.Address] = holder{i, h}
		}
	}
}

// join makes a Snapshot without rates. It takes ownership of the domains' slices.
func (j *joiner) join(w world) *model.Snapshot {
	s := &model.Snapshot{Time: w.now, VMs: make([]model.VM, len(w.domains))}
	for i := range w.domains {
		s.VMs[i] = w.domains[i].VM
		j.vm(&s.VMs[i], w)
	}
	s.PFs = make([]model.PF, len(w.inv.pfs))
	for i := range w.inv.pfs {
		s.PFs[i] = w.inv.pfs[i].PF
		j.pf(&s.PFs[i], w.inv.pfs[i].Uses, s.VMs, w)
	}
	slices.SortFunc(s.PFs, func(a, b model.PF) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.VMs, func(a, b model.VM) int { return cmp.Compare(a.ID, b.ID) })
	j.strays(s, w.inv)
	return s
}

// strays adds the routes to VFs of managed PFs, and others that only Sluice makes, whose MAC belongs to no NIC.
func (j *joiner) strays(s *model.Snapshot, inv *inventory) {
	clear(j.nics)
	for _, n := range s.NICs() {
		j.nics[n.MAC] = true // in any network: a NIC whose network is not known yet may be in this one
	}
	for at, routes := range inv.routes {
		if j.nics[at.mac] {
			continue
		}
		for _, r := range routes {
			if pf := s.FindPort(r.Port); r.Kind != "" || pf != nil && pf.Managed {
				s.Routes = append(s.Routes, r)
			}
		}
	}
	slices.SortFunc(s.Routes, func(a, b model.Route) int {
		return cmp.Or(slices.Compare(a.MAC[:], b.MAC[:]), cmp.Compare(a.Network, b.Network), cmp.Compare(a.VLAN, b.VLAN))
	})
}

// vm adds to a VM's NICs what the kernel and the config know.
func (j *joiner) vm(vm *model.VM, w world) {
	fallback := model.FailoverNone
	if w.failover != nil {
		fallback = w.failover(vm.Name, vm.ID)
	}
	for i := range vm.NICs {
		nic := &vm.NICs[i]
		if nic.Failover == model.FailoverNone && nic.VirtualPF == "" {
			nic.Failover = fallback
		}
		j.tap(nic)
		route := w.inv.route(nic.MAC, nic.Network, nic.VLAN)
		nic.Route, nic.RouteBy = route.Port, route.Kind
	}
}

// tap adds the state of the tap's link. If the kernel does not list the name, the NIC has no tap or it is in another network namespace, and
// its state stays unknown.
func (j *joiner) tap(nic *model.NIC) {
	l := j.links.ByName[nic.Tap]
	if l == nil {
		return
	}
	nic.TapIndex = l.Index
	port, known := j.uplinks.Tap(&j.links, l)
	if known {
		nic.Network, nic.Refused = port.Switch, cmp.Or(nic.Refused, port.Refused)
		nic.VLAN = cmp.Or(port.VLAN, nic.VLAN)
	} else if master := j.links.Master(l); master != nil {
		port.Up = master.Up
	}
	nic.LinkUp = model.TriOf(l.Up && l.Carrier && port.Up)
}

// pf adds to a PF what links, pool and domains know, and assigns its VFs to NICs.
func (j *joiner) pf(pf *model.PF, uses []vf.Use, vms []model.VM, w world) {
	pf.VFs = slices.Clone(pf.VFs)
	if l := j.links.ByName[pf.Name]; l != nil {
		pf.LinkUp = l.Up && l.Carrier
		j.uplinks.Find(&j.links, pf)
	}
	own, managed := w.pool[pf.Name]
	pf.Managed = managed
	if w.measured != nil {
		w.measured(pf)
	}
	pf.Carry(own.Speed, model.CapacityConfigured, "")
	if own.NoRates {
		pf.Caps.MaxTxRate, pf.Caps.MinTxRate, pf.Caps.VFPackets = model.No, model.No, model.No
	}
	if own.Network != "" {
		label(pf, own.Network)
	}
	for i := range pf.VFs {
		use := vf.Use{}
		if i < len(uses) {
			use = uses[i]
		}
		j.vf(&pf.VFs[i], use, vms, w)
	}
	if pf.Uplink.Representors && pf.Uplink.Why == "" {
		represented(pf)
	}
}

// represented sets what representors change: they count for every driver, and a VF without one cannot be used.
func represented(pf *model.PF) {
	pf.Caps.VFCounters = model.Yes
	for i := range pf.VFs {
		vf := &pf.VFs[i]
		if vf.Port != "" {
			continue
		}
		vf.NoPort = cmp.Or(vf.NoPort, "it has no representor in this network namespace (devlink port show)")
		if vf.Owner == model.OwnerFree {
			vf.Owner, vf.OwnerWhy = model.OwnerForeign, vf.NoPort
		}
	}
}

// label sets the network of a PF that the config assigns. Frames for its VFs still come only from the switch that the PF is a port of.
func label(pf *model.PF, network string) {
	pf.Network = network
	if up := &pf.Uplink; up.Why == "" && up.Switch != "" && up.Switch != network {
		up.Why = fmt.Sprintf("sluice.yaml puts %s into network %s, but it is behind %s", pf.Name, network, up.Switch)
		up.Remedy = fmt.Sprintf("write network: %s, or leave it out", up.Switch)
	}
}

// vf finds a VF's owner, holder and NIC.
func (j *joiner) vf(vf *model.VF, use vf.Use, vms []model.VM, w world) {
	h, held := j.holders[vf.Address]
	if !held {
		vf.Owner, vf.OwnerWhy = owner(vf, use, nil, "", w.pool, w.inv.openFor(vf.Address, w.now))
		if w.aside == nil {
			return
		}
		if why := w.aside(vf); why != "" {
			vf.Owner, vf.OwnerWhy = model.OwnerForeign, why
		}
		return
	}
	vm := &vms[h.vm]
	vf.Owner, vf.OwnerWhy = owner(vf, use, h.hostdev, vm.Name, w.pool, 0)
	vf.Holder = vm.ID
	vf.InGuest = w.open[vf.Address]
	if n := pairOf(vm.NICs, h.hostdev, vf.MAC); n >= 0 && better(&vm.NICs[n], vf) {
		vm.NICs[n].VF, vm.NICs[n].VFAlias, vm.NICs[n].VFOwner = vf.ID, h.hostdev.Alias, vf.Owner
	}
}

// better reports whether a VF should replace the one shown behind a NIC, if any: Sluice's own take precedence, so that they can be
// taken back.
func better(nic *model.NIC, vf *model.VF) bool {
	return nic.VF == model.NoVF || nic.VFOwner != model.OwnerSluice && vf.Owner == model.OwnerSluice
}
