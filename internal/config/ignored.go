package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/internal/model"
)

// notShared warns about what rules and classes ask for and the allocator ignores, about guarantees in packets/s that virtio cannot
// keep, and where nothing is kept at all.
func (c *Config) notShared() (list []string) {
	if !c.Bandwidth.Enabled {
		return c.notKept()
	}
	for i := range c.VMs {
		v, key := &c.VMs[i], fmt.Sprintf("vms[%d]", i)
		list = append(append(list, c.badGuarantee(key+".guarantee", v.Guarantee)...), c.ignoredWeight(key+".weight", v.Weight, v.SLANIC == "")...)
	}
	for i := range c.Classes {
		k, key := &c.Classes[i], fmt.Sprintf("classes[%d]", i)
		list = append(append(list, c.badGuarantee(key+".guarantee", k.Guarantee)...), c.ignoredWeight(key+".weight", k.Weight, true)...)
		if minimums := func(a model.AllocatorInfo) bool { return a.Minimums }; k.Minimum.Bits > 0 && c.ignores(minimums) {
			key += ".minimum"
			list = append(list, fmt.Sprintf("%s: %s has no effect under %s; %s, or leave it out", c.pos[key], key, c.Bandwidth.Allocator,
				c.choose(minimums)))
		}
	}
	return list
}

// notKept warns of the first rule or class whose SLA nothing enforces, since bandwidth is not shared.
func (c *Config) notKept() []string {
	warn := func(key string) []string {
		return []string{fmt.Sprintf("%s: %s asks for bandwidth, but bandwidth.enabled is false, so that no guarantee or limit is kept; "+
			"set it to true", c.pos[key], key)}
	}
	for i := range c.VMs {
		if v := &c.VMs[i]; v.Guarantee != (Rate{}) || v.Limit != (Rate{}) || v.Receive != (Rate{}) {
			return warn(fmt.Sprintf("vms[%d]", i))
		}
	}
	for i := range c.Classes {
		if k := &c.Classes[i]; k.Guarantee != (Rate{}) || k.Limit != (Rate{}) || k.Receive != (Rate{}) || k.Minimum != (Rate{}) {
			return warn(fmt.Sprintf("classes[%d]", i))
		}
	}
	return nil
}

// badGuarantee warns about a guarantee that the allocator ignores, or that virtio cannot keep.
func (c *Config) badGuarantee(key string, g Rate) []string {
	host, name := c.Bandwidth.Packets, c.Bandwidth.Allocator
	bits := func(a model.AllocatorInfo) bool { return a.Bits }
	packets := func(a model.AllocatorInfo) bool { return a.Packets }
	warn := func(format string, args ...any) []string {
		return []string{fmt.Sprintf("%s: %s", c.pos[key], key) + fmt.Sprintf(format, args...)}
	}
	switch {
	case g.Bits > 0 && c.ignores(bits):
		return warn(" of %s is not kept under %s, which ignores guarantees; %s, or leave it out", g, name, c.choose(bits))
	case g.Packets > 0 && c.ignores(packets):
		return warn(": %s are not kept on virtio under %s, which divides no packets; %s, or leave them out", Rate{Packets: g.Packets}, name,
			c.choose(packets))
	case g.Packets > 0 && host.Packets == 0:
		return warn(": on virtio %s are not kept while nothing says how many the host carries; set bandwidth.packets", Rate{Packets: g.Packets})
	case above(g.Packets, host.Packets):
		return warn(": virtio cannot carry %s here (bandwidth.packets is %s), so it can be kept only on a VF", Rate{Packets: g.Packets}, host)
	}
	return nil
}

// ignoredWeight warns about a weight that the allocator ignores. One that is the VM's still counts for its score.
func (c *Config) ignoredWeight(key string, weight float64, scores bool) []string {
	weights := func(a model.AllocatorInfo) bool { return a.Weights }
	if weight == 0 || !c.ignores(weights) {
		return nil
	}
	effect := "has no effect"
	if scores {
		effect = "counts only for the assignment of VFs"
	}
	return []string{fmt.Sprintf("%s: %s %s, since %s shares no link by weight; %s to share links by it too", c.pos[key], key, effect,
		c.Bandwidth.Allocator, c.choose(weights))}
}

// ignores reports whether the allocator is known not to go by something.
func (c *Config) ignores(goesBy func(model.AllocatorInfo) bool) bool {
	a, ok := c.allocators[c.Bandwidth.Allocator]
	return ok && !goesBy(a)
}

// choose names the allocators that go by something.
func (c *Config) choose(goesBy func(model.AllocatorInfo) bool) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.allocators)), func(name string) bool { return !goesBy(c.allocators[name]) })
	return "choose " + strings.Join(names, " or ")
}
