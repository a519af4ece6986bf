package libvirt

import (
	"sync"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// pending collects what events say until the reconnect loop reads it: which domains to look at
// again. It holds one entry per domain, however many events come.
type pending struct {
	mu    sync.Mutex
	dirty map[model.VMID]cause
	wake  chan struct{}
}

// why a domain is to be looked at again.
type cause struct {
	booted bool // it rebooted
	job    bool // a job began, went on or ended
}

func newPending() *pending {
	return &pending{dirty: map[model.VMID]cause{}, wake: make(chan struct{}, 1)}
}

func (n *pending) add(vm model.VMID, w cause) {
	n.mu.Lock()
	old := n.dirty[vm]
	n.dirty[vm] = cause{booted: old.booted || w.booted, job: old.job || w.job}
	n.mu.Unlock()
	notify(n.wake)
}

func (n *pending) take() map[model.VMID]cause {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.dirty
	n.dirty = map[model.VMID]cause{}
	return out
}

// notify signals on a channel of one place, without waiting.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

type registration struct {
	name string
	must bool
	do   func() (int, error)
}

// registrations lists the events. Callbacks run on libvirt's event loop, so they only
// take notes.
func (c *Conn) registrations(s *session, con *lv.Connect) []registration {
	note := func(w cause) lv.DomainEventGenericCallback {
		return func(_ *lv.Connect, d *lv.Domain) { s.pending.add(domainID(d), w) }
	}
	look := note(cause{})
	return []registration{
		{"lifecycle", true, func() (int, error) {
			return con.DomainEventLifecycleRegister(nil, func(k *lv.Connect, d *lv.Domain, _ *lv.DomainEventLifecycle) { look(k, d) })
		}},
		{"reboot", false, func() (int, error) { return con.DomainEventRebootRegister(nil, note(cause{booted: true})) }},
		{"control-error", false, func() (int, error) { return con.DomainEventControlErrorRegister(nil, look) }},
		{"device-added", false, func() (int, error) {
			return con.DomainEventDeviceAddedRegister(nil, func(k *lv.Connect, d *lv.Domain, _ *lv.DomainEventDeviceAdded) { look(k, d) })
		}},
		{"device-removed", false, func() (int, error) { return con.DomainEventDeviceRemovedRegister(nil, c.onRemoved(s)) }},
		{"device-removal-failed", false, func() (int, error) {
			return con.DomainEventDeviceRemovalFailedRegister(nil, c.onRemovalFailed(s))
		}},
		{"agent-lifecycle", false, func() (int, error) {
			return con.DomainEventAgentLifecycleRegister(nil, func(k *lv.Connect, d *lv.Domain, _ *lv.DomainEventAgentLifecycle) { look(k, d) })
		}},
		{"migration-iteration", false, func() (int, error) {
			return con.DomainEventMigrationIterationRegister(nil, func(_ *lv.Connect, d *lv.Domain, _ *lv.DomainEventMigrationIteration) {
				s.pending.add(domainID(d), cause{job: true})
			})
		}},
		{"job-completed", false, func() (int, error) {
			return con.DomainEventJobCompletedRegister(nil, func(_ *lv.Connect, d *lv.Domain, _ *lv.DomainEventJobCompleted) {
				s.pending.add(domainID(d), cause{job: true})
			})
		}},
		{"nic-mac-change", false, func() (int, error) {
			return con.DomainEventNICMACChangeRegister(nil, func(k *lv.Connect, d *lv.Domain, _ *lv.DomainEventNICMACChange) { look(k, d) })
		}},
	}
}

func (c *Conn) onRemoved(s *session) lv.DomainEventDeviceRemovedCallback {
	return func(_ *lv.Connect, d *lv.Domain, e *lv.DomainEventDeviceRemoved) {
		vm := domainID(d)
		c.unplugs.tell(device{vm, e.DevAlias}, removed)
		s.pending.add(vm, cause{})
	}
}

func (c *Conn) onRemovalFailed(s *session) lv.DomainEventDeviceRemovalFailedCallback {
	return func(_ *lv.Connect, d *lv.Domain, e *lv.DomainEventDeviceRemovalFailed) {
		vm := domainID(d)
		c.unplugs.tell(device{vm, e.DevAlias}, refused)
		s.pending.add(vm, cause{})
	}
}
