package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// The daemon is killed at each call of the switch and QEMU in ADD and DEL. The next daemon completes or reverts what was begun, no VF
// is ever up without its policy, and what the runtime does next (DEL, or ADD again) works.
func TestKilledAtEachStep(t *testing.T) {
	for step := range 12 {
		for _, then := range []string{"add", "del"} {
			t.Run(fmt.Sprint(step, " then ", then), func(t *testing.T) { killedAt(t, step, then) })
		}
	}
}

func killedAt(t *testing.T, step int, then string) {
	r := newRig(t)
	p, g := r.run("a", 1)
	sane := newMachine()
	open := func(s *vpf.State) *vpf.State { // the State with the grant, and without it
		with := s.Clone()
		with.Virtual[0].VFs[0].Grant = &model.VFGrant{Owner: "pod", Port: model.PortPolicy{Isolated: true}}
		return with
	}
	base := r.Runner.Store.State()
	sane.past["a"] = []*vpf.State{base, open(base)}
	yes := true
	ask := channel.Attach{VF: at(p, 0), Owner: "pod", Isolated: &yes}
	dead := errors.New("killed")
	left := step
	ctx, cancel := context.WithCancel(t.Context())
	r.host.mu.Lock()
	r.host.sane = sane.sane
	r.host.fail = func(string) error { // nothing is done after the kill
		if left--; left < 0 {
			cancel()
			return dead
		}
		return nil
	}
	r.host.mu.Unlock()
	_, _ = g.Attach(ctx, ask)
	_ = g.Detach(ctx, channel.Detach{VF: ask.VF, Owner: "pod"})
	cancel()
	r.stop()
	r.host.mu.Lock()
	r.host.fail = func(string) error { return nil }
	r.host.mu.Unlock()
	r.begin()
	g = r.Guest("a")
	r.until("it is seen", func() bool { v, _ := r.Runner.View(); return v.World != nil })
	within, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	want := model.No
	if then == "add" {
		want = model.Yes
		if _, err := g.Attach(within, ask); err != nil {
			t.Error(err)
		}
	} else if err := g.Detach(within, channel.Detach{VF: ask.VF, Owner: "pod"}); err != nil {
		t.Error(err)
	}
	if c := r.carrier("a", p.VFAlias(0)); c != want {
		t.Errorf("carrier %s, want %s", c, want)
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	if r.host.wrong != "" {
		t.Error(r.host.wrong)
	}
}

// Observe mode changes nothing, and tells so in its answers.
func TestObserveModeChangesNothing(t *testing.T) {
	r := newRig(t)
	p := r.define("a", 1)
	r.stop()
	r.Runner.Init().Enforce = func() bool { return false }
	calls := r.host.calls
	r.host.start("a", []model.VirtualPF{p})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Runner.Run(ctx) }()
	defer func() { cancel(); <-done }()
	r.until("it is seen", func() bool { v, _ := r.Runner.View(); return v.Find("a", "vpf0") != nil && v.Find("a", "vpf0").Running })
	if _, err := r.Guest("a").Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod"}); code(err) != channel.CodeFailed {
		t.Errorf("attach: %v", err)
	}
	for what, err := range map[string]error{
		"define":   func() error { _, err := r.Define(ctx, vpftest.PF("b", "vpf0", 1)); return err }(),
		"undefine": r.Undefine(ctx, "a", "vpf0"), "set": r.set(ctx, "a", "vpf0", 0, model.PortPolicy{}),
	} {
		if !errors.Is(err, errObserve) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	if r.host.calls != calls+1 { // the one that started it
		t.Errorf("%d calls", r.host.calls-calls)
	}
}
