package libvirt

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// agentLimit bounds an agent call whose ctx has no deadline.
const agentLimit = 5 * time.Second

// Agent sends one command to the guest agent and returns its answer. The
// caller bounds it by ctx and limits how many it has under way per domain.
func (c *Conn) Agent(ctx context.Context, vm model.VMID, command []byte) ([]byte, error) {
	ctx, cancel := withDefault(ctx, agentLimit)
	defer cancel()
	s, err := c.session()
	if err != nil {
		return nil, fail("ask the guest agent of", c.inv.subject(vm), err)
	}
	out, err := onDomain(ctx, s.agents, vm, "guest agent", func(c *client, d lv.Domain) (lv.OptString, error) {
		return c.QEMUDomainAgentCommand(d, string(command), agentTimeout(ctx), 0)
	})
	if isCode(err, lv.ErrOperationInvalid) {
		// libvirt says "not running" of a paused domain too.
		if _, gone := c.fresh(ctx, s, vm); isGone(gone) {
			err = gone
		}
	}
	if err != nil {
		return nil, fail("ask the guest agent of", c.inv.subject(vm), err)
	}
	return []byte(strings.Join(out, "")), nil // none or one
}

func withDefault(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// agentTimeout is what is left of ctx in whole seconds, so that libvirt gives up
// soon after we do and the domain's agent is not blocked for longer.
func agentTimeout(ctx context.Context) int32 {
	end, ok := ctx.Deadline()
	if !ok {
		return int32(lv.DomainAgentResponseTimeoutDefault)
	}
	seconds := (time.Until(end) + time.Second - 1) / time.Second
	return int32(min(max(1, seconds), math.MaxInt32))
}

// Agents asks guest agents, as Conn does.
type Agents interface {
	Agent(ctx context.Context, vm model.VMID, command []byte) ([]byte, error)
}

// Patient asks guest agents, but waits for its turn where an earlier command, whose caller
// has given up, is still under way: until ctx ends. It is for callers whose commands are worth that.
type Patient struct{ Agents }

// Agent implements Agents.
func (p Patient) Agent(ctx context.Context, vm model.VMID, command []byte) ([]byte, error) {
	ctx, cancel := withDefault(ctx, agentLimit)
	defer cancel()
	for {
		out, err := p.Agents.Agent(ctx, vm, command)
		if !errors.Is(err, ErrStuck) {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(agentTurn):
		}
	}
}

// agentTurn is how often it is looked whether it is one's turn.
const agentTurn = 50 * time.Millisecond
