package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// enforcer is a loop.Enforcer that records its batches.
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

// still are Counters of NICs that send nothing.
type still struct {
	mu   sync.Mutex
	nics []model.NICID
}

func (s *still) Follow(snap *model.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nics = nil
	for i := range snap.VMs {
		s.nics = append(s.nics, model.NICID{VM: snap.VMs[i].ID, NIC: "ua-0"})
	}
}

func (s *still) Read(_ context.Context, buf []bandwidth.Reading) ([]bandwidth.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.nics {
		buf = append(buf, bandwidth.Reading{NIC: id, Path: model.PathVirtio, At: time.Now()})
	}
	return buf, nil
}

// runLimited runs both loops for 20 s over two VF holders with limits, and then stops them.
func runLimited(t *testing.T, e *enforcer, mode model.Mode, more ...loop.Enforcer) (log string, limits *Bandwidth) {
	t.Helper()
	w := &world{has: map[model.VMID]bool{"a": true, "b": true}}
	o := loop.DefaultOptions
	o.Mode = mode
	rules := model.Rules{Policy: "fair", Interval: time.Hour, VMs: []model.VMRule{{Match: "*", SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}}}}
	core, err := loop.NewCore(rules, o, &journal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	ctrl, err := bandwidth.NewCore(bandwidth.Options{Mode: mode, Allocator: "none", Period: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	limits = (&Bandwidth{
		Core: ctrl, Counters: &still{}, Enforcers: append(more, e), Period: 200 * time.Millisecond, Log: logger,
		LiftAll: true,
	}).Init()
	r := (&Placement{Core: core, Source: w, Actuator: w, Limits: limits, Sample: time.Second, Log: logger}).Init()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	over := make(chan error)
	go func() { over <- limits.Run(ctx) }()
	if err := errors.Join(r.Run(ctx), <-over); err != nil {
		t.Fatal(err)
	}
	return text.String(), limits
}

// counted counts the readings.
type counted struct {
	still
	reads atomic.Int64
}

func (c *counted) Read(ctx context.Context, buf []bandwidth.Reading) ([]bandwidth.Reading, error) {
	c.reads.Add(1)
	return c.still.Read(ctx, buf)
}

// While nothing is guaranteed or limited, counters are read once per second; a guarantee is kept from its first second on.
func TestQuietHostIsReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "waterfill", Period: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		counters := &counted{}
		r := (&Bandwidth{Core: core, Counters: counters, Enforcers: []loop.Enforcer{&enforcer{}}, Period: 100 * time.Millisecond}).Init()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- r.Run(ctx) }()
		w := bandwidth.World{Snapshot: &model.Snapshot{
			PFs: []model.PF{{Name: "pf0", Network: "br0", Speed: 1e10, LinkUp: true, Managed: true, Uplink: model.Uplink{Switch: "br0"}}},
			VMs: []model.VM{{ID: "a", Name: "a", State: model.VMRunning, NICs: []model.NIC{{Alias: "ua-0", Tap: "vnet0", Network: "br0"}}}},
		}}
		for _, c := range []struct {
			guarantee   uint64
			least, most int64
			period      time.Duration
		}{
			{0, 9, 11, time.Second},
			{1e9, 95, 101, 100 * time.Millisecond},
			{0, 9, 25, time.Second}, // limits that are in place are lifted first
		} {
			w.Rules = model.Rules{}
			if c.guarantee > 0 {
				w.Rules.VMs = []model.VMRule{{Match: "a", SLA: model.SLA{Guarantee: model.Rate{Bits: c.guarantee}}}}
			}
			before := counters.reads.Load()
			for range 10 {
				r.Follow(time.Now(), w)
				time.Sleep(time.Second)
			}
			if n := counters.reads.Load() - before; n < c.least || n > c.most {
				t.Errorf("with %d bit/s guaranteed %d readings in 10 s, want %d to %d", c.guarantee, n, c.least, c.most)
			}
			if v := r.View(); v.Period != c.period || v.Late != 0 {
				t.Errorf("with %d bit/s guaranteed the period is %s, %d late", c.guarantee, v.Period, v.Late)
			}
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// An enforcer gets one batch at a time, however long it takes, and in the end everything is lifted.
func TestLimitsAreAppliedOneBatchAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &enforcer{slow: 2500 * time.Millisecond}
		_, limits := runLimited(t, e, model.ModeEnforce)
		if len(e.asked) != 2 || e.most != 1 {
			t.Fatalf("%d batches, %d at once; want one that limits and one that lifts: %+v", len(e.asked), e.most, e.asked)
		}
		for i, want := range []uint64{1e9, 0} {
			for _, l := range e.asked[i] {
				if l.Contract.Bits != want {
					t.Errorf("batch %d: %+v, want a contract of %d", i, l, want)
				}
			}
		}
		if v := limits.View(); v.Late != 0 || len(v.NICs) != 2 {
			t.Errorf("%+v", v)
		}
	})
}

