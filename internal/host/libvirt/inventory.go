package libvirt

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// inventory is what is known of the active domains.
type inventory struct {
	mu  sync.Mutex
	all map[model.VMID]*entry
	bad map[model.VMID]error // could not be read; there may be an older entry
}

// entry is one domain. run tells one start of a domain from the next.
type entry struct {
	dom  Domain
	run  int32
	at   time.Time     // when its reading was requested
	base model.VMState // state without jobs
	job  bool          // a migration or a similar job is in progress
	hung time.Duration // how long its QEMU has not answered libvirt
	text parsed
}

// parsed is the content of a live XML, without the answers of libvirt that complete it.
type parsed struct {
	sum uint64 // of the XML
	dom Domain
}

// seed belongs to this process, so that nobody can construct an XML with the sum of another.
var seed = maphash.MakeSeed()

// reading is a domain as read by one call.
type reading struct {
	dom   Domain
	run   int32
	at    time.Time // when it was requested
	state lv.DomainState
	why   int32
	text  parsed
}

func (r reading) active() bool {
	return r.state != lv.DomainShutoff && r.state != lv.DomainNostate
}

func isGone(err error) bool { return errors.Is(plain(err), model.ErrGone) }

// read reads a domain's state and live XML. Neither call waits for a stuck QEMU.
func (c *Conn) read(ctx context.Context, s *session, vm model.VMID) (reading, error) {
	type answer struct {
		reading
		xml string
	}
	at := time.Now()
	a, err := onDomain(ctx, s.queries, vm, "read domain", func(c *client, d lv.Domain) (a answer, err error) {
		a.at = at
		if d, err = c.DomainLookupByUUID(d.UUID); err != nil {
			return a, err
		}
		a.run = d.ID
		var state int32
		state, a.why, err = c.DomainGetState(d, 0)
		if a.state = lv.DomainState(state); err != nil || !a.active() {
			return a, err
		}
		a.xml, err = c.xml(ctx, d, 0)
		return a, err
	})
	if err != nil || !a.active() {
		return a.reading, err
	}
	if a.text, err = c.parse(vm, a.xml); err != nil {
		return a.reading, err
	}
	a.dom = a.text.dom.copy() // what follows is not in the XML
	c.resolveNetworks(ctx, s, &a.dom)
	return a.reading, nil
}

// parse parses a domain's live XML unless it has not changed: at rest, parsing was a tenth of the daemon's CPU time.
func (c *Conn) parse(vm model.VMID, doc string) (p parsed, err error) {
	sum := maphash.String(seed, doc)
	if p = c.inv.parsed(vm); p.sum == sum {
		return p, nil
	}
	p = parsed{sum: sum}
	if p.dom, err = parseDomain(doc); err == nil && !c.o.NoMetadata {
		p.dom.SLAs, p.dom.metadata = readMetadata(doc)
	}
	return p, err
}

// resolveNetworks fills in the switches that the live XML does not name.
func (c *Conn) resolveNetworks(ctx context.Context, s *session, d *Domain) {
	for i := range d.NICs {
		name, ok := strings.CutPrefix(d.NICs[i].Network, unresolved)
		if !ok {
			continue
		}
		bridge, err := onConn(ctx, s.queries, "", "look up network", func(c *client) (string, error) {
			n, err := c.NetworkLookupByName(name)
			if err != nil {
				return "", err
			}
			return c.NetworkGetBridgeName(n)
		})
		if err != nil {
			c.o.Logger.Warn("cannot tell the switch of a network", "vm", d.Name, "network", name, "error", plain(err))
		}
		d.NICs[i].Network = bridge
	}
}

// stateOf converts libvirt's state and reason. A domain that is moving between hosts is "migrating" on both of them.
func stateOf(s lv.DomainState, why int32) model.VMState {
	switch s {
	case lv.DomainRunning, lv.DomainBlocked:
		if s == lv.DomainRunning && lv.DomainRunningReason(why) == lv.DomainRunningPostcopy {
			return model.VMMigrating
		}
		return model.VMRunning
	case lv.DomainPaused:
		switch lv.DomainPausedReason(why) {
		case lv.DomainPausedMigration, lv.DomainPausedPostcopy, lv.DomainPausedPostcopyFailed:
			return model.VMMigrating
		}
		return model.VMPaused
	case lv.DomainPmsuspended:
		return model.VMPaused
	}
	return model.VMStopped // shutting down, shut off, crashed
}

