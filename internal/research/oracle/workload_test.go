package oracle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

// VM is one machine of a Workload.
type VM struct {
	Name   string
	Group  string
	PPS    workload.Shape // packets/s; nil: none
	Packet float64        // bytes per packet; 0: workload.DefaultPacket
	CPU    workload.Shape // host CPUs in use; nil: none
	From   time.Duration  // when it arrives
	Until  time.Duration  // when it departs; 0: never
}

// Workload is what policies are judged on.
type Workload struct {
	Name string
	Text string        // one line of description
	VFs  int           // VFs to share out
	For  time.Duration // how long it is worth running
	VMs  []VM
}

// vmLoad is a VM's load as the simulator takes it.
type vmLoad struct {
	vm    *VM
	start time.Time // of the workload
}

// At implements sim.Load.
func (l *vmLoad) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	since := t.Sub(l.start)
	v := l.vm
	if v.PPS != nil {
		pps = v.PPS.Level(since)
	}
	size := v.Packet
	if size == 0 {
		size = workload.DefaultPacket
	}
	if v.CPU != nil {
		cpus = v.CPU.Level(since)
	}
	return pps, pps * size, cpus
}

// Install adds the workload's VMs to the engine's world on a network, numbered from 0 in their order, and schedules arrivals and
// departures.
func (w *Workload) Install(e *sim.Engine, network string) {
	start := e.World.Now
	for i := range w.VMs {
		v := &w.VMs[i]
		arrive := func() {
			vm := e.World.AddVM(i, v.Name, network, &vmLoad{v, start})
			vm.Group = v.Group
			if v.Until > 0 {
				e.At(start.Add(v.Until), func() { e.World.Destroy(vm) })
			}
		}
		if v.From > 0 {
			e.At(start.Add(v.From), arrive)
		} else {
			arrive()
		}
	}
}

// Stage is a Shape that begins at From and lasts until the next Stage begins.
type Stage struct {
	From  time.Duration
	Shape workload.Shape
}

// Stages plays Shapes one after the other; 0 before the first. Each Shape sees the time since the start of the workload, not of its
// stage. Stages must be in order.
type Stages []Stage

// Level implements workload.Shape.
func (s Stages) Level(since time.Duration) float64 {
	for _, x := range slices.Backward(s) {
		if since >= x.From {
			return x.Shape.Level(since)
		}
	}
	return 0
}

// Sum adds Shapes up.
type Sum []workload.Shape

// Level implements workload.Shape.
func (s Sum) Level(since time.Duration) float64 {
	sum := 0.0
	for _, x := range s {
		sum += x.Level(since)
	}
	return sum
}

func everything() []Named {
	return slices.Concat(Ten(), Adversaries(), Rhythms(), HeldOut())
}

// TestTimeRunsEitherWay reads every workload forward, then at random moments: the same seed gives the same load in any order of reading.
func TestTimeRunsEitherWay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range everything() {
		a, b := n.Make(4), n.Make(4)
		if len(a.VMs) != vms || a.VFs < 1 || a.VFs >= vms || a.Name != n.Name || a.Text != n.Text {
			t.Errorf("%s: %d VMs, %d VFs, named %s: %s", n.Name, len(a.VMs), a.VFs, a.Name, a.Text)
		}
		for i := range a.VMs {
			seen := map[time.Duration]float64{}
			for s := range 600 {
				d := time.Duration(s) * 2 * time.Second
				seen[d] = a.VMs[i].PPS.Level(d)
				if x := seen[d]; !(x >= 0) || math.IsInf(x, 0) {
					t.Fatalf("%s %s at %s: %v packets/s", n.Name, a.VMs[i].Name, d, x)
				}
			}
			for range 10 {
				d := time.Duration(r.IntN(600)) * 2 * time.Second
				if got := b.VMs[i].PPS.Level(d); got != seen[d] {
					t.Fatalf("%s %s at %s: %v forward, %v at random", n.Name, a.VMs[i].Name, d, seen[d], got)
				}
			}
		}
	}
}

// TestSeedsDiffer: another seed gives another history, if the workload has any randomness.
func TestSeedsDiffer(t *testing.T) {
	for _, n := range everything() {
		if n.Name == "constant" || n.Name == "flips" {
			continue
		}
		a, b, same := n.Make(1), n.Make(2), true
		for i := range a.VMs {
			for s := range 100 {
				d := time.Duration(s) * 12 * time.Second
				same = same && a.VMs[i].PPS.Level(d) == b.VMs[i].PPS.Level(d)
			}
		}
		if same {
			t.Errorf("%s: seeds 1 and 2 give the same load", n.Name)
		}
	}
}

// TestCombinations checks the Shapes that are made of others.
func TestCombinations(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		name  string
		shape workload.Shape
		at    time.Duration
		want  float64
	}{
		{"stages", Stages{{5 * s, workload.Flat(3)}, {9 * s, workload.Flat(4)}}, 9 * s, 4},
		{"before stages", Stages{{5 * s, workload.Flat(3)}}, 4 * s, 0},
		{"sum", Sum{workload.Flat(1), workload.Flat(6)}, 0, 7},
	} {
		if got := c.shape.Level(c.at); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestInstallLetsVMsComeAndGo follows arrivals and departures in a world.
func TestInstallLetsVMsComeAndGo(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := &sim.Engine{World: &sim.World{Now: now}, Sample: time.Second}
	w := &Workload{VMs: []VM{
		{Name: "stays", PPS: workload.Flat(10), CPU: workload.Flat(0.5), Packet: 100},
		{Name: "comes", PPS: workload.Flat(1), From: 10 * time.Second},
		{Name: "goes", PPS: workload.Flat(1), From: 5 * time.Second, Until: 12 * time.Second},
	}}
	w.Install(e, "br0")
	for _, c := range []struct {
		at   int
		want string
	}{{1, "stays "}, {6, "stays goes "}, {11, "stays comes goes "}, {13, "stays comes "}} {
		if err := e.Run(t.Context(), now.Add(time.Duration(c.at)*time.Second)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range e.World.VMs() {
			got += v.Name + " "
		}
		if got != c.want {
			t.Errorf("after %d s: %s, want %s", c.at, got, c.want)
		}
	}
	if pps, bytes, cpus := e.World.VMs()[0].Load.At(now); pps != 10 || bytes != 1000 || cpus != 0.5 {
		t.Errorf("load %v packets/s, %v bytes/s, %v CPUs", pps, bytes, cpus)
	}
}
