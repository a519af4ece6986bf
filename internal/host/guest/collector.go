package guest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	protocol "sluice/internal/channel"
	"sluice/internal/model"
)

// ReportsFor is how long after its last report a guest counts as reporting. It is more than twice the longest interval between reports that
// the configuration allows.
const ReportsFor = 12 * time.Second

// Collector returns the counters of guests from the reports that their sluice-guest sends over the channel, and asks the agents of the
// others. Both sources are equally untrusted and pass the same checks.
type Collector struct {
	agents interface {
		Interfaces(ctx context.Context, vm model.VMID) ([]Counters, error)
	}

	mu      sync.Mutex
	reports map[model.VMID]*report
}

// report is the last report of a guest.
type report struct {
	at    time.Time     // when it arrived
	next  chan struct{} // closed when the next one has arrived
	found []Counters
	err   error // why it cannot be used
}

// NewCollector returns a Collector without reports.
func NewCollector(agents *Client) *Collector {
	return &Collector{agents: agents, reports: map[model.VMID]*report{}}
}

// Report records a report of a guest.
func (c *Collector) Report(vm model.VMID, said protocol.Counters) {
	r := &report{at: time.Now(), next: make(chan struct{})}
	r.found, r.err = reported(said)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.reports[vm]; before != nil {
		close(before.next)
	}
	c.reports[vm] = r
	maps.DeleteFunc(c.reports, func(_ model.VMID, r *report) bool { return !r.fresh() })
}

// Reports reports whether the guest has sent a report recently.
func (c *Collector) Reports(vm model.VMID) bool { return c.last(vm) != nil }

// Interfaces waits for the guest's next report, because the counters of an older one would be taken for current ones. If the guest does not
// report, Interfaces asks its agent.
func (c *Collector) Interfaces(ctx context.Context, vm model.VMID) ([]Counters, error) {
	before := c.last(vm)
	if before == nil {
		return c.agents.Interfaces(ctx, vm)
	}
	ctx, cancel := context.WithTimeout(ctx, ReportsFor)
	defer cancel()
	select {
	case <-before.next:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for sluice-guest in %s to report: %w", vm, ctx.Err())
	}
	r := c.last(vm)
	if r == nil {
		return nil, fmt.Errorf("sluice-guest in %s: %w", vm, context.DeadlineExceeded)
	}
	return r.found, r.err
}

// last returns the guest's last report, nil if it is too old.
func (c *Collector) last(vm model.VMID) *report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.reports[vm]; r != nil && r.fresh() {
		return r
	}
	return nil
}

func (r *report) fresh() bool { return time.Since(r.at) < ReportsFor }

// reported applies the bounds of an agent's answer to a report.
func reported(said protocol.Counters) ([]Counters, error) {
	all := make(list, 0, len(said.Interfaces))
	waiting := make(map[string]uint64, len(said.Interfaces))
	for _, i := range said.Interfaces {
		for _, n := range []uint64{i.RxPackets, i.TxPackets, i.RxBytes, i.TxBytes, i.Backlog} {
			if n > maxCount {
				return nil, bad("counter %d, more than %d", n, uint64(maxCount))
			}
		}
		all = append(all, iface{Name: i.Name, MAC: i.MAC, Stats: &stats{
			RxPackets: count(i.RxPackets), TxPackets: count(i.TxPackets), RxBytes: count(i.RxBytes), TxBytes: count(i.TxBytes),
		}})
		waiting[i.Name] = i.Backlog
	}
	all, err := all.check()
	if err != nil {
		return nil, err
	}
	out := all.counters()
	for i := range out {
		out[i].TxWaiting = waiting[out[i].Name]
	}
	return out, nil
}
