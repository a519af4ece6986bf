package virtualpf

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/internal/model"
)

// takenFor is how long it counts who was seen to have which MAC: a guest that asks for one after the other costs libvirt no more.
const takenFor = 10 * time.Second

// taken keeps who has MACs that no virtual PF has: NICs of VMs, also of those that are off, and interfaces of the host.
type taken struct {
	mu    sync.Mutex
	at    time.Time
	owner map[model.MAC]string
	err   error
}

// unused refuses MACs that somebody has who is no virtual VF, and all of them where that cannot be seen.
// Those of virtual VFs are compared when a change is kept (State.check).
func (m *Manager) unused(ctx context.Context, list ...model.MAC) error {
	if len(list) == 0 {
		return nil
	}
	t := &m.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := m.Now(); t.at.IsZero() || now.Sub(t.at) > takenFor {
		t.owner, t.err = m.whose(ctx)
		t.at = now
	}
	if t.err != nil {
		return fmt.Errorf("it cannot be seen who has which MAC: %w", t.err)
	}
	for _, mac := range list {
		if who := t.owner[mac]; who != "" {
			return &usedMAC{mac, who}
		}
	}
	return nil
}

// whose asks libvirt and the kernel.
func (m *Manager) whose(ctx context.Context) (map[model.MAC]string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin) // what is kept is not one caller's
	defer cancel()
	all, err := m.HostMACs()
	if err != nil {
		return nil, fmt.Errorf("list the host's interfaces: %w", err)
	}
	domains, err := m.Runner.Domains.MACs(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[model.MAC]string, len(all)+len(domains))
	for _, from := range []map[model.MAC]string{all, domains} {
		for mac, who := range from {
			out[mac] = who
		}
	}
	return out, nil
}

// usedMAC says that somebody has a MAC.
type usedMAC struct {
	mac model.MAC
	who string
}

func (e *usedMAC) Error() string {
	return fmt.Sprintf("MAC %s is that of %s: choose another", e.mac, e.who)
}
