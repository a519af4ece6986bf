package loop

import (
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// ledger holds the cost of past moves, per VM and in total.
type ledger struct {
	byVM map[model.VMID]costs
	all  costs
}

// of returns the mean cost of the VM's moves, or of all VMs' moves if the VM has had none.
func (l *ledger) of(vm model.VMID) placement.Cost {
	if own, ok := l.byVM[vm]; ok {
		return own.mean()
	}
	return l.all.mean()
}

// spent adds to the costs of the VM and to the total.
func (l *ledger) spent(vm model.VMID, add func(*costs)) {
	own := l.byVM[vm]
	add(&own)
	l.byVM[vm] = own
	add(&l.all)
}

// costs sums the number and duration of moves.
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

// account records a successful Move in totals and costs.
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
