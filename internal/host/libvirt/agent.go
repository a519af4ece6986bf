package libvirt

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// agentLimit bounds an agent call whose ctx has no deadline.
const agentLimit = 5 * time.Second

// Agent sends one command to the guest agent and returns its answer. The caller bounds it by ctx and limits the concurrent calls per
// domain.
func (c *Conn) Agent(ctx context.Context, vm model.VMID, command []byte) (answer []byte, err error) {
	defer func() { err = fail("ask the guest agent of", c.inv.subject(vm), err) }()
	ctx, cancel := withDefault(ctx, agentLimit)
	defer cancel()
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	out, err := onDomain(ctx, s.agents, vm, "guest agent", func(c *client, d lv.Domain) (lv.OptString, error) {
		return c.QEMUDomainAgentCommand(d, string(command), agentTimeout(ctx), 0)
	})
	if isCode(err, lv.ErrOperationInvalid) {
		// libvirt also reports "not running" for a paused domain.
		if _, gone := c.fresh(ctx, s, vm); isGone(gone) {
			err = gone
		}
	}
	return []byte(strings.Join(out, "")), err // zero or one string
}

func withDefault(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// agentTimeout returns the time left of ctx in whole seconds, so that libvirt gives up soon after the caller and does not block the
// domain's agent for longer.
func agentTimeout(ctx context.Context) int32 {
	end, ok := ctx.Deadline()
	if !ok {
		return int32(lv.DomainAgentResponseTimeoutDefault)
	}
	seconds := (time.Until(end) + time.Second - 1) / time.Second
	return int32(min(max(1, seconds), math.MaxInt32))
}

// Agents sends commands to guest agents, as Conn does.
type Agents interface {
	Agent(ctx context.Context, vm model.VMID, command []byte) ([]byte, error)
}

// Patient sends commands to guest agents, but if an abandoned earlier command is still running, it retries until ctx ends instead of
// failing. It is for callers for whom the wait is acceptable.
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
		if sleep.For(ctx, agentTurn) != nil {
			return out, err
		}
	}
}

// agentTurn is the interval of these retries.
const agentTurn = 50 * time.Millisecond
