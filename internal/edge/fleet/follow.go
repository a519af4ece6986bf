package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	// Claim returns what a consumer has; false: nothing.
	Claim(ctx context.Context, consumer string) (Claim, bool, error)
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
	if r.Err = addAbsent(ctx, l, &s, c.Claims); r.Err != nil {
		return r
	}
	claims, unknown := ClaimsAt(&s, node, &c, devices)
	r.tell(ctx, d, &c, claims)
	r.Untold = errors.Join(r.Untold, unknown)
	return r
}

// migration is the type of the consumer to which Nova gives what a VM has at the node that it migrates from; the VM's own has then what is
// claimed at the new node. Which VM it is the former does not say: it has the same user, and what that VM had.
const migration = "MIGRATION"

// addAbsent adds what VMs that are here have elsewhere, if some VM migrates away.
func addAbsent(ctx context.Context, l Reader, s *State, before []api.HostClaimState) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.Claims)), func(c Claim) bool { return c.Type == migration }) {
		return nil
	}
	for i := range before {
		id := before[i].ID
		if _, read := s.Claims[id]; read || before[i].VM == "" {
			continue
		}
		c, ok, err := l.Claim(ctx, id)
		if err != nil {
			return err
		}
		if ok {
			s.Claims[id] = c
		}
	}
	return nil
}

// ClaimsAt lists what a compute node is to keep for its VMs. The State has also what those have elsewhere that migrate away. A claim keeps
// the PF that it had, while that has room for it. unknown names the devices of Neutron that are no PF of the host.
func ClaimsAt(s *State, node string, c *api.HostCapacity, devices map[string]string) (out []api.HostClaim, unknown error) {
	f := following{
		capacity: c, devices: devices, given: map[string]float64{}, total: map[string]float64{}, before: map[string][]api.HostClaimState{},
		unknown: map[string]bool{},
	}
	for i := range c.PFs {
		f.total[c.PFs[i].Address] = c.PFs[i].Bits.Total
	}
	for i := range c.Claims {
		f.before[c.Claims[i].ID] = append(f.before[c.Claims[i].ID], c.Claims[i])
	}
	device := map[string]string{}
	for i := range s.Providers {
		p := &s.Providers[i]
		device[p.ID] = deviceOf(p.Name, node)
	}
	var all []*wanted
	for _, id := range slices.Sorted(maps.Keys(s.Claims)) {
		claim := s.Claims[id]
		if w := f.want(&claim, device); w.packets > 0 || len(w.parts) > 0 {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b *wanted) int { return cmp.Compare(min(1, len(a.leaves)), min(1, len(b.leaves))) })
	f.nameMigrations(s, all)
	f.place(all)
	for _, w := range all {
		out = append(out, w.claims()...)
	}
	for _, name := range slices.Sorted(maps.Keys(f.unknown)) {
		unknown = errors.Join(unknown, fmt.Errorf("the device %q of Neutron is neither a PF of this host nor the network of one: "+
			"what is claimed of it is not kept; say which PF it is with --device %s=PF", name, name))
	}
	return out, unknown
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
	capacity     *api.HostCapacity
	devices      map[string]string
	given, total map[string]float64              // bits/s, by PF
	before       map[string][]api.HostClaimState // by VM
	unknown      map[string]bool
}

// wanted is what a consumer has here.
type wanted struct {
	id      string // of the VM, or of a migration of one that is not known
	leaves  string // the migration by which it leaves; "": it does not
	user    string
	parts   []*part
	packets float64
}

// part is what a consumer has of some PFs, of which one keeps it.
type part struct {
	pfs  []string // their addresses
	bits float64
	at   string
}

// want reads what a consumer has here.
func (f *following) want(c *Claim, device map[string]string) *wanted {
	w := &wanted{id: c.Consumer, user: c.User}
	if c.Type == migration {
		w.leaves = c.Consumer
	}
	for _, id := range slices.Sorted(maps.Keys(c.Amounts)) {
		name, here := device[id]
		if !here {
			continue
		}
		w.packets += float64(c.Amounts[id][ClassPackets]+c.Amounts[id][classPacketsOut]) * 1e3
		bits := float64(c.Amounts[id][ClassBits]) * 1e3
		if bits == 0 {
			continue
		}
		pfs := f.pfs(name)
		at := slices.IndexFunc(w.parts, func(p *part) bool { return slices.Equal(p.pfs, pfs) })
		switch {
		case len(pfs) == 0:
			f.unknown[name] = true
		case at >= 0: // two devices of Neutron's that are the same
			w.parts[at].bits += bits
		default:
			w.parts = append(w.parts, &part{pfs: pfs, bits: bits})
		}
	}
	return w
}