// put stores a reading.
func (v *inventory) put(r reading, booted bool, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.all[r.dom.ID]
	if old != nil && r.at.Before(old.at) {
		return // a later reading finished earlier
	}
	e := &entry{dom: r.dom, run: r.run, at: r.at, base: stateOf(r.state, r.why), text: r.text}
	if old != nil && old.run == e.run {
		e.job, e.hung, e.dom.Started = old.job, old.hung, old.dom.Started
	}
	if e.base == model.VMRunning && (booted || e.dom.Started.IsZero()) {
		e.dom.Started = now
	}
	e.setState()
	if v.all == nil {
		v.all = map[model.VMID]*entry{}
	}
	v.all[r.dom.ID] = e
	delete(v.bad, r.dom.ID)
}

func (e *entry) setState() {
	e.dom.State = e.base
	if e.job {
		e.dom.State = model.VMMigrating
	}
}

// setJob records whether a job is in progress.
func (v *inventory) setJob(vm model.VMID, job bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.all[vm]; e != nil {
		e.job = job
		e.setState()
	}
}

// setHung records how long the domain's QEMU has not answered.
func (v *inventory) setHung(vm model.VMID, taken time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.all[vm]; e != nil {
		e.hung = taken
	}
}

func (v *inventory) unreadable(vm model.VMID, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bad == nil {
		v.bad = map[model.VMID]error{}
	}
	v.bad[vm] = plain(err)
}

// parsed returns what the last XML of a domain said.
func (v *inventory) parsed(vm model.VMID) parsed {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.all[vm]; e != nil {
		return e.text
	}
	return parsed{}
}

// macs returns the owner of each MAC in a domain's last entry.
func (v *inventory) macs(vm model.VMID) (map[model.MAC]string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.all[vm]; e != nil {
		return e.dom.macs, true
	}
	return nil, false
}

// unread lists the running domains without any entry, sorted.
func (v *inventory) unread() []model.VMID {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []model.VMID
	for vm := range v.bad {
		if v.all[vm] == nil {
			out = append(out, vm)
		}
	}
	slices.Sort(out)
	return out
}

func (v *inventory) drop(vm model.VMID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.all, vm)
	delete(v.bad, vm)
}

// without lists the known domains that are not in a set.
func (v *inventory) without(set map[model.VMID]cause) []model.VMID {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []model.VMID
	for vm := range v.all {
		if _, ok := set[vm]; !ok {
			out = append(out, vm)
		}
	}
	for vm := range v.bad {
		if _, ok := set[vm]; !ok {
			out = append(out, vm)
		}
	}
	return out
}

func (v *inventory) len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.all)
}

// copy returns a Domain whose NICs, devices and SLAs can be changed.
func (d Domain) copy() Domain {
	d.NICs, d.Hostdevs, d.SLAs = slices.Clone(d.NICs), slices.Clone(d.Hostdevs), slices.Clone(d.SLAs)
	return d
}

// domains returns copies of all domains, sorted by ID.
func (v *inventory) domains() []Domain {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Domain, 0, len(v.all))
	for _, e := range v.all {
		out = append(out, e.dom.copy())
	}
	slices.SortFunc(out, func(a, b Domain) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// where lists the domains whose entries satisfy a condition.
func (v *inventory) where(is func(*entry) bool) (out []model.VMID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for vm, e := range v.all {
		if is(e) {
			out = append(out, vm)
		}
	}
	return out
}

// ids lists all domains, or those that are in a job or do not answer.
func (v *inventory) ids(all bool) []model.VMID {
	return v.where(func(e *entry) bool { return all || e.job || e.hung > 0 })
}

// withFunctions lists the domains that have functions of virtual PFs.
func (v *inventory) withFunctions() []model.VMID {
	return v.where(func(e *entry) bool {
		return slices.ContainsFunc(e.dom.NICs, func(n model.NIC) bool { return n.VirtualPF != "" })
	})
}

// subject returns a domain's name as shown to users.
func (v *inventory) subject(vm model.VMID) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.all[vm]; e != nil && e.dom.Name != "" {
		return e.dom.Name
	}
	return fmt.Sprintf("domain %s", vm)
}

// Unread returns the active domains that Domains lacks because they could not be read yet, sorted. Call it before Domains: a
// domain that can be read in between is then in both results, and not in neither.
func (c *Conn) Unread() []model.VMID { return c.inv.unread() }

// Domains returns all active domains that could be read, sorted by ID, from a cache that events keep up to date: it makes no call. The
// caller owns the result.
func (c *Conn) Domains(ctx context.Context) ([]Domain, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := c.session(); err != nil {
		return nil, err
	}
	return c.inv.domains(), nil
}
