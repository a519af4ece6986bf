package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// world is the minimal host for a Placement: two VMs and a VF for each.
type world struct {
	mu    sync.Mutex
	delay time.Duration
	err   error
	has   map[model.VMID]bool
	do    func(ctx context.Context, s model.Step) error
	done  []string
	kinds map[model.VMID][]model.StepKind // what was done, in order
}

func (w *world) Snapshot(context.Context) (*model.Snapshot, error) {
	now := time.Now()
	time.Sleep(w.delay)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &model.Snapshot{Time: now, Read: now, PFs: []model.PF{{Name: "pf0", Network: "br0", Managed: true, LinkUp: true}}}
	for i, id := range []model.VMID{"a", "b"} {
		vf := model.VF{ID: model.VFID{PF: "pf0", Index: i}, Owner: model.OwnerFree}
		nic := model.NIC{Alias: "ua-0", MAC: model.MAC{byte(i + 1)}, Network: "br0", Failover: model.FailoverTeaming}
		if w.has[id] {
			vf.Owner, vf.Holder, vf.MAC, vf.InGuest = model.OwnerSluice, id, nic.MAC, model.Yes
			nic.VF, nic.VFOwner, nic.Route = vf.ID, model.OwnerSluice, "pf0"
		}
		s.PFs[0].VFs = append(s.PFs[0].VFs, vf)
		s.VMs = append(s.VMs, model.VM{ID: id, Name: string(id), State: model.VMRunning, NICs: []model.NIC{nic}})
	}
	return s, w.err
}

func (w *world) Do(ctx context.Context, s model.Step) error {
	if w.do != nil {
		if err := w.do(ctx, s); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, s.String())
	if w.kinds == nil {
		w.kinds = map[model.VMID][]model.StepKind{}
	}
	w.kinds[s.Subject.VM] = append(w.kinds[s.Subject.VM], s.Kind)
	switch s.Kind {
	case model.StepWaitGuest:
		w.has[s.Subject.VM] = true
	case model.StepWaitGone:
		w.has[s.Subject.VM] = false
	}
	return nil
}

func (w *world) holds(id model.VMID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has[id]
}

// start runs a Placement on w inside the test's synctest bubble until the test ends.
func start(t *testing.T, w *world, sample ...time.Duration) (*Placement, func() *model.View) {
	t.Helper()
	opts := loop.DefaultOptions
	opts.Mode = model.ModeEnforce
	core, err := loop.NewCore(model.Rules{Policy: "activity", Interval: time.Minute}, opts, &journal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var last *model.View
	r := (&Placement{
		Core: core, Source: w, Actuator: w, Sample: append(sample, time.Second)[0], Log: slog.New(slog.DiscardHandler),
		Publish: func(v *model.View) {
			mu.Lock()
			defer mu.Unlock()
			last = v
		},
	}).Init()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r, func() *model.View {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// journal is a loop.Journal that can be made to fail.
type journal struct {
	asked int
	err   error
}

func (j *journal) Begin(model.Move) error { j.asked++; return j.err }
func (j *journal) End(model.Move) error   { return nil }

func TestRunnerPlugs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		_, view := start(t, w)
		time.Sleep(3 * time.Second)
		if !w.holds("a") || !w.holds("b") {
			t.Errorf("after 3 s: %v", w.has)
		}
		if v := view(); v.Totals.Plugs != 2 || len(v.Active) != 0 {
			t.Errorf("view shows %d plugs, %d active", v.Totals.Plugs, len(v.Active))
		}
	})
}

func TestStuckStepDelaysNoOtherVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		w.do = func(ctx context.Context, s model.Step) error {
			if s.Subject.VM == "a" && s.Kind == model.StepAttach {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		_, view := start(t, w)
		time.Sleep(3 * time.Second)
		if !w.holds("b") {
			t.Error("b waits for a, whose attach is stuck")
		}
		time.Sleep(time.Duration(loop.DefaultOptions.Retries+2) * loop.DefaultOptions.Timeouts.Attach) // all tries and delays
		v := view()
		if r := v.Target.Reasons[0]; r.Code != model.CodeBackoff && r.Code != model.CodeMoving {
			t.Errorf("a: %s", r)
		}
		if v.Totals.Failed == 0 || v.Totals.Retries == 0 {
			t.Errorf("a's attach ran into its deadline, but totals are %+v", v.Totals)
		}
	})
}

func TestUnknownWorldChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}, err: errors.New("libvirtd is away")}
		_, view := start(t, w)
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		n := len(w.done)
		w.err = nil
		w.mu.Unlock()
		if n != 0 || len(view().Errors) == 0 {
			t.Errorf("%d steps done on an unknown world, error %q", n, view().Errors)
		}
		time.Sleep(3 * time.Second)
		if !w.holds("a") || len(view().Errors) > 0 {
			t.Errorf("not going again after the world came back: %q", view().Errors)
		}
	})
}

func TestSlowObservationIsNotPiledUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}, delay: 3500 * time.Millisecond}
		_, view := start(t, w)
		time.Sleep(20 * time.Second)
		if n := view().Totals.LateSamples; n < 10 {
			t.Errorf("%d late samples counted, want at least 10", n)
		}
		if !w.holds("a") {
			t.Error("a slow source must not stop the work")
		}
	})
}

func TestStopWaitsForTheStepUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		var finished bool
		w.do = func(_ context.Context, s model.Step) error {
			if s.Kind == model.StepAttach {
				time.Sleep(4 * time.Second)
				finished = true
			}
			return nil
		}
		core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute},
			loop.Options{Mode: model.ModeEnforce, Timeouts: loop.DefaultOptions.Timeouts}, &journal{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := (&Placement{Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.DiscardHandler)}).Init()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if !finished {
			t.Error("Run returned while an attach was under way")
		}
	})
}

func TestCallRunsInsideTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		r, view := start(t, w)
		time.Sleep(2500 * time.Millisecond)
		err := r.Call(t.Context(), func(time.Time) {
			publish := r.Publish
			r.Publish = func(v *model.View) {
				time.Sleep(100 * time.Millisecond) // a slow disk, for events
				publish(v)
			}
			if err := r.Core.SetRules(model.Rules{Policy: "activity", Interval: time.Minute, Drain: true}); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if !view().Rules.Drain {
			t.Error("Call has returned before there is a View of what it did")
		}
		time.Sleep(3 * time.Second)
		if v := view(); v.Totals.Unplugs != 2 {
			t.Errorf("%d unplugs after a drain, want 2", v.Totals.Unplugs)
		}
	})
}

// TestAliveWhileTheWorldIsUnknown: libvirtd may be away for longer than the watchdog's period.
func TestAliveWhileTheWorldIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}, err: errors.New("libvirtd is away")}
		core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute}, loop.DefaultOptions, &journal{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		beats := 0
		r := (&Placement{
			Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.DiscardHandler),
			Alive: func() { beats++ },
		}).Init()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if beats < 9 {
			t.Errorf("%d signs of life in 10 s without libvirt", beats)
		}
	})
}

func TestStopBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		w.do = func(_ context.Context, s model.Step) error {
			if s.Kind == model.StepAnnounce {
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		j := &journal{}
		core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute},
			loop.Options{Mode: model.ModeEnforce, Parallel: 1, Timeouts: loop.DefaultOptions.Timeouts}, j, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := (&Placement{Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.DiscardHandler)}).Init()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if j.asked != 1 {
			t.Errorf("%d moves begun, the second of them while stopping", j.asked)
		}
		if cut := cutOff(w.kinds["a"]); cut != "" {
			t.Errorf("a is cut off: %s", cut)
		}
	})
}

// A retry starts when it is due, not at the next sample.
func TestRetryIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var once sync.Once
		w := &world{has: map[model.VMID]bool{"b": true}}
		w.do = func(_ context.Context, s model.Step) (err error) {
			if s.Kind == model.StepAttach {
				once.Do(func() { err = errors.New("not now") })
			}
			return err
		}
		start(t, w, time.Minute)
		for !w.holds("a") {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("plugged after %s", took)
		}
	})
}

func TestFullDiskIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		j := &journal{err: syscall.ENOSPC}
		o := loop.DefaultOptions
		o.Mode = model.ModeEnforce
		core, err := loop.NewCore(model.Rules{Policy: "fair", Interval: time.Minute}, o, j, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		var last *model.View
		r := (&Placement{
			Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Publish: func(v *model.View) { last = v },
		}).Init()
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "no space left on device"); n != 1 ||
			!strings.Contains(strings.Join(last.Errors, ""), "no space left on device") {
			t.Errorf("told %d times, and the View says %q; log:\n%s", n, last.Errors, log.String())
		}
	})
}
