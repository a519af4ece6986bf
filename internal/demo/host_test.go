package demo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/control/doctor"
	"sluice/internal/demo"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/cli"
	"sluice/internal/model"
)

// troubled runs a demo and returns the virtual times at which each trouble was visible.
func troubled(t *testing.T, o cli.DemoOptions) map[string][]time.Duration {
	t.Helper()
	seen := map[string][]time.Duration{}
	var start time.Time
	note := func(now time.Time, what string) { seen[what] = append(seen[what], now.Sub(start)) }
	o.Policy, o.Interval, o.Speed, o.Seed = model.DefaultPolicy, 5*time.Minute, 1200, 1
	o.Show = func(v *model.View) {
		now := v.Snapshot.Time
		if start.IsZero() {
			start = now
		}
		for _, p := range answer.Diagnose(v, doctor.Examine, now, 0) {
			if p.Remedy == "" {
				t.Errorf("%s: %s: no remedy", p.Subject, p.Text)
			}
			note(now, p.Subject+": "+p.Text)
		}
		for _, text := range impossible(v) {
			t.Errorf("%s: %s", now.Sub(start), text)
		}
		for i := range v.Bandwidth.NICs {
			if n := &v.Bandwidth.NICs[i]; n.Short > 0 {
				note(now, "short: "+n.VMName)
			}
		}
		for i := range v.Bandwidth.VirtualPFs {
			if n := &v.Bandwidth.VirtualPFs[i]; n.Sent.Bits > 0 {
				note(now, "virtual PF: "+n.VMName+" "+string(n.Code))
			}
		}
		for i := range v.Recent {
			if m := &v.Recent[i]; m.Error != "" {
				note(m.Ended, "failed: "+m.Move.VMName+" "+m.Error)
			}
		}
	}
	if err := demo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return seen
}

// impossible lists figures of the API's answers that cannot be.
func impossible(v *model.View) (list []string) {
	s := answer.Summary(v, "", 0)
	down := map[string]bool{}
	for i := range s.PFs {
		pf := &s.PFs[i]
		if down[pf.Name] = !pf.LinkUp; !pf.LinkUp && pf.VFs.Unusable != pf.VFs.Free {
			list = append(list, fmt.Sprintf("%d of %d free VFs are said to be usable while %s is down", pf.VFs.Free-pf.VFs.Unusable,
				pf.VFs.Free, pf.Name))
		}
	}
	for _, l := range answer.Bandwidth(v).Links {
		if down[l.PF] && l.Sent > 0 || l.Sent > l.Carries.Speed {
			list = append(list, fmt.Sprintf("%s sends %.1fG of %.1fG, down: %t", l.PF, l.Sent/1e9, l.Carries.Speed/1e9, down[l.PF]))
		}
	}
	return list
}

// Every trouble is visible in the first minute of a demo at its default speed, and again later.
func TestTroubles(t *testing.T) {
	const minute, later = 10 * time.Minute, 20 * time.Minute // of virtual time: 10 s and 20 s
	seen := troubled(t, cli.DemoOptions{VMs: 40, VFs: 24, For: 30 * time.Minute, Troubles: true})
	for _, want := range []string{
		"failed: batch-01 wait-guest", " attach: internal error", "batch-01: plug of",
		"pf1: its link is down", "web-01: NIC ua-net0 has no failover", "cache-01: it has no free PCIe root port",
		"pf2: more is guaranteed than its link carries", "edge-03: it has a VF that Sluice did not attach", "short: edge-00",
		"edge-03's VF pf2/2 takes 7.2Gbit/s of the 10Gbit/s that pf2 carries; nothing limits it: somebody else attached its VF",
		"lab-liar: its load on VF", "virtual PF: edge-02",
	} {
		first, again := false, false
		for what, times := range seen {
			for _, at := range times {
				first = first || strings.Contains(what, want) && at <= minute
				again = again || strings.Contains(what, want) && at >= later
			}
		}
		if !first || !again {
			t.Errorf("%q: seen in the first %s: %t; after %s: %t", want, minute, first, later, again)
		}
	}
	if t.Failed() {
		for what, times := range seen {
			t.Logf("%s: %d times, from %s to %s", what, len(times), times[0], times[len(times)-1])
		}
	}
}

// Without troubles nothing goes wrong, nor on a host that is too small for them.
func TestNoTroubles(t *testing.T) {
	for _, o := range []cli.DemoOptions{{VMs: 24, VFs: 12}, {VMs: 23, VFs: 12, Troubles: true}, {VMs: 24, VFs: 11, Troubles: true}} {
		o.For = 12 * time.Minute
		if seen := troubled(t, o); len(seen) > 0 {
			t.Errorf("%d VMs, %d VFs, troubles %t: %v", o.VMs, o.VFs, o.Troubles, seen)
		}
	}
}

// The lying VM of a demo does not dominate: few of all moves are its own.
func TestLiarMovesSeldom(t *testing.T) {
	type move struct {
		vm string
		at time.Time
	}
	moves, own := map[move]bool{}, 0
	o := cli.DemoOptions{
		VMs: 40, VFs: 24, For: time.Hour, Troubles: true, Policy: model.DefaultPolicy, Interval: 5 * time.Minute, Speed: 1200,
		Seed: 1,
	}
	o.Show = func(v *model.View) {
		for i := range v.Recent {
			m := &v.Recent[i]
			if one := (move{m.Move.VMName, m.Ended}); !moves[one] {
				moves[one] = true
				if one.vm == "lab-liar" {
					own++
				}
			}
		}
	}
	if err := demo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d moves are the liar's", own, len(moves))
	if own == 0 || 20*own > len(moves) {
		t.Errorf("%d of %d moves are the liar's, want one in 20 at most, and one at least", own, len(moves))
	}
}

// In observe mode the demo changes nothing, and says what it would do.
func TestObserve(t *testing.T) {
	o := cli.DemoOptions{
		VMs: 24, VFs: 12, For: 2 * time.Minute, Policy: model.DefaultPolicy, Interval: 5 * time.Minute, Speed: 1200, Seed: 1,
		Mode: model.ModeObserve,
	}
	would := 0
	o.Show = func(v *model.View) {
		would = max(would, len(v.Pending))
		if s := answer.Summary(v, "", 0); s.Mode != string(model.ModeObserve) || s.VFs.Held > 0 || len(v.Active)+len(v.Recent) > 0 {
			t.Errorf("mode %s, %d VFs held, %d moves", s.Mode, s.VFs.Held, len(v.Active)+len(v.Recent))
		}
	}
	if err := demo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if would == 0 {
		t.Error("it would move nothing")
	}
}