// A failure is logged once, and the limit is not retried at once. Observe mode applies nothing.
func TestLimitsRestAfterTheyFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &enforcer{err: errors.New("driver says no")}
		log, _ := runLimited(t, e, model.ModeEnforce)
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

// slowEnforcer hangs for one VM, beyond any deadline.
type slowEnforcer struct {
	enforcer
	hang model.VMID
	wait time.Duration
}

func (e *slowEnforcer) Slow()        {}
func (e *slowEnforcer) Name() string { return "slow" }

func (e *slowEnforcer) Can(_ *model.Snapshot, k model.LimitKey) model.Tri {
	return model.TriOf(k.Path == model.PathVF)
}

func (e *slowEnforcer) Apply(ctx context.Context, s *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	if batch[0].VM == e.hang {
		time.Sleep(e.wait)
	}
	return e.enforcer.Apply(ctx, s, batch)
}

// An enforcer that hangs for one VM delays neither another VM, nor another enforcer, nor the readings, nor the stop.
func TestHungEnforcerDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowEnforcer{hang: "a", wait: time.Minute}
		e := &enforcer{}
		begun := time.Now()
		log, limits := runLimited(t, e, model.ModeEnforce, slow)
		if d := time.Since(begun); d > 20*time.Second+2*stopWait+time.Second {
			t.Errorf("the end took until %s", d)
		}
		if v := limits.View(); v.Late != 0 || v.At.Sub(begun) < 19*time.Second {
			t.Errorf("readings were late: %d periods, the last at %s", v.Late, v.At.Sub(begun))
		}
		slow.mu.Lock()
		asked := slices.Clone(slow.asked)
		slow.mu.Unlock()
		if len(asked) == 0 || asked[0][0].VM != "b" || len(e.asked) < 2 {
			t.Errorf("b's guest: %+v; the other enforcer: %+v", asked, e.asked)
		}
		if !strings.Contains(log, "before an enforcer of limits has answered") {
			t.Errorf("log:\n%s", log)
		}
		time.Sleep(2 * time.Minute) // let the Apply that hangs end
	})
}

// locked is an enforcer of taps whose Apply takes 3 s, and whose Can waits for it.
type locked struct {
	lock    chan struct{}
	applied []time.Time
}

func (l *locked) Name() string { return "locked" }

func (l *locked) Can(_ *model.Snapshot, k model.LimitKey) model.Tri {
	l.lock <- struct{}{}
	defer func() { <-l.lock }()
	return model.TriOf(k.Path == model.PathVirtio && k.Dir == model.Rx)
}

func (l *locked) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	l.lock <- struct{}{}
	defer func() { <-l.lock }()
	time.Sleep(3 * time.Second)
	l.applied = append(l.applied, time.Now())
	return batch, nil
}

// renewals is an enforcer that measures the longest time between two Applies.
type renewals struct {
	enforcer
	last  time.Time
	worst time.Duration
}

func (e *renewals) Can(_ *model.Snapshot, k model.LimitKey) model.Tri {
	return model.TriOf(k.Path == model.PathVirtio && k.Dir == model.Tx && k.VM != "")
}

func (e *renewals) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	if !e.last.IsZero() {
		e.worst = max(e.worst, time.Since(e.last))
	}
	e.last = time.Now()
	return batch, nil
}

// While an enforcer is slow and its Can blocks, readings are taken and the leases of others are renewed in time. (If the runner
// waited for it while holding its lock, the test's clock would stop and the test time out.)
func TestSlowEnforcerHoldsUpNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{"a": true, "b": true}}
		snap, _ := w.Snapshot(t.Context())
		snap.PFs[0].Speed = 10e9
		ctrl, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "equal", Period: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		slow, quick := &locked{lock: make(chan struct{}, 1)}, &renewals{}
		r := (&Bandwidth{Core: ctrl, Counters: &still{}, Enforcers: []loop.Enforcer{slow, quick}, Period: 200 * time.Millisecond}).Init()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		over := make(chan error)
		go func() { over <- r.Run(ctx) }()
		rules := model.Rules{VMs: []model.VMRule{{Match: "*", SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}, Receive: model.Rate{Bits: 2e9}}}}}
		for k := 0; ctx.Err() == nil; k++ {
			rules.VMs[0].SLA.Receive.Bits++ // so that the slow one always has something to do
			s := *snap
			s.Time = time.Now()
			r.Follow(time.Now(), bandwidth.World{Snapshot: &s, Rules: rules})
			time.Sleep(time.Second)
		}
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		if late := r.View().Late; late > 0 || quick.worst < model.LimitLease/4 || quick.worst > model.LimitLease/2 || len(slow.applied) < 10 {
			t.Errorf("%d readings late, a lease of %s renewed after %s at worst, the slow enforcer was called %d times", late, model.LimitLease,
				quick.worst, len(slow.applied))
		}
	})
}

