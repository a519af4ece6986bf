package plan

import (
	"fmt"
	"maps"
	"time"

	"sluice/internal/model"
)

// dualPath reports a dual path that belongs to no VM. If its tap exists, a VM that is not listed yet may be starting.
func (c *Checker) dualPath(m *model.DualPath) {
	repair := model.Step{
		Kind: model.StepCloseDualPath, Subject: model.Subject{PF: m.PF},
		Path: model.PathStep{MAC: m.MAC, VLAN: m.VLAN, Tap: m.Tap},
	}
	uplink(c.snap, &repair.Path, m.PF, nil)
	repair.Path.Kind = m.Kind
	if vm, _ := c.owner(m.MAC); vm != nil {
		repair.Path.PF, repair.Path.Uplink = "", "" // it has another tap now; where its frames are sent is checked separately
	}
	if m.Detached == model.Yes {
		c.add(FindStaleDualPath, "tap "+m.Tap, fmt.Sprintf("is gone, but the dual path of %s to %s is still listed", m.MAC, m.PF), repair)
		return
	}
	c.add(FindLostDualPath, "tap "+m.Tap, fmt.Sprintf("gets the frames for %s, and so does %s, but no VM has that tap and MAC", m.MAC, m.PF),
		repair)
}

// limited reports limits that belong to no VM. If their tap exists, a VM that is not listed yet may be starting.
func (c *Checker) limited(l *model.TapLimit) {
	repair := model.Step{Kind: model.StepClearTap, Subject: model.Subject{Tap: l.Tap}, Path: model.PathStep{Tap: l.Tap}}
	if l.Detached == model.Yes {
		c.add(FindStaleLimit, "tap "+l.Tap, "is gone, or somebody has removed Sluice's programs from it, but its limits are still listed", repair)
		return
	}
	c.add(FindLostLimit, "tap "+l.Tap, "is limited by Sluice, but belongs to no VM", repair)
}

// port reports ports of the embedded switch that belong to no virtual PF. A port whose tap exists stays: removing its policy
// would open it.
func (c *Checker) port(l *model.TapLimit) {
	if l.Detached != model.Yes {
		c.add(FindLostPort, "tap "+l.Tap, "is bound to the policy of a virtual VF, but belongs to no virtual PF: the policy is removed when the "+
			"tap goes")
		return
	}
	repair := model.Step{Kind: model.StepClearPort, Subject: model.Subject{Tap: l.Tap}, Path: model.PathStep{Tap: l.Tap}}
	c.add(FindStalePort, "tap "+l.Tap, "is gone, but the policy of a virtual VF on it is still listed", repair)
}

// address is the key of a switch's lookup.
type address struct {
	network string
	mac     model.MAC
}

// strays finds routes that still send the frames of a VM that is gone to a VF: when it starts again it is on virtio. Routes of
// VMs that were never seen may be somebody else's.
func (c *Checker) strays() {
	for _, n := range c.snap.NICs() {
		if n.VF != model.NoVF && n.VFOwner == model.OwnerSluice || n.Route != "" && n.Route != n.Tap {
			c.routed[address{n.Network, n.MAC}] = c.snap.Time
		}
	}
	for _, p := range c.snap.Routes {
		code, at := FindStaleRoute, address{p.Network, p.MAC}
		if _, known := c.routed[at]; known {
			code, c.routed[at] = FindLeftBehind, c.snap.Time
		}
		path := model.PathStep{MAC: p.MAC, VLAN: p.VLAN, Network: p.Network, PF: p.Port}
		if pf := c.snap.FindPort(p.Port); pf != nil {
			uplink(c.snap, &path, pf.Name, nil)
			if p.Port != path.PF {
				path.Uplink = p.Port
			}
		}
		if p.Kind != "" {
			path.Kind = p.Kind
		}
		c.add(code, "switch "+p.Network, fmt.Sprintf("sends %s, which no VM has, to %s", p.MAC, p.Port),
			model.Step{Kind: model.StepCloseDualPath, Subject: model.Subject{PF: path.PF}, Path: path})
	}
	maps.DeleteFunc(c.routed, func(_ address, last time.Time) bool { return c.snap.Read.After(last) })
}
