package virtualpf

import (
	"context"
	"sync"
	"time"

	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// Definitions are compared with libvirt at this interval, one virtual PF after the other.
const (
	checkEvery  = time.Minute
	checkWithin = 10 * time.Second
)

// checks caches the results, so that queries do not wait for libvirt or QEMU.
type checks struct {
	mu    sync.Mutex
	found map[vpf.Function][]model.Problem
	kick  chan struct{}
}

func (c *checks) of(vm model.VMID, name string) []model.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found[vpf.Function{VM: vm, Name: name, VF: -1}]
}

// waker returns the channel that wake signals.
func (c *checks) waker() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kick == nil {
		c.kick = make(chan struct{}, 1)
	}
	return c.kick
}

func (c *checks) wake() {
	select {
	case c.waker() <- struct{}{}:
	default:
	}
}

// Check compares definitions with libvirt, until ctx ends.
func (m *Manager) Check(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	running := map[vpf.Function]string{}
	for {
		m.checkAll(ctx)
		for again := false; !again; {
			_, next := m.Runner.View()
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				again = true
			case <-m.checks.waker():
				again = true
			case <-next:
				again = m.restarted(running)
			}
		}
	}
}

// Check compares a virtual PF with libvirt; check is Domains.CheckVPF.
func Check(ctx context.Context, p *model.VirtualPF, check func(context.Context, *model.VirtualPF) ([]model.Problem, error),
) []model.Problem {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	problems, err := check(ctx, p)
	if err != nil {
		problems = append(problems, model.Problem{Subject: p.VMName, Text: "cannot check virtual PF " + p.Name + ": " + err.Error()})
	}
	return problems
}

// restarted reports whether a VM was started since the last call.
func (m *Manager) restarted(running map[vpf.Function]string) (yes bool) {
	v, _ := m.Runner.View()
	for i := range v.Virtual {
		s := &v.Virtual[i]
		f := vpf.Function{VM: s.VM, Name: s.Name, VF: -1}
		yes = yes || s.Running && running[f] != s.Run
		running[f] = s.Run
	}
	return yes
}

func (m *Manager) checkAll(ctx context.Context) {
	found := map[vpf.Function][]model.Problem{}
	for _, p := range m.Runner.Store.State().Clone().Virtual {
		found[vpf.Function{VM: p.VM, Name: p.Name, VF: -1}] = Check(ctx, &p, m.Runner.Domains.CheckVPF)
	}
	m.checks.mu.Lock()
	m.checks.found = found
	m.checks.mu.Unlock()
}
