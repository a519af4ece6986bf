package loop

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// Memory is the state of a Core apart from its rules and the last Snapshot: a recording begins with it, so that its replay
// decides as the recorded Core did. It is written as JSON. State that expires within minutes is left out, and may make the first
// decisions of a replay differ: moves under way and just done, VFs that could not be set up lately (for one Backoff), and since
// when guests have left their VF unused (two timeouts of a plug).
type Memory struct {
	Time      time.Time // time of the last Snapshot decided on
	Busy      int       // number of moves under way, which are not included
	Options   Options
	Placement placement.Memory
	Costs     map[model.VMID]costs
	Sum       costs
	Fails     map[model.NICID]failure
}

// Memory copies the Core's state; the Core may go on while the copy is written out.
func (c *Core) Memory() *Memory {
	m := &Memory{
		Busy: c.exec.Len(), Options: c.opts, Placement: c.decider.Memory(),
		Costs: maps.Clone(c.costs.byVM), Sum: c.costs.all, Fails: maps.Clone(c.fails),
	}
	if c.snap != nil {
		m.Time = c.snap.Time
	}
	return m
}

// Recall makes a new Core continue where another Core with the same policy was. It refuses a Memory that no Core can have
// written.
func (c *Core) Recall(m *Memory) error {
	if err := m.check(); err != nil {
		return err
	}
	maps.Copy(c.costs.byVM, m.Costs)
	maps.Copy(c.fails, m.Fails)
	c.costs.all = m.Sum
	return c.decider.Recall(m.Placement)
}

func (m *Memory) check() error {
	for vm, k := range m.Costs {
		if !k.possible() {
			return fmt.Errorf("costs of VM %q: counts and times must not be negative", vm)
		}
	}
	if !m.Sum.possible() {
		return errors.New("costs of all VMs: counts and times must not be negative")
	}
	for nic, f := range m.Fails {
		if f.Count < 0 {
			return fmt.Errorf("failures of NIC %q: the count must not be negative", nic)
		}
	}
	return nil
}

func (k *costs) possible() bool {
	return min(k.Plugs, k.Unplugs, k.Failed) >= 0 && min(k.Plug, k.Unplug) >= 0
}
