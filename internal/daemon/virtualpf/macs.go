package virtualpf

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"sluice/internal/model"
)

// usedMACsFor is how long a list of used MACs is reused, so that a guest that asks for one MAC after another does not load libvirt.
const usedMACsFor = 10 * time.Second

// usedMACs caches the owners of MACs outside virtual PFs: NICs of VMs, running or not, and interfaces of the host.
type usedMACs struct {
	mu    sync.Mutex
	at    time.Time
	owner map[model.MAC]string
	err   error
}

// unused rejects MACs that are in use outside virtual PFs, and any MAC if the ones in use cannot be determined. State.Check compares
// the MACs of virtual VFs when a change is written.
func (m *Manager) unused(ctx context.Context, list ...model.MAC) error {
	if len(list) == 0 {
		return nil
	}
	t := &m.usedMACs
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := m.Now(); t.at.IsZero() || now.Sub(t.at) > usedMACsFor {
		t.owner, t.err = m.readUsedMACs(ctx)
		t.at = now
	}
	if t.err != nil {
		return fmt.Errorf("cannot find out which MACs are in use: %w", t.err)
	}
	for _, mac := range list {
		if who := t.owner[mac]; who != "" {
			return &usedMAC{mac, who}
		}
	}
	return nil
}

// readUsedMACs asks libvirt and the kernel for the owners of MACs.
func (m *Manager) readUsedMACs(ctx context.Context) (map[model.MAC]string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin) // the result is cached for all callers
	defer cancel()
	all, err := m.HostMACs()
	if err != nil {
		return nil, fmt.Errorf("list the host's interfaces: %w", err)
	}
	domains, err := m.Runner.Domains.MACs(ctx)
	if err != nil {
		return nil, err
	}
	out := map[model.MAC]string{}
	maps.Copy(out, all)
	maps.Copy(out, domains)
	return out, nil
}

// usedMAC is the error for a MAC that is in use.
type usedMAC struct {
	mac model.MAC
	who string
}

func (e *usedMAC) Error() string {
	return fmt.Sprintf("MAC %s belongs to %s: choose another", e.mac, e.who)
}
