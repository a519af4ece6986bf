package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/api/v1"
)

// Owner says who writes to Placement.
type Owner string

// Values of Owner.
const (
	OwnerSluice    Owner = "sluice"    // Publish and Place
	OwnerOpenStack Owner = "openstack" // Nova and Neutron: Sluice reads what they have claimed, and writes nothing
)

// Reader reads what Nova and Neutron have written. It has no method that writes.
type Reader interface {
	// Node returns the compute node of that name and the providers below it that have bandwidth or packets, with the claims on them.
	// Without a compute node of that name there are none.
	Node(ctx context.Context, name string) (State, error)
}

// Follow tells the daemon what Nova and Neutron have claimed at a compute node. Unless that was read, the daemon is told nothing, and
// keeps what it was told before. devices names PFs by Neutron's names for them, where these are neither a PF nor its bridge.
func Follow(ctx context.Context, l Reader, node string, devices map[string]string, d Daemon) (r Round) {
	c, err := d.Capacity(ctx)
	if err != nil {
		r.Err = err
		return r
	}
	if c.Observed.IsZero() {
		r.Err = errUnobserved
		return r
	}
	s, err := l.Node(ctx, node)
	if err == nil && len(s.Providers) == 0 {
		err = fmt.Errorf("the ledger has no compute node %q: give --host-name the name that `openstack hypervisor list` shows", node)
	}
	if err != nil {
		r.Err = err
		return r
	}
	claims, unknown := ClaimsAt(&s, node, &c, devices)
	r.tell(ctx, d, &c, claims)
	r.Untold = errors.Join(r.Untold, unknown)
	return r
}

// migration is the type of the consumer to which Nova gives what a VM has at the node that it migrates from; the VM's own has then what is
// claimed at the new node. Which VM it is the former does not say.
const migration = "MIGRATION"

// ClaimsAt lists what a compute node is to keep for its VMs. unknown names the devices of Neutron that are no PF of the host.
func ClaimsAt(s *State, node string, c *api.HostCapacity, devices map[string]string) (out []api.HostClaim, unknown error) {
	f := following{capacity: c, devices: devices, given: map[string]float64{}, unknown: map[string]bool{}}
	device := map[string]string{}
	for i := range s.Providers {
		p := &s.Providers[i]
		device[p.ID] = deviceOf(p.Name, node)
	}
	has := map[string]bool{} // VMs with a claim here now
	var moving []api.HostClaim
	for _, id := range slices.Sorted(maps.Keys(s.Claims)) {
		claim := s.Claims[id]
		list := f.claims(&claim, device)
		if claim.Type == migration {
			moving = append(moving, list...)
			continue
		}
		has[id] = true
		out = append(out, list...)
	}
	for i := range c.Claims { // what a VM had that is still here, but has nothing any more
		old := &c.Claims[i]
		at := slices.IndexFunc(moving, func(m api.HostClaim) bool {
			return m.PF == old.PF && m.Rate == old.Rate && s.Claims[m.ID].Type == migration
		})
		if at >= 0 && old.VM != "" && !has[old.ID] {
			moving[at].ID = old.ID
		}
	}
	for name := range f.unknown {
		unknown = errors.Join(unknown, fmt.Errorf("the device %q of Neutron is neither a PF of this host nor the network of one: "+
			"what is claimed of it is not kept; say which PF it is with --device %s=PF", name, name))
	}
	return append(out, moving...), unknown
}

// deviceOf is the device that a provider of Neutron stands for: its name is NODE:AGENT:DEVICE. "": that of an agent, or none.
func deviceOf(name, node string) string {
	rest, ok := strings.CutPrefix(name, node+":")
	if _, device, below := strings.Cut(rest, ":"); ok && below {
		return device
	}
	return ""
}

type following struct {
	capacity *api.HostCapacity
	devices  map[string]string
	given    map[string]float64 // bits/s, by PF
	unknown  map[string]bool
}

// claims are what a consumer has here: one for each PF, of which the first has its packets.
func (f *following) claims(c *Claim, device map[string]string) (out []api.HostClaim) {
	var packets float64
	for _, id := range slices.Sorted(maps.Keys(c.Amounts)) {
		name, here := device[id]
		if !here {
			continue
		}
		packets += float64(c.Amounts[id][ClassPackets]+c.Amounts[id][classPacketsOut]) * 1e3
		if bits := float64(c.Amounts[id][ClassBits]) * 1e3; bits > 0 {
			pf := f.pf(name)
			at := slices.IndexFunc(out, func(h api.HostClaim) bool { return h.PF == pf })
			switch {
			case pf == "":
			case at >= 0: // two devices of Neutron's that are one PF
				out[at].Rate.Bits += bits
			default:
				out = append(out, api.HostClaim{ID: c.Consumer, PF: pf, Rate: api.Rate{Bits: bits}})
			}
			f.given[pf] += bits
		}
	}
	if packets > 0 && len(out) == 0 {
		out = append(out, api.HostClaim{ID: c.Consumer})
	}
	if len(out) > 0 {
		out[0].Rate.Packets = packets
	}
	return out
}

// pf is the address of the PF that Neutron calls so; of several behind the same bridge the one with most left.
func (f *following) pf(device string) (address string) {
	most := 0.0
	for i := range f.capacity.PFs {
		pf := &f.capacity.PFs[i]
		named, ok := f.devices[device]
		same := pf.PF == device || pf.Network == device || len(f.capacity.PFs) == 1
		if ok {
			same = pf.PF == named || pf.Address == named
		}
		if left := pf.Bits.Total - f.given[pf.Address]; same && (address == "" || left > most) {
			address, most = pf.Address, left
		}
	}
	if address == "" {
		f.unknown[device] = true
	}
	return address
}
