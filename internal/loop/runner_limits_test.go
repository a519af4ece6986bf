package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/model"
)

// enforcer is an Enforcer that notes what it is asked for.
type enforcer struct {
	mu    sync.Mutex
	slow  time.Duration
	err   error
	asked [][]model.Limit
	now   int // batches under way
	most  int
}

func (e *enforcer) Name() string { return "test" }

func (e *enforcer) Can(*model.Snapshot, model.LimitKey) model.Tri { return model.Unknown }

func (e *enforcer) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	e.mu.Lock()
	e.asked = append(e.asked, slices.Clone(batch))
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	time.Sleep(e.slow)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now--
	if e.err != nil {
		return nil, e.err
	}
	return batch, nil
}

// limited runs a Runner for 20 s on two holders, whose VFs the world shows limited
// though nothing wants that.
func runLimited(t *testing.T, e *enforcer, mode model.Mode) (log string) {
	w := &world{has: map[model.VMID]bool{"a": true, "b": true}}
	o := DefaultOptions
	o.Mode = mode
	core, err := NewCore(model.Rules{Policy: "fair", Interval: time.Hour}, o, &memJournal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	r := (&Runner{Core: core, Source: limitedWorld{w}, Actuator: w, Enforcer: e, Sample: time.Second, Log: slog.New(slog.NewTextHandler(&text, nil))}).Init()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

type limitedWorld struct{ *world }

func (w limitedWorld) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	s, err := w.world.Snapshot(ctx)
	for i := range s.PFs[0].VFs {
		s.PFs[0].VFs[i].MaxTxRate = 1e9
	}
	return s, err
}

func TestRunnerAppliesLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &enforcer{slow: 2500 * time.Millisecond}
		runLimited(t, e, model.ModeEnforce)
		if len(e.asked) < 5 || e.most != 1 {
			t.Fatalf("%d batches, %d at once; want several, one at a time", len(e.asked), e.most)
		}
		for _, b := range e.asked {
			if len(b) != 2 || b[0].VM != "a" || b[0].Bits != 0 || b[1].VM != "b" {
				t.Errorf("asked for %+v, want both limits lifted", b)
			}
		}
	})
}

func TestRunnerRestsAfterLimitsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &enforcer{err: errors.New("driver says no")}
		log := runLimited(t, e, model.ModeEnforce)
		if len(e.asked) != 1 || strings.Count(log, "driver says no") != 1 {
			t.Errorf("asked %d times in 20 s, log:\n%s", len(e.asked), log)
		}
		e = &enforcer{}
		runLimited(t, e, model.ModeObserve)
		if len(e.asked) != 0 {
			t.Errorf("observe mode applied %v", e.asked)
		}
	})
}

// A release ends the wait for a guest that does not take up its VF, in real time too.
func TestRunnerGivesUpAWaitForAReleasedVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		var ended error
		w.do = func(ctx context.Context, s model.Step) error {
			if s.Kind == model.StepWaitGuest && s.Subject.VM == "a" {
				<-ctx.Done()
				ended = ctx.Err()
				return ctx.Err()
			}
			return nil
		}
		r, view := start(t, w)
		time.Sleep(5 * time.Second)
		err := r.Call(t.Context(), func(time.Time) {
			rules := model.Rules{Policy: "activity", Interval: time.Minute, VMs: []model.VMRule{{Match: "a", Forbid: true, ByHand: true}}}
			if err := r.Core.SetRules(rules); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if v := view(); !errors.Is(ended, context.Canceled) || len(v.Active) != 0 || v.Totals.Failed != 0 {
			t.Errorf("3 s after the release the wait ended with %v, %d moves are under way, %d failed", ended, len(v.Active), v.Totals.Failed)
		}
	})
}
