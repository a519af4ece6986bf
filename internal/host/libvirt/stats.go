package libvirt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	lv "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"sluice/internal/model"
)

// Stats returns CPU time and state of all active domains. A domain for which libvirt does not answer in time is left out.
//
// It queries each domain separately instead of using libvirt's bulk call: if CPU time is requested, the bulk call asks every QEMU for its
// halt-polling times, so a single stuck QEMU would delay the results of all, even with NOWAIT.
func (c *Conn) Stats(ctx context.Context) (map[model.VMID]Stat, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	return c.stats(ctx, s, c.inv.ids(true))
}

func (c *Conn) stats(ctx context.Context, s *session, ids []model.VMID) (map[model.VMID]Stat, error) {
	out := make(map[model.VMID]Stat, len(ids))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(queryConns - 1)
	for _, vm := range ids {
		g.Go(func() error {
			st, err := onDomain(ctx, s.queries, vm, "read statistics", domainStat)
			if err != nil && s.lost(err) {
				return err
			}
			if err == nil && st.State != model.VMStopped {
				mu.Lock()
				out[vm] = st
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fail("read statistics from", c.o.URI, err)
	}
	if len(out) == 0 && len(ids) > 0 && ctx.Err() != nil {
		return nil, fmt.Errorf("read statistics from %s: %w", c.o.URI, ctx.Err())
	}
	return out, nil
}

func domainStat(c *client, d lv.Domain) (Stat, error) {
	n, _, _, _, cpu, err := c.DomainGetInfo(d)
	if err != nil {
		return Stat{}, err
	}
	state := lv.DomainState(n)
	if state == lv.DomainShutoff {
		return Stat{}, errors.New("it is not running")
	}
	return Stat{CPUTime: time.Duration(min(cpu, math.MaxInt64)), CPUKnown: true, State: stateOf(state, 0)}, nil
}
