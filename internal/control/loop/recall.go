package loop

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// Memory is what a Core knows beside its rules and the last Snapshot: a recording begins
// with it, so that its replay decides as the recorded Core did. It is written as JSON.
// What is over within minutes is not in it, and may tell the first decisions of a replay
// apart: moves under way and just done, VFs that could not be set up lately (one Backoff)
// and since when guests leave their VF unused (two timeouts of a plug).
type Memory struct {
	Time      time.Time // of the last Snapshot decided on
	Busy      int       // moves under way, which are not in it
	Options   Options
	Placement placement.Memory
	Costs     map[model.VMID]*costs
	Sum       costs
	Fails     map[model.NICID]*failure
}

// Memory copies what the Core knows; the Core may go on while it is written out.
func (c *Core) Memory() *Memory {
	m := &Memory{Busy: c.exec.Len(), Options: c.opts, Placement: c.decider.Memory(), Costs: copied(c.costs), Sum: c.sum, Fails: copied(c.fails)}
	if c.snap != nil {
		m.Time = c.snap.Time
	}
	return m
}

func copied[K comparable, T any](m map[K]*T) map[K]*T {
	out := make(map[K]*T, len(m))
	for id, p := range m {
		one := *p
		out[id] = &one
	}
	return out
}

// Recall makes a new Core go on where another one with the same policy was. It refuses a
// Memory that no Core wrote.
func (c *Core) Recall(m *Memory) error {
	if err := m.check(); err != nil {
		return err
	}
	maps.Copy(c.costs, m.Costs)
	maps.Copy(c.fails, m.Fails)
	c.sum = m.Sum
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
