//go:build lab

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
	"sluice/internal/research/scenario"
	"sluice/internal/research/trace"
	"sluice/internal/tests/testkit"
)

// decided is a plug or unplug as reported by both a daemon and a replay.
type decided struct {
	at   time.Duration // since the recording began
	text string        // kind, VM and VF
}

var replayAll = flag.Bool("replay-all", false, "let TestReplayDecidesAlike record policy activity, too: 1 to 2 minutes more")

// TestReplayDecidesAlike records a daemon that is already working, and replays the recording.
func TestReplayDecidesAlike(t *testing.T) {
	// An agent that does not answer in time leaves a load unknown, and the VM where it is: a slow machine gets more time, and
	// correspondingly longer rounds.
	agent := min(3*time.Second, testkit.Time(500*time.Millisecond)).Round(time.Millisecond)
	config := fmt.Sprintf("interval: %s\nguest_agent: {every: %s, timeout: %[2]s}\n", 5*agent, agent) +
		"mode: enforce\npolicy: %s\npfs:\n  - {name: pf0, vfs: 0}\nmoves: {plug_timeout: 60s, unplug_timeout: 60s}\n"
	policies := []string{"adaptive"}
	if *replayAll {
		policies = append(policies, "activity")
	}
	r := newRig(t, fmt.Sprintf(config, policies[0]), "vm1", "vm2", "vm3")
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			r.t = t
			r.configure(fmt.Sprintf(config, policy))
			r.run("pkill -HUP -x sluiced")
			r.favourOf("vm1")
			r.holding(90*time.Second, "vm1")
			dir := "/var/tmp/" + policy
			rec, err := r.Start(r.ctx, "exec sluice record "+dir)
			r.must(err)
			r.eventually(60*time.Second, "a recording", func() error {
				_, err := r.Run(r.ctx, "ls "+dir+"/*.slr.gz")
				return err
			})
			for _, vm := range []string{"vm2", "vm3", "vm1"} {
				r.favourOf(vm)
				r.holding(90*time.Second, vm)
			}
			r.idle(60 * time.Second)
			// A replay ends with its last sample, so it includes the last move only if a later sample is recorded.
			var live answer.Recent
			r.eventually(60*time.Second, "samples after the last move", func() (err error) {
				live, err = r.client.LastSeen(r.ctx, time.Time{})
				if err == nil && live.Decided.Sub(live.Ended[0].Ended) < 10*agent {
					err = fmt.Errorf("it decided last at %s, the move ended at %s", live.Decided, live.Ended[0].Ended)
				}
				return err
			})
			r.must(rec.Signal(r.ctx, "INT"))
			r.must(rec.Wait(r.ctx))
			r.compareReplay(r.fetch(dir), live.Ended)
		})
	}
}

// favourOf makes one of three VMs the busiest.
func (r *rig) favourOf(vm string) {
	r.t.Helper()
	for i, other := range []string{"vm1", "vm2", "vm3"} {
		pps := float64(2 + i)
		if other == vm {
			pps = 40
		}
		r.rate(other, pps)
	}
}

// fetch copies a directory from the host.
func (r *rig) fetch(dir string) string {
	r.t.Helper()
	local := r.t.TempDir()
	args := append(r.SSHArgs(), "tar -C "+dir+" -cf - .")
	archive, err := exec.CommandContext(r.ctx, "ssh", args...).Output()
	r.must(err)
	untar := exec.CommandContext(r.ctx, "tar", "-C", local, "-xf", "-")
	untar.Stdin = bytes.NewReader(archive)
	untar.Stderr = os.Stderr
	r.must(untar.Run())
	return local
}

// compareReplay checks that the replay moves the same VFs, in the same order and at the same times as the daemon did.
func (r *rig) compareReplay(dir string, ended []model.MoveStatus) {
	r.t.Helper()
	rec, err := trace.OpenRecording(dir)
	r.must(err)
	first, err := rec.Next()
	r.must(err)
	r.must(rec.Close())
	var want, got []decided
	for _, m := range ended {
		at := m.Started.Sub(first.Decided)
		if at >= 0 && m.Error == "" && (m.Move.Kind == model.MovePlug || m.Move.Kind == model.MoveUnplug) {
			want = append(want, decided{at, fmt.Sprintf("%s %s %s", m.Move.Kind, m.Move.VMName, m.Move.VF)})
		}
	}
	s, _, err := scenario.FromRecording(dir)
	r.must(err)
	res, err := s.Run(context.WithoutCancel(r.ctx), scenario.RunOptions{})
	r.must(err)
	for _, d := range res.Policies[0].Decisions {
		kind := model.MoveUnplug
		if d.Plug {
			kind = model.MovePlug
		}
		if d.At > 0 { // otherwise it was so when the recording started
			got = append(got, decided{d.Asked, fmt.Sprintf("%s %s %s", kind, d.VM, d.VF)})
		}
	}
	for _, list := range [][]decided{want, got} {
		slices.SortFunc(list, func(a, b decided) int { return int(a.at - b.at) })
	}
	r.t.Logf("live   %v\nreplay %v\n%s", want, got, res.Policies[0].Label)
	same := func(a, b decided) bool { return a.text == b.text && (a.at-b.at).Abs() < 100*time.Millisecond }
	if len(want) < 6 || !slices.EqualFunc(want, got, same) {
		r.t.Errorf("live decisions %v\nreplayed      %v", want, got)
	}
}
