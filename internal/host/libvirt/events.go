package libvirt

import (
	"context"
	"sync"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// pending collects the domains that events are about until the reconnect loop reads them. It holds one entry per domain, however many
// events arrive.
type pending struct {
	mu    sync.Mutex
	dirty map[model.VMID]cause
	wake  chan struct{}
}

// cause is why a domain must be read again.
type cause struct {
	booted bool // it rebooted
	job    bool // a job began, progressed or ended
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

// notify signals on a channel of capacity 1 without blocking.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// registration is one kind of event. Without a mandatory one (must) the inventory cannot be maintained.
type registration struct {
	name string
	must bool
	id   lv.DomainEventID
}

// registrations lists the events that go-libvirt can decode. job-completed is not among them: follow polls jobs to detect their end.
var registrations = []registration{
	{"lifecycle", true, lv.DomainEventIDLifecycle},
	{"reboot", false, lv.DomainEventIDReboot},
	{"control-error", false, lv.DomainEventIDControlError},
	{"device-added", false, lv.DomainEventIDDeviceAdded},
	{"device-removed", false, lv.DomainEventIDDeviceRemoved},
	{"device-removal-failed", false, lv.DomainEventIDDeviceRemovalFailed},
	{"agent-lifecycle", false, lv.DomainEventIDAgentLifecycle},
	{"migration-iteration", false, lv.DomainEventIDMigrationIteration},
	{"metadata-change", false, lv.DomainEventIDMetadataChange},
}

// register subscribes to all events that can change the inventory. An older libvirt may lack some of them; the periodic re-read then
// replaces them.
//
// A subscription lasts as long as its connection. go-libvirt can end one by its context, but an event at that moment would block all later
// ones.
func (c *Conn) register(s *session, conn *client) error {
	for _, reg := range registrations {
		events, err := conn.SubscribeEvents(context.Background(), reg.id, nil)
		if err != nil && (reg.must || !conn.alive()) {
			return err
		}
		if err != nil {
			c.o.Logger.Info("libvirt does not send an event; a slower check replaces it", "event", reg.name, "error", plain(err))
			continue
		}
		s.wg.Go(func() {
			for e := range events { // until the connection ends
				c.note(s, e)
			}
		})
	}
	return nil
}

// note only records an event and returns quickly: go-libvirt buffers pending events in memory without bound.
func (c *Conn) note(s *session, event any) {
	look := func(d lv.Domain, w cause) { s.pending.add(vmID(d), w) }
	switch e := event.(type) {
	case *lv.DomainEventCallbackLifecycleMsg:
		look(e.Msg.Dom, cause{})
	case *lv.DomainEventCallbackRebootMsg:
		look(e.Msg.Dom, cause{booted: true})
	case *lv.DomainEventCallbackControlErrorMsg:
		look(e.Msg.Dom, cause{})
	case *lv.DomainEventCallbackDeviceAddedMsg:
		look(e.Dom, cause{})
	case *lv.DomainEventCallbackDeviceRemovedMsg:
		c.unplugs.tell(device{vmID(e.Msg.Dom), e.Msg.DevAlias}, removed)
		look(e.Msg.Dom, cause{})
	case *lv.DomainEventCallbackDeviceRemovalFailedMsg:
		c.unplugs.tell(device{vmID(e.Dom), e.DevAlias}, refused)
		look(e.Dom, cause{})
	case *lv.DomainEventCallbackAgentLifecycleMsg:
		look(e.Dom, cause{})
	case *lv.DomainEventCallbackMigrationIterationMsg:
		look(e.Dom, cause{job: true})
	case *lv.DomainEventCallbackMetadataChangeMsg:
		look(e.Dom, cause{})
	}
}
