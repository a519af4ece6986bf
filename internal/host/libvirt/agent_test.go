package libvirt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/model"
)

// agentsBehind answers once an earlier command, which takes that long, has returned.
type agentsBehind struct {
	until time.Time
	asked int
}

func (a *agentsBehind) Agent(context.Context, model.VMID, []byte) ([]byte, error) {
	a.asked++
	if time.Now().Before(a.until) {
		return nil, fmt.Errorf("ask: %w", ErrStuck)
	}
	return []byte("{}"), nil
}

func TestPatientWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agentsBehind{until: time.Now().Add(3 * time.Second)}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if out, err := (Patient{a}).Agent(ctx, "vm", nil); err != nil || string(out) != "{}" {
			t.Errorf("answer %q, %v after %d tries", out, err, a.asked)
		}
		a = &agentsBehind{until: time.Now().Add(time.Hour)}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := (Patient{a}).Agent(ctx, "vm", nil); !errors.Is(err, ErrStuck) || time.Since(begin) != time.Second {
			t.Errorf("a command that never ends: %v after %s", err, time.Since(begin))
		}
	})
}
