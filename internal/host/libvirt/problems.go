package libvirt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
)

// Problems returns what is wrong with the domains or could not be read: MACs used twice, domains that are stuck, unreadable XML or
// metadata. It makes no call to libvirt.
func (c *Conn) Problems() []model.Problem {
	s, err := c.session()
	if err != nil {
		return []model.Problem{{Text: err.Error(), Remedy: "systemctl status libvirtd virtqemud"}}
	}
	out := c.inv.problems()
	for _, l := range s.pools() {
		out = append(out, c.leftBehind(l, out)...)
	}
	return append(out, duplicates(c.inv.domains())...)
}

// leftBehind returns the domains with a call that has not returned, except those already in named.
func (c *Conn) leftBehind(l *pool, named []model.Problem) []model.Problem {
	var out []model.Problem
	for _, k := range l.calls.stuck() {
		subject := c.inv.subject(k.vm)
		if slices.ContainsFunc(named, func(p model.Problem) bool { return p.Subject == subject }) {
			continue
		}
		out = append(out, model.Problem{
			Subject: subject,
			Text: fmt.Sprintf("libvirt has not returned from %q for %s; no further calls are made on it", k.op,
				time.Since(k.since).Round(time.Second)),
			Remedy: stuckRemedy,
		})
	}
	return out
}

const stuckRemedy = "see `virsh domcontrol`: is its QEMU stopped, or its storage hanging?"

func (v *inventory) problems() []model.Problem {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []model.Problem
	for vm, err := range v.bad {
		out = append(out, model.Problem{Subject: fmt.Sprintf("domain %s", vm), Text: err.Error()})
	}
	for _, e := range v.all {
		if e.dom.metadata != nil {
			out = append(out, metadataProblem(e.dom.Name, e.dom.metadata.Error()))
		}
		if e.hung > hangLimit {
			out = append(out, model.Problem{
				Subject: e.dom.Name,
				Text:    fmt.Sprintf("its QEMU has not answered libvirt for %s", e.hung.Round(time.Second)),
				Remedy:  stuckRemedy,
			})
		}
	}
	slices.SortFunc(out, func(a, b model.Problem) int { return strings.Compare(a.Subject, b.Subject) })
	return out
}

// duplicates finds MACs that two virtio NICs share. A VF that has the MAC of its pair is not a duplicate.
func duplicates(doms []Domain) []model.Problem {
	type user struct{ vm, alias string }
	first := map[model.MAC]user{}
	var out []model.Problem
	for _, d := range doms {
		for _, n := range d.NICs {
			u := user{d.Name, n.Alias}
			if was, dup := first[n.MAC]; dup {
				out = append(out, model.Problem{
					Subject: u.vm,
					Text:    fmt.Sprintf("MAC %s of %s is also that of %s of %s", n.MAC, u.alias, was.alias, was.vm),
					Remedy:  "give each NIC its own MAC: neither of two NICs with the same MAC can have a VF",
				})
				continue
			}
			first[n.MAC] = u
		}
	}
	return out
}
