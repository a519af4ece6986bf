//go:build lab

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/lab"
)

var (
	cycles  = flag.Int("cycles", 3, "plugs and unplugs per loss test; docs/appendix/measurements.md uses 20")
	allLoss = flag.Bool("loss-all", false, "also from guests, not only from outside")
	lossOut = flag.String("loss-out", "", "file to append the loss tests' figures to, as JSON lines")
)

// onlyByHand gives VFs only to VMs that a test pins, so that the test decides when a move happens.
const onlyByHand = `mode: enforce
policy: activity
interval: 24h
pfs:
  - {name: pf0, vfs: 0-2}
vms:
  - {match: vm5, failover: bond}
  - {match: vm6, failover: bond}
  - {match: "*", forbid: true}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// moved is one plug or unplug under traffic.
type moved struct {
	Kind     string
	From, To time.Time
	Took     time.Duration
}

// lossTest moves a VF in and out of vm while packets pass between it and peer in both directions.
type lossTest struct {
	*rig
	vm, peer string
	moves    []moved
	flows    map[string]*lab.Flow
}

// Packets a second into a guest and out of it.
const (
	ppsIn  = 100
	ppsOut = 20
)

func (l *lossTest) startFlows() {
	l.t.Helper()
	l.flows = map[string]*lab.Flow{}
	for name, tr := range map[string]lab.Traffic{
		"in": {From: l.peer, To: l.vm, PPS: ppsIn, Size: 64, Gap: 50 * time.Millisecond},
		// The emulated host cannot carry 100 packets/s both ways without queueing for seconds.
		"out": {From: l.vm, To: l.peer, PPS: ppsOut, Size: 64, Gap: 150 * time.Millisecond},
	} {
		f, err := l.StartFlow(l.ctx, tr)
		l.must(err)
		l.flows[name] = f
	}
}

// move makes the daemon plug or unplug, and waits until the move is done and has settled.
func (l *lossTest) move(verb api.Verb, kind string) {
	l.t.Helper()
	from := time.Now()
	_, err := l.client.Do(l.ctx, verb, api.Request{VM: l.vm})
	l.must(err)
	l.eventually(60*time.Second, kind+" of "+l.vm, func() error {
		vms, err := l.client.VMs(l.ctx)
		if err != nil {
			return err
		}
		for _, v := range vms {
			if v.Name == l.vm && (v.VF != "") == (kind == "plug") && v.UnderWay == "" {
				return nil
			}
		}
		return fmt.Errorf("not yet")
	})
	l.idle(30 * time.Second)
	m := moved{Kind: kind, From: from, Took: l.took(kind)}
	// A guest's VF reports carrier up to two seconds after it can receive, and only then does the guest send through it: wait for that
	// before the next move.
	time.Sleep(2500 * time.Millisecond)
	m.To = time.Now()
	l.moves = append(l.moves, m)
}

// took returns the duration of the last move as reported by the daemon.
func (l *lossTest) took(kind string) time.Duration {
	l.t.Helper()
	e, err := l.client.Explain(l.ctx, l.vm)
	l.must(err)
	if e.LastMove == nil || e.LastMove.Kind != kind || e.LastMove.Error != "" {
		l.t.Fatalf("last move of %s is %+v, want a good %s", l.vm, e.LastMove, kind)
	}
	return e.LastMove.Ended.Sub(e.LastMove.Started)
}

// figure is the result of a loss test for a direction and a kind of move.
type figure struct {
	VM, Peer, Direction, Kind string
	Moves                     int
	LostTotal, LostWorst      uint64
	LostMedian                uint64
	GapWorstMS, GapMedianMS   int64
	TookMedianMS, TookWorstMS int64
	Duplicates                uint64 // over the whole flow
}

func (f figure) String() string {
	return fmt.Sprintf("%s %s %s %s: %d moves, lost %d (median %d, worst %d), gap worst %d ms median %d ms, took median %d ms "+
		"worst %d ms, %d duplicates",
		f.VM, f.Peer, f.Direction, f.Kind, f.Moves, f.LostTotal, f.LostMedian, f.LostWorst, f.GapWorstMS, f.GapMedianMS, f.TookMedianMS,
		f.TookWorstMS, f.Duplicates)
}

// stop ends the flows and computes the figures.
func (l *lossTest) stop() []figure {
	l.t.Helper()
	var out []figure
	for _, dir := range []string{"in", "out"} {
		rep, err := l.flows[dir].Stop(l.ctx)
		l.must(err)
		l.t.Logf("%s: %s", dir, rep)
		if rep.Received < rep.Sent/2 {
			l.t.Errorf("%s: most packets never came: %s", dir, rep)
		}
		for _, kind := range []string{"plug", "unplug"} {
			out = append(out, l.figure(rep, dir, kind))
		}
	}
	return out
}

func (l *lossTest) figure(rep lab.Report, dir, kind string) figure {
	f := figure{VM: l.vm, Peer: l.peer, Direction: dir, Kind: kind, Duplicates: rep.Duplicates}
	var gaps, took, losses []int64
	for _, m := range l.moves {
		if m.Kind != kind {
			continue
		}
		lost, longest := rep.During(m.From, m.To)
		f.Moves++
		f.LostTotal += lost
		losses = append(losses, int64(lost))
		gaps, took = append(gaps, longest.Milliseconds()), append(took, m.Took.Milliseconds())
	}
	median, worst := medianWorst(losses)
	f.LostMedian, f.LostWorst = uint64(median), uint64(worst)
	f.GapMedianMS, f.GapWorstMS = medianWorst(gaps)
	f.TookMedianMS, f.TookWorstMS = medianWorst(took)
	return f
}

func medianWorst(v []int64) (median, worst int64) {
	if len(v) == 0 {
		return 0, 0
	}
	sort.Slice(v, func(i, k int) bool { return v[i] < v[k] })
	return v[len(v)/2], v[len(v)-1]
}

func (l *lossTest) save(figures []figure) {
	l.t.Helper()
	var b strings.Builder
	for _, f := range figures {
		l.t.Log(f)
		line, err := json.Marshal(f)
		l.must(err)
		b.Write(append(line, '\n'))
	}
	if *lossOut == "" {
		return
	}
	out, err := os.OpenFile(*lossOut, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	l.must(err)
	defer out.Close()
	_, err = out.WriteString(b.String())
	l.must(err)
}

// judge fails the test if moves lost more than half of what each lost before both paths received during a move: half a second's packets, or,
// where a move takes longer than a second since the machine is slow, those of half its time. The median is judged: the emulator stands still
// for a second at times, in which the guest takes in nothing on either path.
func (l *lossTest) judge(figures []figure) {
	l.t.Helper()
	for _, f := range figures {
		pps := uint64(ppsIn)
		if f.Direction == "out" {
			pps = ppsOut
		}
		if most := pps * max(1000, uint64(f.TookMedianMS)) / 2000; f.LostMedian > most {
			l.t.Errorf("half of the %ss lost %d packets of %d a second %s %s or more, want at most %d", f.Kind, f.LostMedian, pps, f.Direction,
				f.VM, most)
		}
	}
}

func TestLoss(t *testing.T) {
	for _, c := range []struct{ name, vm, peer, peerVF string }{
		{"net_failover/outside", "vm1", "ext", ""},
		{"net_failover/virtio guest", "vm1", "vm2", ""},
		{"net_failover/VF guest", "vm1", "vm2", "vm2"},
		{"bond/outside", "vm5", "ext", ""},
		{"bond/virtio guest", "vm5", "vm2", ""},
		{"bond/VF guest", "vm5", "vm2", "vm2"},
	} {
		if c.peer != "ext" && !*allLoss {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			l := &lossTest{rig: aloneRig(t, onlyByHand, c.vm, "vm2"), vm: c.vm, peer: c.peer}
			if c.peerVF != "" {
				_, err := l.client.Do(l.ctx, api.VerbPin, api.Request{VM: c.peerVF})
				l.must(err)
				l.holding(60*time.Second, c.peerVF)
				l.idle(30 * time.Second)
			}
			l.startFlows()
			for range *cycles {
				l.move(api.VerbPin, "plug")
				l.move(api.VerbRelease, "unplug")
			}
			figures := l.stop()
			l.save(figures)
			l.judge(figures)
			l.reach(c.vm)
			l.clean()
		})
	}
}