// pfs are the addresses of the PFs that Neutron calls so: one, or those behind a bridge.
func (f *following) pfs(device string) (out []string) {
	named, ok := f.devices[device]
	for i := range f.capacity.PFs {
		pf := &f.capacity.PFs[i]
		same := pf.PF == device || pf.Network == device || len(f.capacity.PFs) == 1
		if ok {
			same = pf.PF == named || pf.Address == named
		}
		if same {
			out = append(out, pf.Address)
		}
	}
	return out
}

// nameMigrations finds the VMs that leave: those that are here, have their claim elsewhere now, and had here what a migration of the same
// user has. Nova gives a VM's claim to the migration before it has another one, so then those that have none at all.
func (f *following) nameMigrations(s *State, all []*wanted) {
	here := map[string]bool{}
	for _, w := range all {
		here[w.id] = true
	}
	for _, claimed := range []bool{true, false} {
		f.nameLeaving(s, all, here, claimed)
	}
}

// nameLeaving finds those of them that have a claim elsewhere, or those that have none.
func (f *following) nameLeaving(s *State, all []*wanted, here map[string]bool, claimed bool) {
	for i := range f.capacity.Claims {
		vm := f.capacity.Claims[i].ID
		elsewhere, ok := s.Claims[vm]
		if ok != claimed || elsewhere.Type == migration || here[vm] || f.capacity.Claims[i].VM == "" {
			continue
		}
		var had api.Rate
		for _, c := range f.before[vm] {
			had.Bits, had.Packets = had.Bits+c.Rate.Bits, had.Packets+c.Rate.Packets
		}
		at := slices.IndexFunc(all, func(w *wanted) bool {
			return w.leaves != "" && w.id == w.leaves && (!claimed || w.user == elsewhere.User) && w.rate() == had
		})
		if at >= 0 {
			all[at].id = vm
			here[vm] = true
		}
	}
}

func (w *wanted) rate() (sum api.Rate) {
	for _, p := range w.parts {
		sum.Bits += p.bits
	}
	sum.Packets = w.packets
	return sum
}

// place chooses a PF for each part: the one that it had, else that with most left. Where more is then claimed than there is, parts go where
// they fit, so that the next look has nothing to move.
func (f *following) place(all []*wanted) {
	for _, w := range all {
		for _, p := range w.parts {
			if len(p.pfs) == 1 {
				f.give(p, p.pfs[0])
			}
		}
	}
	for _, w := range all {
		for _, p := range w.parts {
			if len(p.pfs) > 1 {
				f.give(p, f.had(w, p))
			}
		}
	}
	for _, w := range all {
		for _, p := range w.parts {
			if p.at == "" {
				f.give(p, slices.MaxFunc(p.pfs, func(a, b string) int { return cmp.Compare(f.free(a), f.free(b)) }))
			}
		}
	}
	for moved := true; moved; {
		moved = false
		for _, w := range slices.Backward(all) {
			for _, p := range w.parts {
				to := slices.IndexFunc(p.pfs, func(pf string) bool { return pf != p.at && f.free(pf) >= p.bits })
				if to >= 0 && f.left(p.at) < 0 {
					f.given[p.at] -= p.bits
					f.give(p, p.pfs[to])
					moved = true
				}
			}
		}
	}
}

func (f *following) give(p *part, pf string) {
	if p.at = pf; pf != "" {
		f.given[pf] += p.bits
	}
}

// left is what can still be claimed of a PF. What is at one whose link is down, or of unknown speed, may stay there.
func (f *following) left(pf string) float64 {
	if f.total[pf] == 0 {
		return math.Inf(1)
	}
	return f.free(pf)
}

// free is the same for what is not there yet: nothing of such a link is known to be free.
func (f *following) free(pf string) float64 { return f.total[pf] - f.given[pf] }

// had is the PF that has kept a part so far: that with as much more than other parts of the VM are there, else one with no other, else any;
// "": none.
func (f *following) had(w *wanted, p *part) (pf string) {
	best := 0
	for i := range f.before[w.id] {
		old := &f.before[w.id][i]
		if !slices.Contains(p.pfs, old.PF) {
			continue
		}
		others, rank := 0.0, 1
		for _, o := range w.parts {
			if o.at == old.PF {
				others += o.bits
			}
		}
		switch {
		case others+p.bits == old.Rate.Bits:
			rank = 3
		case others == 0:
			rank = 2
		}
		if rank > best {
			pf, best = old.PF, rank
		}
	}
	return pf
}

// claims are what a consumer has here: one for each PF, of which the first has its packets.
func (w *wanted) claims() (out []api.HostClaim) {
	for _, p := range w.parts {
		at := slices.IndexFunc(out, func(h api.HostClaim) bool { return h.PF == p.at })
		if at < 0 {
			at = len(out)
			out = append(out, api.HostClaim{ID: w.id, PF: p.at})
		}
		out[at].Rate.Bits += p.bits
	}
	if len(out) == 0 {
		out = append(out, api.HostClaim{ID: w.id})
	}
	out[0].Rate.Packets = w.packets
	return out
}
