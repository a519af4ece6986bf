package libvirt

import (
	"context"
	"sync"

	lv "github.com/digitalocean/go-libvirt"

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

// registration is one kind of event. Without one that is a must there is no inventory.
type registration struct {
	name string
	must bool
	id   lv.DomainEventID
}

// registrations are the events that go-libvirt can read. It cannot read job-completed: what
// follows jobs finds their end (follow).
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

// register asks for all events that can change the inventory. An older libvirt may
// not know some of them; the periodic re-read then does their work.
//
// A subscription lives as long as its connection. go-libvirt can end one by its context,
// but a last event at that moment blocks all that comes after it.
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

// note only takes notes of an event: go-libvirt keeps those that are not taken yet in
// memory without bound.
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
