package loop

import (
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// ledger has what moves have cost.
type ledger struct {
	byVM map[model.VMID]*costs
	all  costs
}

// of is what moves of the VM have cost, or of all VMs while it has had none.
func (l *ledger) of(vm model.VMID) placement.Cost {
	if own := l.byVM[vm]; own != nil {
		return own.mean()
	}
	return l.all.mean()
}

// spent adds to what moves of the VM, and of all, have cost.
func (l *ledger) spent(vm model.VMID, add func(*costs)) {
	own := l.byVM[vm]
	if own == nil {
		own = &costs{}
		l.byVM[vm] = own
	}
	add(own)
	add(&l.all)
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

// account takes a Move that worked into the books.
func (c *Core) account(m model.MoveStatus) {
	took := m.Ended.Sub(m.Started)
	switch m.Move.Kind {
	case model.MovePlug:
		c.record.totals.Plugs++
		c.record.totals.PlugTime += took
		c.costs.spent(m.Move.VM, func(k *costs) { k.Plugs++; k.Plug += took })
	case model.MoveUnplug:
		c.record.totals.Unplugs++
		c.record.totals.UnplugTime += took
		c.costs.spent(m.Move.VM, func(k *costs) { k.Unplugs++; k.Unplug += took })
	case model.MoveRepair:
		c.record.totals.Repairs++
	}
}