// left is an enforcer with a limit that an earlier run set.
type left struct{ enforcer }

func (l *left) InPlace(context.Context, *model.Snapshot) ([]model.Limit, error) {
	k := model.LimitKey{VM: "a", NIC: "ua-0", Path: model.PathVirtio, Dir: model.Rx}
	return []model.Limit{{LimitKey: k, Contract: model.Rate{Bits: 5e9}}}, nil
}

// A limit that an earlier run left and that is not wanted any more is lifted.
func TestLimitsOfAnEarlierRunAreLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &left{}
		runLimited(t, &enforcer{}, model.ModeEnforce, l)
		found := false
		for _, b := range l.asked {
			for _, x := range b {
				found = found || x.Dir == model.Rx && x.NIC == "ua-0" && x.VM == "a" && x.Lifts()
			}
		}
		if !found {
			t.Errorf("asked for %+v, want a's limit on receiving lifted", l.asked)
		}
	})
}

// sweeper is an enforcer that records when Sweep is called.
type sweeper struct {
	enforcer
	name  string
	order *[]string
}

func (s *sweeper) Name() string { return s.name }

func (s *sweeper) Sweep(_ context.Context, snap *model.Snapshot) error {
	if snap.FindVM("a") == nil {
		return errors.New("swept for a host without VMs")
	}
	*s.order = append(*s.order, s.name)
	return nil
}

// In enforce mode leftovers of an earlier run are removed once: those of single taps before the trees they are directed to. In
// observe mode nothing is removed until the mode changes.
func TestObserveModeSweepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		trees, taps := &sweeper{name: "trees", order: &order}, &sweeper{name: "taps", order: &order}
		_, limits := runLimited(t, &enforcer{}, model.ModeObserve, trees, taps)
		if len(order) > 0 {
			t.Fatalf("observe mode swept %q", order)
		}
		if err := limits.SetOptions(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "none", Period: 200 * time.Millisecond},
			true); err != nil {
			t.Fatal(err)
		}
		snap, _ := (&world{has: map[model.VMID]bool{"a": true}}).Snapshot(t.Context())
		for range 2 {
			limits.Follow(time.Now(), bandwidth.World{Snapshot: snap})
			synctest.Wait()
		}
		if !slices.Equal(order, []string{"taps", "trees"}) {
			t.Errorf("swept %q", order)
		}
		order = nil
		runLimited(t, &enforcer{}, model.ModeEnforce, trees, taps)
		if !slices.Equal(order, []string{"taps", "trees"}) {
			t.Errorf("from the start swept %q", order)
		}
	})
}

// After a kill, rates are lifted without a daemon, and contracts too if all is to be lifted.
func TestLiftInPlaceOfADeadDaemon(t *testing.T) {
	for _, all := range []bool{false, true} {
		snap, _ := (&world{has: map[model.VMID]bool{"a": true}}).Snapshot(t.Context())
		snap.PFs[0].VFs[0].MaxTxRate = 3e8 // less than a's limit: its current rate
		e := &vfRates{}
		rules := model.Rules{VMs: []model.VMRule{{Match: "a", SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}}}}
		if err := lifter(t, all, e).Lift(time.Now(), bandwidth.World{Snapshot: snap, Rules: rules}); err != nil {
			t.Fatal(err)
		}
		want := uint64(1e9)
		if all {
			want = 0
		}
		if len(e.asked) != 1 || e.asked[0][0].Tightest().Bits != want || e.asked[0][0].VM != "a" {
			t.Errorf("all: %v: asked for %+v, want %d", all, e.asked, want)
		}
		e.err = errors.New("driver says no")
		if err := lifter(t, all, e).Lift(time.Now(), bandwidth.World{Snapshot: snap, Rules: rules}); err == nil {
			t.Error("no error where nothing could be lifted")
		}
	}
}

// If no limits are in place, lifting in place of a dead daemon sets none either: it may never have limited anything.
func TestLiftSetsNothing(t *testing.T) {
	snap, _ := (&world{has: map[model.VMID]bool{"a": true}}).Snapshot(t.Context())
	rules := model.Rules{VMs: []model.VMRule{{Match: "*", SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}}}}
	for _, all := range []bool{false, true} {
		e := &enforcer{}
		if err := lifter(t, all, e).Lift(time.Now(), bandwidth.World{Snapshot: snap, Rules: rules}); err != nil || len(e.asked) > 0 {
			t.Errorf("all: %v: asked for %+v, %v", all, e.asked, err)
		}
	}
}

