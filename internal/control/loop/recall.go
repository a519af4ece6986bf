package loop

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice/internal/base/reconcile"
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
	Costs     map[model.VMID]*costs
	Sum       costs
	Fails     map[model.NICID]*failure
}

// failure is the stored form of a NIC's failures.
type failure struct {
	Count int
	Until time.Time
	Text  string
	Give  bool // the NIC gives up the VF that it has
}

// Memory copies the Core's state; the Core may go on while the copy is written out.
func (c *Core) Memory() *Memory {
	m := &Memory{
		Busy: c.exec.Len(), Options: c.opts, Placement: c.decider.Memory(),
		Costs: make(map[model.VMID]*costs, len(c.costs.byVM)), Sum: c.costs.all, Fails: make(map[model.NICID]*failure, c.fails.Len()),
	}
	for id, k := range c.costs.byVM {
		one := *k
		m.Costs[id] = &one
	}
	for id, f := range c.fails.All() {
		m.Fails[id] = &failure{Count: f.Failed.Count, Until: f.Failed.Until, Text: f.Failed.Err.Error(), Give: f.Want}
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
	for id, f := range m.Fails {
		o := c.fails.Object(id)
		o.Want, o.Failed = f.Give, reconcile.Failure{Count: f.Count, Until: f.Until, Err: errors.New(f.Text)}
	}
	c.costs.all = m.Sum
	return c.decider.Recall(m.Placement)
}

func (m *Memory) check() error {
	for vm, k := range m.Costs {
		if k == nil || !k.possible() {
			return fmt.Errorf("costs of VM %q: want counts and times, none negative", vm)
		}
	}
	if !m.Sum.possible() {
		return errors.New("costs of all VMs: want counts and times, none negative")
	}
	for nic, f := range m.Fails {
		if f == nil || f.Count < 0 {
			return fmt.Errorf("failures of NIC %q: want a count, not negative", nic)
		}
	}
	return nil
}

func (k *costs) possible() bool {
	return min(k.Plugs, k.Unplugs, k.Failed) >= 0 && min(k.Plug, k.Unplug) >= 0
}
