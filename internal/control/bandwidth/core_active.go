package bandwidth

import (
	"slices"

	"sluice/internal/model"
)

// activate decides on which links, and in which virtual PFs, there is anything to divide, and who divides it by himself.
func (c *Core) activate() {
	always := c.kind.Always && !c.opts.Off
	for _, l := range c.links {
		promises, weights := c.kind.asked(l.nics)
		l.wanted, l.weighted = always || promises || weights, weights
		l.active = l.wanted && l.speed > 0
		l.kernel, l.tree = l.active && c.kind.Kernel, false
		trees := l.kernel && !c.opts.NoTree && l.root.by != "" && l.root.can != model.No
		for _, n := range l.nics {
			n.shared = trees && n.limits[slot(model.PathVirtio, model.Tx)].by == l.root.by && n.vf == model.NoVF && !n.leaving
			l.tree = l.tree || n.shared
		}
	}
	for _, v := range c.vpfs {
		promises, weights := c.kind.asked(v.functions)
		v.inner = promises || weights || always && v.link != nil && v.link.active
	}
}

// asked reports what NICs that share something ask of the allocator: promises that others could break, and shares by weight. Equal
// weights ask for nothing, set or not: each NIC's share is then the same as if none had one.
func (k *kind) asked(nics []*nic) (promises, weights bool) {
	promises = slices.ContainsFunc(nics, (*nic).promises)
	weights = k.Weights && slices.ContainsFunc(nics, func(n *nic) bool { return n.sla.Share() != nics[0].sla.Share() })
	return promises, weights
}

// promises says whether the NIC is promised anything that others could take from it.
func (n *nic) promises() bool {
	return !n.sla.Guarantee.IsZero() || n.sla.ClassMin > 0
}