// guests is a slow enforcer with limits of two VMs that fails for the first.
type guests struct {
	enforcer
	failed chan struct{}
}

func (*guests) Slow() {}

func (*guests) InPlace(context.Context, *model.Snapshot) (inPlace []model.Limit, err error) {
	for _, vm := range []model.VMID{"a", "b"} {
		inPlace = append(inPlace, model.Limit{
			LimitKey: model.LimitKey{VM: vm, NIC: "ua-0", Path: model.PathVF, Dir: model.Tx},
			Rate:     model.Rate{Bits: 1e6},
		})
	}
	return inPlace, nil
}

func (g *guests) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	if batch[0].VM == "a" {
		defer close(g.failed)
		return nil, errors.New("no answer from the agent")
	}
	<-g.failed
	return batch, nil
}

// If the limits of one VM could not be lifted, Lift reports it even if those of another could.
func TestLiftTellsOfEachVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snap, _ := (&world{has: map[model.VMID]bool{"a": true, "b": true}}).Snapshot(t.Context())
		err := lifter(t, true, &guests{failed: make(chan struct{})}).Lift(time.Now(), bandwidth.World{Snapshot: snap})
		if err == nil || !strings.Contains(err.Error(), "of VM a") {
			t.Errorf("a's could not be lifted, and Lift says: %v", err)
		}
	})
}

// lifter returns a Bandwidth that lifts the limits of one enforcer.
func lifter(t *testing.T, all bool, e loop.Enforcer) *Bandwidth {
	t.Helper()
	ctrl, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "none", Period: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return (&Bandwidth{Core: ctrl, Enforcers: []loop.Enforcer{e}, LiftAll: all}).Init()
}

// vfRates is an enforcer for what VFs send.
type vfRates struct{ enforcer }

func (*vfRates) Name() string { return "max_tx_rate" }

func (*vfRates) Can(_ *model.Snapshot, k model.LimitKey) model.Tri {
	return model.TriOf(k.Path == model.PathVF && k.Dir == model.Tx)
}

// waits is a Plugs that delays plugs until a given time.
type waits struct {
	mu    sync.Mutex
	until time.Time
}

func (w *waits) Expect(model.NICID) {}

func (w *waits) Plug(model.NICID) (rate model.Rate, wait string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().Before(w.until) {
		return rate, "its guest is being limited first"
	}
	return model.Rate{Bits: 2_500_000_000}, ""
}

func (w *waits) Contained() []bandwidth.Contained { return nil }

// A plug waits until its limit is in place, says so, and then the VF has the limit from the start.
func TestPlugWaitsForItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		p := &waits{until: time.Now().Add(5 * time.Second)}
		var rates []uint64
		var begun time.Time
		w.do = func(_ context.Context, s model.Step) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if s.Kind == model.StepSetVF {
				rates = append(rates, s.VF.MaxTxRate)
			}
			if begun.IsZero() {
				begun = time.Now()
			}
			return nil
		}
		r, view := start(t, w)
		if err := r.Call(t.Context(), func(time.Time) { r.Core.LimitPlugs(p) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if v := view(); len(v.Target.Reasons) != 2 || !strings.Contains(v.Target.Reasons[0].Detail,
			"the plug waits: its guest is being limited first") || len(v.Active) > 0 {
			t.Errorf("reasons %+v, under way %v", v.Target.Reasons, v.Active)
		}
		time.Sleep(10 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if begun.Before(p.until) || len(rates) != 2 || rates[0] != 2_500_000_000 {
			t.Errorf("began %s before the limit was in force, rates %v", p.until.Sub(begun), rates)
		}
	})
}

// Releasing a VM ends the wait for a guest that does not start to use its VF, in the real-time runner too.
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

// slowSweeper takes half of stopWait to sweep.
type slowSweeper struct {
	enforcer
	swept atomic.Bool
}

func (s *slowSweeper) Sweep(context.Context, *model.Snapshot) error {
	time.Sleep(stopWait / 2)
	s.swept.Store(true)
	return nil
}

// Run ends only when the sweep that Follow began has ended.
func TestStopWaitsForTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &slowSweeper{}
		core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "none", Period: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		limits := (&Bandwidth{Core: core, Counters: &still{}, Enforcers: []loop.Enforcer{e}, Period: 200 * time.Millisecond}).Init()
		snap, _ := (&world{has: map[model.VMID]bool{"a": true}}).Snapshot(t.Context())
		limits.Follow(time.Now(), bandwidth.World{Snapshot: snap})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := limits.Run(ctx); err != nil || !e.swept.Load() {
			t.Errorf("%v; swept: %v", err, e.swept.Load())
		}
		time.Sleep(stopWait)
	})
}
