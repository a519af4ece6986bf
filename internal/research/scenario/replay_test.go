package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/trace"
)

const recorded = `
duration: 20m
sample: 1s
parallel: 3
pfs:
  - {name: pf0, vfs: 4}
  - {name: pf1, vfs: 2, network: br1}
vms:
  - {name: web, count: 10, load: {shape: on-off, pps: 50000, low: 500, on: 30s, off: 60s}}
  - {name: db, count: 4, network: br1, latency_sensitivity: high, load: {packet: 900, shape: pareto, pps: 9000, low: 10, on: 20s, off: 20s}}
  - {name: late, from: 5m, until: 15m, load: {pps: 70000}}
  - {name: odd, load: {pps: 60000}, no_teaming: true}
  - {name: stuck, load: {shape: duty, pps: 90000, on: 3m, off: 3m}, plug_fails: 0.5}
links: [{pf: pf0, at: 8m, for: 30s}]
timing: {spread: 0.4}
worth: {packet_cpu: 1us, kilobyte_cpu: 800ns}
telemetry: {noise: 0.02, blackouts: [{at: 12m, for: 20s, vms: "web1*"}]}
`

// record runs a scenario and records what its daemon sees, from a sample on and, unless
// that is the first, from the first moment at which nothing moves. It returns what was
// decided since.
func record(t *testing.T, s *Scenario, p Policy, dir string, from time.Duration) []Decision {
	t.Helper()
	h, err := newHost(s, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter(h)
	rec, err := trace.NewRecorder(dir, trace.RecorderOptions{MaxFile: 1 << 16, MaxFiles: 100})
	if err != nil {
		t.Fatal(err)
	}
	var begin time.Duration
	begun := from == 0
	h.engine.OnTick = func(now time.Time) {
		v := h.engine.Core.View()
		if !begun {
			know := h.engine.Core.Memory()
			if now.Sub(epoch) < from || know.Busy > 0 {
				return
			}
			text, err := json.Marshal(know)
			if err != nil {
				t.Fatal(err)
			}
			rec.SetMemory(text)
			begun, begin = true, now.Sub(epoch)+s.Sample
			return
		}
		if err := rec.RecordView(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.engine.Run(context.Background(), epoch.Add(s.Duration-1)); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	var since []Decision
	for _, d := range m.decisions {
		if d.Asked >= begin {
			d.Asked, d.At = d.Asked-begin, d.At-begin
			since = append(since, d)
		}
	}
	return since
}

// A recorded run, replayed with the same policy, makes the same decisions at the same
// times: through noise, failures, arrivals, a lost link and a blackout of telemetry, and
// also when recording began late.
func TestReplayRepeatsDecisions(t *testing.T) {
	for _, p := range []Policy{
		{Name: "adaptive", Label: "adaptive", Interval: 20 * time.Second},
		{Name: "rentbuy", Label: "rentbuy", Interval: 20 * time.Second},
		{Name: "activity", Label: "activity", Interval: 20 * time.Second},
		{Name: "fair", Label: "fair", Interval: 45 * time.Second},
		{Name: "vnraf", Label: "vnraf", Interval: 10 * time.Second},
	} {
		for _, from := range []time.Duration{0, 7*time.Minute + 13*time.Second} {
			t.Run(fmt.Sprintf("%s from %s", p.Name, from), func(t *testing.T) {
				dir := t.TempDir()
				want := record(t, parse(t, recorded), p, dir, from)
				got := replay(t, dir, p)
				compareDecisions(t, p.Name, want, got)
			})
		}
	}
}

// With a policy other than the recorded one, the recorded rules for VMs still apply, and so does the value of their packets.
func TestOtherPolicyOfARecording(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, recorded)
	s.Duration = 30 * time.Second
	record(t, s, Policy{Name: "adaptive", Label: "adaptive", Interval: 20 * time.Second}, dir, 0)
	again, _, err := FromRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Worth != s.Worth || !again.worthCounts() {
		t.Errorf("the score counts packets by %+v, want %+v", again.Worth, s.Worth)
	}
	for i := range again.VMs {
		if g := &again.VMs[i]; (g.Latency == model.SensitivityHigh) != strings.HasPrefix(g.Name, "db") {
			t.Errorf("%s: latency sensitivity %q", g.Name, g.Latency)
		}
	}
	rules, want := again.replay.rulesAt(0, model.Rules{Policy: "activity"}), s.rules(Policy{})
	if rules.Policy != "activity" || rules.Worth != want.Worth || !slices.Equal(rules.VMs, want.VMs) {
		t.Errorf("%+v, want what there is in %+v", rules, want)
	}
}

// replay runs a recording with its own policy, which must be this. It leaves out the VFs
// that VMs had when the recording began.
func replay(t *testing.T, dir string, p Policy) []Decision {
	t.Helper()
	s, report, err := FromRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	if x := report.Troubles(); x != nil {
		t.Errorf("troubles: %v", x)
	}
	if s.replay.memory == nil {
		s.Parallel = 3
	}
	if len(s.Policies) != 1 || s.Policies[0].Name != p.Name || s.Policies[0].Interval != p.Interval {
		t.Fatalf("policies of the recording: %+v", s.Policies)
	}
	res, err := s.Run(context.Background(), RunOptions{Workers: 1, NoOptimum: true})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(res.Policies[0].Decisions, func(d Decision) bool { return d.At == 0 })
}

func compareDecisions(t *testing.T, policy string, want, got []Decision) {
	t.Helper()
	if len(want) < 10 {
		t.Fatalf("%s: only %d decisions: the test proves nothing", policy, len(want))
	}
	for i := range min(len(want), len(got)) {
		w, g := want[i], got[i]
		off := (w.At - g.At).Abs()
		if w.VM != g.VM || w.Plug != g.Plug || w.VF != g.VF || off > 50*time.Millisecond {
			t.Fatalf("%s: decision %d of %d:\nrecorded %+v\nreplayed %+v", policy, i, len(want), w, g)
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%s: %d decisions, recorded were %d", policy, len(got), len(want))
	}
}

// A recording that begins late takes over the holders of that moment; another policy
// can be tried on it.
func TestReplayTakesOverHolders(t *testing.T) {
	dir := t.TempDir()
	record(t, parse(t, recorded), Policy{Name: "random", Label: "random", Interval: time.Minute}, dir, 3*time.Minute)
	s, _, err := FromRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Duration != 17*time.Minute-time.Second {
		t.Errorf("duration %v", s.Duration)
	}
	h, err := newHost(s, s.Policies[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, v := range h.engine.World.VMs() {
		if id, open := v.Holds(); id != model.NoVF && open {
			held++
		}
	}
	if held != 6 {
		t.Errorf("%d VMs hold a VF at the start, want all 6", held)
	}
	s.SetPolicies([]string{"none", "activity"}, 30*time.Second)
	res := run(t, s)
	if o := res.Policies[0]; o.Unplugs < 6 || o.OnVF > 0.01 {
		t.Errorf("none keeps VFs: %+v", o)
	}
	if o := res.Policies[1]; o.Gross < 40 || o.Gross > 100.01 {
		t.Errorf("activity scores %v", o.Gross)
	}
}

// recordPieces records a host that is sampled somewhat irregularly, and not at all between two times.
func recordPieces(t *testing.T, s *Scenario, dir string, from, to time.Duration) {
	t.Helper()
	h, err := newHost(s, Policy{Name: "activity", Label: "activity", Interval: 10 * time.Second}, 1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var rec *trace.Recorder
	h.engine.OnTick = func(now time.Time) {
		n++
		h.engine.Sample = s.Sample
		if n%10 == 0 {
			h.engine.Sample += 50 * time.Millisecond
		}
		if since := now.Sub(epoch); since >= from && since < to {
			if rec != nil {
				_ = rec.Close()
				rec = nil
			}
			return
		}
		if rec == nil {
			if rec, err = trace.NewRecorder(dir, trace.RecorderOptions{MaxFile: 1 << 20, MaxFiles: 9}); err != nil {
				t.Fatal(err)
			}
		}
		if err := rec.RecordView(h.engine.Core.View()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.engine.Run(context.Background(), epoch.Add(s.Duration-1)); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
}

// The optima of a recording with a pause have the value that they state, no policy gains more, and the pause is reported.
func TestReplayInPieces(t *testing.T) {
	for _, sample := range []time.Duration{time.Second, 250 * time.Millisecond} { // a plug takes longer than the second
		t.Run(sample.String(), func(t *testing.T) { replayInPieces(t, sample) })
	}
}

func replayInPieces(t *testing.T, sample time.Duration) {
	t.Helper()
	s := parse(t, recorded)
	s.Duration, s.Sample = 90*time.Second, sample
	s.Links, s.Telemetry = nil, Telemetry{}
	dir := t.TempDir()
	recordPieces(t, s, dir, 30*time.Second, 50*time.Second)
	s, report, err := FromRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Count(trace.KindGap); n != 1 {
		t.Errorf("%d gaps: %s", n, report)
	}
	s.SetPolicies([]string{"adaptive", "activity", "fair", "none"}, time.Second)
	res := run(t, s)
	o := res.Optimum
	curve := res.Plot.Curves[len(res.Plot.Curves)-1]
	measured := 0.0
	for _, x := range curve {
		measured += x
	}
	within := func(what string, x, of float64) {
		if p := 100 * x / of; p < 99.9 || p > 100.1 {
			t.Errorf("%s: %.2f %%", what, p)
		}
	}
	within("charged optimum as policies are measured", measured, o.Charged.Benefit)
	within("net of the charged optimum", o.Charged.Benefit-res.Charge.Risk*float64(o.Charged.Moves), o.Charged.Value)
	within("gross of the free optimum", o.Free.Benefit, o.Free.Value)
	for i, x := range curve { // bins are evenly spread over the run
		if at := s.Duration * time.Duration(i) / time.Duration(len(curve)); at > 33*time.Second && at < 48*time.Second && x > 0 {
			t.Errorf("%.0f packets at %s, in the pause", x, at)
		}
	}
	for _, p := range res.Policies {
		if p.Gross > 100.01 || p.Net > 100.01 {
			t.Errorf("%s: gross %.2f, net %.2f", p.Label, p.Gross, p.Net)
		}
	}
	if res.Policies[1].Gross < 30 {
		t.Errorf("activity: gross %.2f: the test proves nothing", res.Policies[1].Gross)
	}
}

// The VFs of a recording can be changed where it has one PF.
func TestReplayWithOtherVFs(t *testing.T) {
	s := parse(t, recorded)
	s.Duration = 2 * time.Minute
	s.Links, s.Telemetry = nil, Telemetry{}
	dir := t.TempDir()
	recordPieces(t, s, dir, time.Hour, time.Hour)
	two, _, err := FromRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.SetVFs(3); err == nil {
		t.Error("changes one of two PFs")
	}

	s.PFs, dir = s.PFs[:1], t.TempDir()
	recordPieces(t, s, dir, time.Hour, time.Hour)
	for _, vfs := range []int{0, 1, 9} {
		one, _, err := FromRecording(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := one.SetVFs(vfs); err != nil {
			t.Fatal(err)
		}
		res := run(t, one)
		open, most := 0, 0
		for _, e := range res.Plot.Logs[0] {
			if e.On {
				open++
			} else {
				open--
			}
			most = max(most, open)
		}
		if most != vfs || res.VFs != vfs {
			t.Errorf("%d VFs in use at once, of %d, want %d", most, res.VFs, vfs)
		}
	}
}
