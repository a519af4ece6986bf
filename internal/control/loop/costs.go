package loop

import (
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// costOf is what moves of the VM have cost, or of all VMs while it has had none.
func (c *Core) costOf(vm model.VMID) placement.Cost {
	if own := c.costs[vm]; own != nil {
		return own.mean()
	}
	return c.sum.mean()
}

// costs sums what moves took.
type costs struct {
	Plugs, Unplugs, Failed int
	Plug, Unplug           time.Duration
}

func (k *costs) mean() placement.Cost {
	var out placement.Cost
	if k.Plugs > 0 {
		out.Plug = k.Plug / time.Duration(k.Plugs)
	}
	if k.Unplugs > 0 {
		out.Unplug = k.Unplug / time.Duration(k.Unplugs)
	}
	if n := k.Plugs + k.Unplugs + k.Failed; n > 0 {
		out.Fail = float64(k.Failed) / float64(n)
	}
	return out
}

// spent adds to what moves of the VM, and of all, have cost.
func (c *Core) spent(vm model.VMID, add func(*costs)) {
	own := c.costs[vm]
	if own == nil {
		own = &costs{}
		c.costs[vm] = own
	}
	add(own)
	add(&c.sum)
}

func (c *Core) account(m model.MoveStatus) {
	took := m.Ended.Sub(m.Started)
	switch m.Move.Kind {
	case model.MovePlug:
		c.totals.Plugs++
		c.totals.PlugTime += took
		c.spent(m.Move.VM, func(k *costs) { k.Plugs++; k.Plug += took })
	case model.MoveUnplug:
		c.totals.Unplugs++
		c.totals.UnplugTime += took
		c.spent(m.Move.VM, func(k *costs) { k.Unplugs++; k.Unplug += took })
	case model.MoveRepair:
		c.totals.Repairs++
	}
}
