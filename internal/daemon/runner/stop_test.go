package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// cutOff follows the Steps done for a VM that began on virtio, and returns after which Step it cannot be reached from the wire or
// from the bridge; "" if it always can.
func cutOff(done []model.StepKind) string {
	var mac, self, mirror, toPF, open bool
	for i, k := range done {
		switch k {
		case model.StepAddSelf:
			self = true
		case model.StepDelSelf:
			self = false
		case model.StepOpenDualPath:
			mirror, toPF = true, false
		case model.StepCloseDualPath:
			mirror = false
		case model.StepSetMAC:
			mac = true
		case model.StepClearVF:
			mac = false
		case model.StepWaitGuest:
			open = true
		case model.StepWaitGone:
			open = false
		case model.StepRouteToVF:
			toPF = true
		case model.StepRouteToTap:
			toPF = false
		case model.StepFollowGuest:
			toPF, self, mirror = open, !open, false
		}
		wire, bridge := !mac || self, !toPF
		if open {
			wire, bridge = mac, toPF || mirror
		}
		if !wire || !bridge {
			return fmt.Sprintf("after %s (%v): from the wire %v, from the bridge %v", k, done[:i+1], wire, bridge)
		}
	}
	return ""
}

// A stop at any Step of a plug, or of one that is being undone, ends that Move with its dual path closed, and begins no other.
// The VM can be reached all the time.
func TestStopEndsTheMoveUnderWay(t *testing.T) {
	for _, fails := range []model.StepKind{"", model.StepWaitGuest, model.StepDelSelf} {
		for n := 1; n <= 14; n++ {
			synctest.Test(t, func(t *testing.T) { stopAt(t, n, fails) })
		}
	}
}

// stopAt stops while the n-th Step is under way.
func stopAt(t *testing.T, n int, fails model.StepKind) {
	w := &world{has: map[model.VMID]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := 0
	w.do = func(_ context.Context, s model.Step) error {
		if started++; started == n {
			cancel()
		}
		time.Sleep(100 * time.Millisecond)
		if s.Kind == fails {
			return errors.New("no")
		}
		return nil
	}
	j := &journal{}
	opts := loop.Options{Mode: model.ModeEnforce, Parallel: 1, RetryDelay: time.Second, Timeouts: loop.DefaultOptions.Timeouts}
	core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute}, opts, j, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := (&Placement{Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.DiscardHandler)}).Init()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !core.Settled() {
		t.Errorf("stopped at step %d, %q fails: a move is under way still", n, fails)
	}
	for vm, done := range w.kinds {
		if cut := cutOff(done); cut != "" {
			t.Errorf("stopped at step %d, %q fails: %s is cut off %s", n, fails, vm, cut)
		}
		open := slices.Index(done, model.StepOpenDualPath) >= 0
		last := done[len(done)-1]
		if open && last != model.StepAnnounce {
			t.Errorf("stopped at step %d, %q fails: the last step of %s is %s", n, fails, vm, last)
		}
	}
}

// A stop while the host is observed is no failure to observe it.
func TestStopWhileObserving(t *testing.T) {
	for range 20 { // the loop may see either first
		synctest.Test(t, func(t *testing.T) {
			core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute}, loop.DefaultOptions, &journal{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			r := (&Placement{Core: core, Source: untilStopped{}, Sample: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}).Init()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				r.calls <- func(time.Time) { cancel(); time.Sleep(time.Millisecond) } // the observation ends meanwhile
			}()
			if err := r.Run(ctx); err != nil || log.Len() > 0 {
				t.Errorf("%v; it logged %s", err, &log)
			}
		})
	}
}

type untilStopped struct{}

func (untilStopped) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A stop does not wait for a guest that does not respond: its VM keeps both paths, and the journal keeps its Move.
func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end := make(chan struct{})
		defer close(end)
		w.do = func(_ context.Context, s model.Step) error {
			if s.Kind == model.StepWaitGuest {
				cancel()
				<-end
			}
			return nil
		}
		opts := loop.Options{Mode: model.ModeEnforce, Parallel: 1, Timeouts: loop.DefaultOptions.Timeouts}
		core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute}, opts, &journal{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := (&Placement{Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.DiscardHandler)}).Init()
		begin := time.Now()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < stopGrace || took > stopGrace+2*time.Second {
			t.Errorf("it took %s to stop, want the grace of %s", took, stopGrace)
		}
		if cut := cutOff(w.kinds["a"]); cut != "" {
			t.Errorf("a is cut off %s", cut)
		}
	})
}
