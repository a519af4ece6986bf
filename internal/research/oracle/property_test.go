package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/control/placement"
	"sluice/internal/model"
	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

// small draws a workload of a few VMs, some of which arrive late or depart.
func small(t *rapid.T) *Workload {
	w := &Workload{VFs: rapid.IntRange(1, 3).Draw(t, "vfs"), For: 90 * time.Second}
	for i := range rapid.IntRange(2, 6).Draw(t, "vms") {
		high := rapid.Float64Range(1, 1e5).Draw(t, "high")
		on := workload.Exponential(time.Duration(rapid.IntRange(1, 30).Draw(t, "on")) * time.Second)
		v := VM{Name: fmt.Sprintf("vm%d", i), PPS: workload.NewBursts(rapid.Uint64().Draw(t, "seed"), high, high/10, on, on, 0.5)}
		if rapid.IntRange(0, 3).Draw(t, "fate") == 0 {
			v.From = time.Duration(rapid.IntRange(0, 40).Draw(t, "from")) * time.Second
			v.Until = v.From + time.Duration(rapid.IntRange(10, 50).Draw(t, "stay"))*time.Second
		}
		w.VMs = append(w.VMs, v)
	}
	return w
}

// TestNobodyBeatsTheOptimum plays every policy in the full loop. What a policy carries is compared with an optimum whose moves take no
// time: a victim keeps its VF until the guest releases it, so a real swap may lose slightly less than the charge.
func TestNobodyBeatsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := small(t)
		rules := model.Rules{Policy: rapid.SampledFrom(placement.Names()).Draw(t, "policy"), Interval: 5 * time.Second}
		run := Run{Workload: w, Rules: rules, Sensor: &workload.Sensor{Noise: 0.01, Seed: 1}}
		run.Setup = func(e *sim.Engine) { soundAtEveryEvent(t, e, w.VFs) }
		log, err := run.Do(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		r := Sample(w, time.Second, w.For)
		charge := Charge{Risk: r.TableCharge().Risk}
		f := Measure(r, log, w.VFs, charge)
		free, charged := Optimum(r, w.VFs, Charge{}), Optimum(r, w.VFs, charge)
		if f.Benefit > free.Upper*(1+1e-6) || f.Net > charged.Upper*(1+1e-6) {
			t.Fatalf("%s: benefit %v and net %v, the optimum has %v and %v", rules.Policy, f.Benefit, f.Net, free.Upper, charged.Upper)
		}
	})
}

// soundAtEveryEvent checks that a VF is in one VM, a VM has one VF, and there are no
// more holders than VFs: unplugs come before plugs.
func soundAtEveryEvent(t *rapid.T, e *sim.Engine, vfs int) {
	note := e.OnEvent
	e.OnEvent = func(now time.Time) {
		note(now)
		seen := map[model.VFID]string{}
		for _, v := range e.World.VMs() {
			id, _ := v.Holds()
			if id == model.NoVF {
				continue
			}
			if other, twice := seen[id]; twice {
				t.Fatalf("VF %s is in %s and %s", id, other, v.Name)
			}
			seen[id] = v.Name
		}
		if len(seen) > vfs {
			t.Fatalf("%d hold one of %d VFs", len(seen), vfs)
		}
	}
}

// TestAdaptiveWhenMovesAreHard: plugs that take ten times as long, or often fail, or always fail for some VMs, cost adaptive only what the
// moves themselves lose.
func TestAdaptiveWhenMovesAreHard(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	slow := sim.PaperTiming
	slow.Attach, slow.Guest, slow.Gone = 2300*time.Millisecond, 4100*time.Millisecond, 2*time.Second
	errPlug := errors.New("injected: the plug failed")
	failing := func(share float64) func(model.Step) error {
		r := rand.New(rand.NewPCG(5, 5))
		return func(s model.Step) error {
			if s.Kind == model.StepAttach && r.Float64() < share {
				return errPlug
			}
			return nil
		}
	}
	broken := func(s model.Step) error {
		if s.Kind == model.StepAttach && s.Subject.VMName[len(s.Subject.VMName)-1] == '7' {
			return errPlug
		}
		return nil
	}
	for _, c := range []struct {
		name  string
		run   Run
		least float64 // net %
	}{
		{"slow", Run{Timing: slow}, 85},
		{"a fifth fails", Run{Fail: failing(0.2)}, 85},
		{"a tenth of the VMs never works", Run{Fail: broken}, 80},
	} {
		for _, n := range Ten() {
			if n.Name != "walk" && n.Name != "duty" {
				continue
			}
			y := newYard(n, 7)
			c.run.Workload, c.run.Rules = y.w, model.Rules{Policy: "adaptive"}
			c.run.Sensor = &workload.Sensor{Noise: 0.01, Seed: 7}
			log, err := c.run.Do(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			f := Measure(y.rates, log, y.w.VFs, y.charge)
			s := f.Against(y.rates, &y.free, &y.charged)
			t.Logf("%s, %s: %+v", n.Name, c.name, s)
			if s.Net < c.least || s.MovesPerHour > 8 {
				t.Errorf("%s, %s: %+v, want a net of %.0f %% with no more than 8 moves", n.Name, c.name, s, c.least)
			}
		}
	}
}

// TestFluidAgreesWithTheLoop compares the shortcut for tuning with the full loop.
func TestFluidAgreesWithTheLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, n := range Ten() {
		if n.Name != "bursty-slow" && n.Name != "duty" {
			continue
		}
		y := newYard(n, 3)
		for _, policy := range []string{"activity", "rentbuy", "adaptive"} {
			rules := model.Rules{Policy: policy, Interval: 10 * time.Second}
			f, err := Fluid(y.rates, rules, y.w.VFs, y.charge, &workload.Sensor{Noise: 0.01, Seed: y.seed})
			if err != nil {
				t.Fatal(err)
			}
			fluid, loop := f.Against(y.rates, &y.free, &y.charged), y.play(t, rules)
			if d := fluid.Net - loop.Net; d < -3 || d > 3 {
				t.Errorf("%s, %s: net %.1f %% in the fluid, %.1f %% in the loop", n.Name, policy, fluid.Net, loop.Net)
			}
		}
	}
}
