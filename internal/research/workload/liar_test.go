package workload_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

var hours = flag.Float64("hours", 1, "virtual hours for which liars lie")

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// crowd is a host with more VMs than VFs. The first VMs want VFs that they do not need; the others have steady loads and tell the truth.
type crowd struct {
	policy string
	floods []workload.Flood // of the liars
	claims *workload.Claims // nil: the NIC counts per VF
	hours  float64
}

// outcome is the result of a run.
type outcome struct {
	held    time.Duration // time that liars had a VF
	wins    int           // how often they got one
	flooded time.Duration // time that they were busy on virtio
	carried float64       // packets that the others moved on VFs
	moves   uint64        // of all
}

func (c *crowd) run(t *testing.T) (out outcome) {
	t.Helper()
	const vfs, honest = 4, 8
	w := &sim.World{Now: epoch, Timing: sim.PaperTiming}
	e := &sim.Engine{World: w, Sample: time.Second}
	pf := w.AddPF("pf0", "br0", vfs, 0)
	floods := append([]workload.Flood(nil), c.floods...)
	for i := range floods {
		floods[i].VM = w.AddVM(i, fmt.Sprintf("liar%d", i), "br0", &floods[i])
	}
	for i := range honest {
		w.AddVM(100+i, fmt.Sprintf("honest%d", i), "br0", sim.Constant{PPS: 30e3 + 5e3*float64(i)})
	}
	if c.claims != nil {
		claims := *c.claims
		w.Patch, pf.Caps.VFCounters = claims.Patch, model.No
	}
	opts := loop.DefaultOptions
	opts.Mode = model.ModeEnforce
	core, err := loop.NewCore(model.Rules{Policy: c.policy, Interval: 300 * time.Second}, opts, &sim.Journal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.Core = core
	had := map[*sim.VM]bool{}
	e.OnTick = func(now time.Time) {
		for i, vm := range w.VMs() {
			_, open := vm.Holds()
			pps, _, _ := vm.Load.At(now)
			switch liar := i < len(floods); {
			case open && liar:
				out.held += time.Second
			case open:
				out.carried += pps
			case liar && pps == floods[i].PPS:
				out.flooded += time.Second
			}
			if i < len(floods) && open && !had[vm] {
				out.wins++
			}
			had[vm] = open
		}
	}
	e.Start()
	if err := e.Run(context.Background(), epoch.Add(time.Duration(c.hours*float64(time.Hour)))); err != nil {
		t.Fatal(err)
	}
	total := core.View().Totals
	out.moves = total.Plugs + total.Unplugs
	return out
}

func isLiar(vm *model.VM) bool { return vm.Name[0] == 'l' }

// says makes liars claim a figure, whatever they move.
func says(figure float64) func(*model.VM, time.Time, float64) (float64, bool) {
	return func(vm *model.VM, _ time.Time, pps float64) (float64, bool) {
		if isLiar(vm) {
			return figure, true
		}
		return pps, true
	}
}

func silent(vm *model.VM, _ time.Time, pps float64) (float64, bool) { return pps, !isLiar(vm) }

func forge(vm *model.VM) float64 {
	if isLiar(vm) {
		return 10e3
	}
	return 0
}

// grain is how precisely in time a policy can take a VF away: a round, or some samples.
var grain = map[string]time.Duration{"adaptive": 30 * time.Second, "rentbuy": 30 * time.Second, "activity": 300 * time.Second}

// What liars gain over telling the truth is bounded by what they earn: some seconds with a VF for each second in which they are really busy
// on virtio, fewer the more the host can see, and fewer once the port has shown that they lie. Beyond that they keep a VF that they have
// won only as long as the policy leaves it to a VM that it knows to be idle.
func TestLiesDoNotPay(t *testing.T) {
	const boast, modest = 14.88e6, 70e3 // line rate; and what ranks it above most of the others
	once := func(long time.Duration) []workload.Flood {
		return []workload.Flood{{PPS: 300e3, From: epoch.Add(10 * time.Minute), For: long, Idle: 10}}
	}
	again := func(long time.Duration) []workload.Flood {
		f := once(long)
		f[0].Rest = time.Minute
		return f
	}
	three := func(long time.Duration) []workload.Flood {
		f := again(long)[0]
		return []workload.Flood{f, f, f}
	}
	cases := []struct {
		name   string
		floods func(time.Duration) []workload.Flood
		claims workload.Claims
		ratio  float64 // seconds with a VF for each on virtio
		found  float64 // hours until the port has shown that it lies
	}{
		{"floods once, boasts", once, workload.Claims{Say: says(boast), Port: true, Interrupts: true}, 1, 0},
		{"floods once, claims little", once, workload.Claims{Say: says(modest), Port: true, Interrupts: true}, 1, 0},
		{"floods once, falls silent", once, workload.Claims{Say: silent, Port: true, Interrupts: true}, 1, 0},
		{"floods once, boasts, no witness", once, workload.Claims{Say: says(boast)}, 5, 0},
		{"floods once, boasts, the port alone", once, workload.Claims{Say: says(boast), Port: true}, 20, 0},
		{
			"floods once, claims little, forges interrupts", once,
			workload.Claims{Say: says(modest), Port: true, Interrupts: true, Forged: forge},
			100, 0,
		},
		{"floods again, boasts", again, workload.Claims{Say: says(boast), Port: true, Interrupts: true}, 1, 0},
		{
			"floods again, claims little, forges interrupts", again,
			workload.Claims{Say: says(modest), Port: true, Interrupts: true, Forged: forge},
			5, 0.75,
		},
		{"three flood again, boast", three, workload.Claims{Say: says(boast), Port: true, Interrupts: true}, 1, 0},
		{"three flood again, no witness", three, workload.Claims{Say: says(boast)}, 5, 0},
		{
			"three flood again, claim little, forge interrupts", three,
			workload.Claims{Say: says(modest), Port: true, Interrupts: true, Forged: forge},
			5, 0.75,
		},
	}
	type run struct {
		liars       int
		again, long bool
	}
	for policy, flood := range map[string]time.Duration{
		"adaptive": 13 * time.Second, "rentbuy": 13 * time.Second, "activity": 2 * time.Minute,
	} {
		truths := map[run]outcome{} // by kind of flood: witnesses change nothing for those who tell the truth
		for _, c := range cases {
			t.Run(policy+"/"+c.name, func(t *testing.T) {
				floods := c.floods(flood)
				id, long := run{len(floods), floods[0].Rest > 0, c.found > 0}, *hours
				if c.found > 0 { // it takes a while to see that it stays found; -short sees less of it
					if long = max(long, 12); testing.Short() {
						long = max(*hours, 6)
					}
				}
				truth, ok := truths[id]
				if !ok {
					truth = (&crowd{policy, floods, nil, long}).run(t)
					truths[id] = truth
				}
				if truth.wins == 0 {
					t.Fatal("the floods win no VF: this shows nothing")
				}
				lies := (&crowd{policy, floods, &c.claims, long}).run(t)
				idle := truth.held / time.Duration(truth.wins) // that the policy leaves a VF to an idle VM
				gain := lies.held - time.Duration(lies.wins)*idle
				most := time.Duration(c.ratio*float64(lies.flooded) + c.found*float64(time.Hour))
				minutes := func(d time.Duration) time.Duration { return d.Round(time.Minute / 10) }
				t.Logf("in %.0f h VF time %s with lies, %s with the truth; busy on virtio %s; %s more than %d times %s, at most %s; "+
					"the others carry %.1f %% of what they do beside the truth",
					long, minutes(lies.held), minutes(truth.held), minutes(lies.flooded), minutes(gain), lies.wins, idle, minutes(most),
					100*lies.carried/truth.carried)
				if gain > most+grain[policy]*time.Duration(lies.wins) {
					t.Errorf("lies gain %s, want at most %s", gain, most)
				}
			})
		}
	}
}

// Those who tell the truth have nearly what they would have where the NIC counts per VF.
func TestTruthIsBelieved(t *testing.T) {
	for _, policy := range []string{"adaptive", "rentbuy", "activity"} {
		for name, c := range map[string]struct {
			claims workload.Claims
			least  float64 // of the packets that VFs carry where the NIC counts
		}{
			"port and interrupts": {workload.Claims{Port: true, Interrupts: true}, 0.98},
			"interrupts":          {workload.Claims{Interrupts: true}, 0.95},
			"nothing":             {workload.Claims{}, 0.9},
		} {
			counted := (&crowd{policy, nil, nil, 2}).run(t)
			claimed := (&crowd{policy, nil, &c.claims, 2}).run(t)
			t.Logf("%s, %s: %.2f %% of the packets, %d moves instead of %d", policy, name, 100*claimed.carried/counted.carried, claimed.moves,
				counted.moves)
			if claimed.carried < c.least*counted.carried {
				t.Errorf("%s, %s: VFs carry %.0f packets instead of %.0f", policy, name, claimed.carried, counted.carried)
			}
		}
	}
}
