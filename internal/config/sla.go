package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sluice/internal/model"
)

// slas checks what VMs and classes are guaranteed and allowed.
func (k checker) slas() {
	for i := range k.VMs {
		v, key := &k.VMs[i], fmt.Sprintf("vms[%d]", i)
		k.rates(key, v.Guarantee, v.Limit)
		k.slaNIC(key, v)
	}
	for i := range k.Classes {
		c, key := &k.Classes[i], fmt.Sprintf("classes[%d]", i)
		k.rates(key, c.Guarantee, c.Limit)
		k.only(key+".minimum", c.Minimum, "bits")
		if above(c.Minimum.Bits, c.Limit.Bits) {
			k.at(key+".minimum", fmt.Sprintf("%s is above the limit of %s", c.Minimum, Rate{Bits: c.Limit.Bits}),
				"raise the limit or lower the minimum")
		}
	}
}

// above reports whether x exceeds a bound that is set.
func above(x, bound uint64) bool { return bound > 0 && x > bound }

// rates compares a guarantee with its limit and with the link speeds, as far as the files give them.
func (k checker) rates(key string, guarantee, limit Rate) {
	g := key + ".guarantee"
	switch speed := k.fastest(); {
	case above(guarantee.Bits, limit.Bits) || above(guarantee.Packets, limit.Packets):
		k.at(g, fmt.Sprintf("%s is above the limit of %s", guarantee, limit), "raise the limit or lower the guarantee")
	case above(guarantee.Bits, speed):
		k.at(g, fmt.Sprintf("%s is more than any link carries: the fastest of pfs has a speed of %s", Rate{Bits: guarantee.Bits},
			Rate{Bits: speed}), "lower it, or correct the speed")
	}
}

// fastest returns the speed of the fastest link, 0 unless the files give it for all links.
func (k checker) fastest() (speed uint64) {
	for i := range k.PFs {
		if k.PFs[i].Speed.Bits == 0 {
			return 0
		}
		speed = max(speed, k.PFs[i].Speed.Bits)
	}
	return speed
}

// only rejects a rate that contains the other of its two parts.
func (k checker) only(key string, r Rate, part string) {
	switch {
	case !k.good(key):
	case part == "bits" && r.Packets > 0:
		k.at(key, "counts bits, not packets", "write it in Mbit or Gbit alone")
	case part == "packets" && r.Bits > 0:
		k.at(key, "counts packets, not bits", "write it in pps, kpps or Mpps alone")
	}
}

// slaNIC checks a rule with sla_nic, which may set only the SLA of the matching NICs.
func (k checker) slaNIC(key string, v *VM) {
	if !k.good(key + ".sla_nic") {
		return
	}
	if _, err := path.Match(v.SLANIC, ""); err != nil || v.SLANIC == "" {
		k.at(key+".sla_nic", fmt.Sprintf("%q is no pattern", shorten(v.SLANIC)),
			"write a NIC's alias, MAC or network, or leave it out for each NIC")
		return
	}
	for _, other := range []string{"pin", "forbid", "priority", "class", "nic", "failover", "latency_sensitivity"} {
		if _, set := k.pos[key+"."+other]; set {
			k.at(key+"."+other, "is about the VM, and sla_nic makes the rule one about a NIC's rates",
				"write another rule for the VM, without sla_nic")
		}
	}
	if v.rule(Pos{}).SLA == (model.SLA{}) {
		k.at(key+".sla_nic", "names a NIC, and the rule says nothing about it", "add guarantee, limit, receive or weight")
	}
}

func (k checker) bandwidth(known Known) {
	name := k.Bandwidth.Allocator
	if known.Allocators != nil && k.good("bandwidth.allocator") && !slices.Contains(known.Allocators, name) {
		k.at("bandwidth.allocator", fmt.Sprintf("unknown allocator %q", shorten(name)), suggest(name, known.Allocators))
	}
	k.only("bandwidth.packets", k.Bandwidth.Packets, "packets")
	for i := range k.PFs {
		k.only(fmt.Sprintf("pfs[%d].speed", i), k.PFs[i].Speed, "bits")
	}
}

// needVFs warns about guarantees in packets/s that can be kept only on VFs.
func (c *Config) needVFs() (list []string) {
	host := c.Bandwidth.Packets
	warn := func(key string, g Rate) {
		if above(g.Packets, host.Packets) {
			list = append(list, fmt.Sprintf("%s: %s: virtio does not carry %s here (bandwidth.packets is %s): it holds on a VF only", c.pos[key],
				key, Rate{Packets: g.Packets}, host))
		}
	}
	for i := range c.VMs {
		warn(fmt.Sprintf("vms[%d].guarantee", i), c.VMs[i].Guarantee)
	}
	for i := range c.Classes {
		warn(fmt.Sprintf("classes[%d].guarantee", i), c.Classes[i].Guarantee)
	}
	return list
}

// shadowed warns about rates that have no effect because an earlier rule for the same VM sets another value.
func (c *Config) shadowed() (list []string) {
	for j := range c.VMs {
		for i := range c.VMs[:j] {
			if first, later := &c.VMs[i], &c.VMs[j]; first.covers(later) {
				list = append(list, c.clashes(i, j)...)
			}
		}
	}
	return list
}

// covers reports whether v applies to everything that a later rule applies to.
func (v *VM) covers(later *VM) bool {
	if v.SLANIC != "" && v.SLANIC != later.SLANIC || v.Guarantee.IsZero() && v.Limit.IsZero() && v.Receive.IsZero() {
		return false
	}
	return v.Match == later.Match || !strings.ContainsAny(later.Match, `*?[\`) && model.Matches(v.Match, "", later.Match)
}

func (c *Config) clashes(first, later int) (list []string) {
	a, b := &c.VMs[first], &c.VMs[later]
	for _, r := range []struct {
		key string
		is  [2]Rate
	}{{"guarantee", [2]Rate{a.Guarantee, b.Guarantee}}, {"limit", [2]Rate{a.Limit, b.Limit}}, {"receive", [2]Rate{a.Receive, b.Receive}}} {
		if was, is := r.is[0], r.is[1]; differ(was.Bits, is.Bits) || differ(was.Packets, is.Packets) {
			at := func(i int) Pos { return c.pos[fmt.Sprintf("vms[%d].%s", i, r.key)] }
			list = append(list, fmt.Sprintf("%s: vms[%d].%s of %q never counts: the rule for %q sets it before, at %s; put the special rule before the general", at(later), later, r.key, b.Match, a.Match, at(first)))
		}
	}
	return list
}

// differ reports whether two values are both set and differ.
func differ(a, b uint64) bool { return a > 0 && b > 0 && a != b }
