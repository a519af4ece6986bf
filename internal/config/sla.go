package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sluice/internal/model"
)

// above reports whether x exceeds a bound that is set.
func above(x, bound uint64) bool { return bound > 0 && x > bound }

// rates compares a guarantee with its limit and with the link speeds, as far as the files give them.
func (k checker) rates(key string, guarantee, limit Rate) {
	g := key + ".guarantee"
	switch speed := k.fastest(); {
	case guarantee.Exceeds(limit):
		k.report(g, fmt.Sprintf("%s is above the limit of %s", guarantee, limit), "raise the limit or lower the guarantee")
	case above(guarantee.Bits, speed):
		k.report(g, fmt.Sprintf("%s is more than any link carries: the fastest of pfs has a speed of %s", Rate{Bits: guarantee.Bits},
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
		k.report(key, "is a rate of bits, not packets", "write it in Mbit or Gbit only")
	case part == "packets" && r.Bits > 0:
		k.report(key, "is a rate of packets, not bits", "write it in pps, kpps or Mpps only")
	}
}

// slaNIC checks a rule with sla_nic, which may set only the SLA of the matching NICs.
func (k checker) slaNIC(key string, v *VM) {
	if !k.good(key + ".sla_nic") {
		return
	}
	if _, err := path.Match(v.SLANIC, ""); err != nil || v.SLANIC == "" {
		k.report(key+".sla_nic", fmt.Sprintf("%q is not a pattern", model.Shorten(v.SLANIC)),
			"write a NIC's alias, MAC or network, or leave it out for every NIC")
		return
	}
	for _, other := range []string{"pin", "forbid", "priority", "class", "nic", "failover", "latency_sensitivity"} {
		if _, set := k.pos[key+"."+other]; set {
			k.report(key+"."+other, "applies to the VM, but with sla_nic a rule applies only to a NIC's rates",
				"write another rule for the VM, without sla_nic")
		}
	}
	if v.rule(Pos{}).SLA == (model.SLA{}) {
		k.report(key+".sla_nic", "names a NIC, but the rule sets nothing for it", "add guarantee, limit, receive or weight")
	}
}

func (k checker) bandwidth(known Known) {
	k.only("bandwidth.packets", k.Bandwidth.Packets, "packets")
	name := k.Bandwidth.Allocator
	if known.Allocators == nil {
		return
	}
	k.allocators = known.Allocators
	a, ok := known.Allocators[name]
	switch _, set := k.pos["bandwidth.period"]; {
	case !ok && k.good("bandwidth.allocator"):
		k.report("bandwidth.allocator", fmt.Sprintf("unknown allocator %q", model.Shorten(name)),
			Suggest(name, slices.Collect(maps.Keys(known.Allocators))))
	case ok && !set:
		k.Bandwidth.Period = a.Period
	}
}

// shadowed warns about rates that have no effect because an earlier rule for the same VM sets another value.
func (c *Config) shadowed() (list []string) {
	for j := range c.VMs {
		for i := range c.VMs[:j] {
			if c.VMs[i].covers(&c.VMs[j]) {
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
		if was, is := r.is[0], r.is[1]; was.Conflicts(is) {
			at := func(i int) Pos { return c.pos[fmt.Sprintf("vms[%d].%s", i, r.key)] }
			list = append(list, fmt.Sprintf("%s: vms[%d].%s of %q has no effect, since the rule for %q sets it first, at %s; "+
				"put the specific rule before the general one", at(later), later, r.key, b.Match, a.Match, at(first)))
		}
	}
	return list
}
