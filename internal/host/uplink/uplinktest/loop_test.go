package uplinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/host/actuate"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// rig is the daemon's loop over a host.
type rig struct {
	*host
	source *observe.Source
	state  observe.Applied // the Snapshots as the daemon's loop gets them
	act    *actuate.Actuator
	core   *loop.Core
	now    time.Time
	kinds  []model.StepKind // of the Steps that were executed
}

func newRig(t *testing.T, vms int) *rig {
	t.Helper()
	h := newHost(t, vms)
	up := uplink.Set{h.fabric}
	r := &rig{
		host: h, act: actuate.New(h, up, h, nil), now: time.Now(),
		source: observe.New(h, up, h, nil, observe.Options{Pool: observe.Pool{"pf0": {All: true}}}),
	}
	r.state = observe.Applied{Source: r.source, Uplinks: up, Taps: h}
	t.Cleanup(r.source.Close)
	o := loop.DefaultOptions
	o.Mode = model.ModeEnforce
	var err error
	if r.core, err = loop.NewCore(rules(), o, noJournal{}, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// noJournal is a journal that accepts everything and keeps nothing.
type noJournal struct{ loop.NoJournal }

func (noJournal) Begin(model.Move) error { return nil }

// rules pin these VMs to VFs, and forbid all others.
func rules(pinned ...string) model.Rules {
	r := model.Rules{Policy: "none", Interval: time.Minute}
	for _, name := range pinned {
		r.VMs = append(r.VMs, model.VMRule{Match: name, Pin: true})
	}
	r.VMs = append(r.VMs, model.VMRule{Match: "*", Forbid: true})
	return r
}

// look takes a fresh Snapshot.
func (r *rig) look() *model.Snapshot {
	r.t.Helper()
	r.source.Invalidate()
	snap, err := r.state.Snapshot(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	snap.Time, snap.Read = r.now, r.now
	return snap
}

// run decides on the Snapshot and executes all Steps, several times.
func (r *rig) run(rules model.Rules) *model.Snapshot {
	r.t.Helper()
	if err := r.core.SetRules(rules); err != nil {
		r.t.Fatal(err)
	}
	for range 6 {
		r.now = r.now.Add(time.Minute) // longer than the cooldown of a NIC after a move
		steps := r.core.Tick(r.now, r.look())
		for len(steps) > 0 && !r.killed() {
			s := steps[0]
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
			err := r.act.Do(ctx, s)
			cancel()
			r.kinds = append(r.kinds, s.Kind)
			if err != nil {
				r.t.Logf("%s: %v", s, err)
			}
			r.now = r.now.Add(time.Millisecond)
			steps = append(steps[1:], r.core.Finish(r.now, s.ID, err)...)
			if len(steps) == 0 && !r.core.Wake().IsZero() {
				r.now = r.core.Wake()
				steps = r.core.Timer(r.now)
			}
		}
	}
	return r.look()
}

// killed reports whether the daemon was killed.
func (r *rig) killed() bool { return r.real != nil && r.real.process.killed() }

// TestMovesOnAnotherUplink moves VFs over a switch that is not a bridge, from observing to steering. Nobody is cut off at any change, and
// the PF's filters are not used.
func TestMovesOnAnotherUplink(t *testing.T) {
	r := newRig(t, 3)
	for _, want := range [][2]string{{"vm0", "vm1"}, {"vm1", "vm2"}, {"", ""}, {"vm2", ""}} {
		var pinned []string
		for _, name := range want {
			if name != "" {
				pinned = append(pinned, name)
			}
		}
		snap := r.run(rules(pinned...))
		held := []string{r.holder(0), r.holder(1)}
		slices.Sort(held)
		slices.Sort(want[:])
		if !slices.Equal(held, want[:]) {
			t.Fatalf("the VFs are with %q, want %q; changes: %v; %+v", held, want, r.changes, r.core.View().Target.Reasons)
		}
		for i := range snap.VMs {
			n := &snap.VMs[i].NICs[0]
			if n.Network != Switch || n.VLAN != 7 || n.DualPath {
				t.Errorf("%s is seen in %s, VLAN %d, dual path %v", snap.VMs[i].Name, n.Network, n.VLAN, n.DualPath)
			}
			if n.VF != model.NoVF && n.Route != Representor(n.VF) {
				t.Errorf("%s has VF %s, and its frames go to %q", snap.VMs[i].Name, n.VF, n.Route)
			}
		}
		if up := snap.PFs[0].Uplink; up.Kind != Kind || up.Why != "" {
			t.Errorf("the uplink is seen as %+v", up)
		}
		if found := r.core.View().Findings; len(found) > 0 {
			t.Errorf("found wrong: %+v", found)
		}
	}
	for _, k := range r.kinds {
		if k == model.StepAddSelf || k == model.StepDelSelf {
			t.Errorf("%s was planned", k)
		}
	}
}

// TestFailuresOnAnotherUplink fails each change in turn, as often as a Step is tried: moves are undone, later ones succeed, and nobody is
// cut off.
func TestFailuresOnAnotherUplink(t *testing.T) {
	whole := newRig(t, 2)
	whole.run(rules("vm0"))
	whole.run(rules("vm1"))
	if len(whole.changes) < 10 {
		t.Fatalf("changes: %v", whole.changes)
	}
	for at := range whole.changes {
		t.Run(fmt.Sprintf("%d-%s", at, whole.changes[at]), func(t *testing.T) {
			r := newRig(t, 2)
			count, failures := 0, 0
			method := whole.changes[at]
			r.fail = func(m string) error {
				if count++; count > at && m == method && failures <= loop.DefaultOptions.Retries {
					failures++
					return errors.New("refused")
				}
				return nil
			}
			r.run(rules("vm0"))
			r.run(rules("vm1"))
			for range 30 { // the cooldown grows with each failure
				r.run(rules("vm1"))
			}
			if failures == 0 {
				t.Fatal("nothing failed")
			}
			if r.holder(0) != "vm1" && r.holder(1) != "vm1" || r.holder(0) == "vm0" || r.holder(1) == "vm0" {
				t.Errorf("VF 0 is with %q, VF 1 with %q", r.holder(0), r.holder(1))
			}
			snap := r.look()
			for i := range snap.VMs {
				if snap.VMs[i].NICs[0].DualPath {
					t.Errorf("%s: a dual path stays open", snap.VMs[i].Name)
				}
			}
		})
	}
}

// TestNoUplink: a PF that no Uplink serves is rejected with a remedy, and a Step of an unknown kind fails permanently.
func TestNoUplink(t *testing.T) {
	h := newHost(t, 1)
	source := observe.New(h, uplink.Set{}, h, nil, observe.Options{Pool: observe.Pool{"pf0": {All: true}}})
	defer source.Close()
	snap, err := source.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if up := snap.PFs[0].Uplink; up.Why == "" || up.Remedy == "" || up.Kind != "" {
		t.Errorf("uplink %+v", up)
	}
	act := actuate.New(h, uplink.Set{h.fabric}, h, nil)
	err = act.Do(t.Context(), model.Step{Kind: model.StepRouteToVF, Path: model.PathStep{Kind: "another", PF: "pf0"}})
	if !errors.Is(err, model.ErrPermanent) {
		t.Errorf("a Step for another kind of uplink: %v", err)
	}
}
