package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"sluice/internal/model"
)

var schedules = flag.Int("schedules", 10000, "random fault schedules to run")

// destroy ends a VM, unless few are left. What it leaves on its VF is repaired by the daemon that saw the VM, after a restart on request.
func (h *host) destroy(v *VM) {
	if len(h.World.VMs()) <= 3 {
		return
	}
	h.World.Destroy(v)
	h.lost, h.unseen = true, h.unseen || h.Core == nil || h.Core.View().Snapshot == nil
}

// killNow kills the daemon now and starts another after a while.
func (h *host) killNow(after time.Duration) {
	h.Kill()
	h.At(h.World.Now.Add(after), h.reboot)
}

// reboot starts a daemon if there is none, once the one that is stopping has ended.
func (h *host) reboot() {
	switch h.Core {
	case nil:
		h.unseen = h.unseen || h.lost
		h.boot()
	case h.stopping:
		h.At(h.World.Now.Add(100*time.Millisecond), h.reboot)
	}
}

// history is a random sequence of faults on a random host.
type history struct {
	*host
	r     *rand.Rand
	story string
	heals []func()
	did   []deed
	err   error // of the run
}

// deed is a fault that a VM had.
type deed struct {
	fault
	vm string
}

// waits is how long a Move of the VM may wait in vain for its guest, which keeps its VF, before Sluice looks at the VM again.
func (y *history) waits(vm string) time.Duration {
	for _, d := range y.did {
		if d.keeps && d.vm == vm {
			return inVain
		}
	}
	return 0
}

func (d deed) cuts(vm string) bool { return d.cut > 0 && (d.all || d.vm == vm) }

// bound returns how long a VM may be cut off: not at all by faults of others, and longer if other faults delay the repair.
func (y *history) bound(vm string) (most time.Duration) {
	cuts := 0
	for _, d := range y.did {
		if d.cuts(vm) {
			cuts, most = cuts+1, most+d.cut
			if d.unseen {
				most += y.waits(vm)
			}
		}
	}
	for _, d := range y.did {
		if (cuts > 1 || cuts == 1 && !d.cuts(vm)) && (!d.own || d.vm == vm) {
			most += d.delay
		}
	}
	return most
}

// most returns the longest bound.
func (y *history) most() (most time.Duration) {
	for _, d := range y.did {
		most = max(most, y.bound(d.vm))
	}
	return most
}

// newHistory makes a host on which n of the faults happen within 30 s.
func newHistory(t *testing.T, u Uplink, seed uint64, among []fault, n int) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	policy := []string{"activity", "adaptive", "fair", "vnraf", "rentbuy"}[r.IntN(5)]
	vms, vfs := 4+r.IntN(4), 1+r.IntN(3)
	if r.IntN(3) == 0 {
		vfs = vms + r.IntN(3) // what is left on a VF stays there: nobody needs that one
	}
	y := &history{r: r, host: newHost(t, vms, vfs, model.Rules{
		Policy: policy, Interval: 3 * time.Second, Params: model.Params{"vf0_mbit": 100, "delta_mbit": 100},
	})}
	y.OnEvent = y.meter.Note
	y.story = fmt.Sprintf("seed %d, %s, %s, %d VMs, %d VFs%s\n", seed, u, policy, vms, vfs, y.addNICs())
	for _, p := range y.World.PFs() {
		y.World.Connect(p, u)
	}
	for range n {
		f := among[r.IntN(len(among))]
		y.At(epoch.Add(upTo(r, 30*time.Second)), func() { y.happen(f) })
	}
	for range 6 {
		y.At(epoch.Add(upTo(r, 40*time.Second)), func() { y.loads[r.IntN(len(y.loads))].pps = float64(r.IntN(9000)) })
	}
	return y
}

// addNICs gives some VMs a second NIC on the first one's network or another, perhaps with only one root port; or a management NIC before
// the first, on a bridge without a PF.
func (y *history) addNICs() (story string) {
	if y.r.IntN(2) == 0 {
		return ""
	}
	y.World.AddPF("pf1", "br1", 1+y.r.IntN(2), 1)
	for _, v := range y.World.VMs() {
		switch y.r.IntN(6) {
		case 0:
			y.World.AddNIC(v, "br0", y.r.Float64())
		case 1, 2:
			y.World.AddNIC(v, "br1", y.r.Float64())
		case 3:
			y.World.AddNIC(v, "br0", 0.9)
			v.NICs[0].Net = "mgmt"
		default:
			continue
		}
		v.Ports = y.r.IntN(3)
		story += fmt.Sprintf(", %s %s and %s with %d ports", v.Name, v.NICs[0].Net, v.NICs[1].Net, v.Ports)
	}
	return story
}

func (y *history) happen(f fault) {
	vms := y.World.VMs()
	v := vms[y.r.IntN(len(vms))]
	y.story += fmt.Sprintf("  %s %s %s\n", y.World.Now.Sub(epoch), f.name, v.Name)
	y.did = append(y.did, deed{f, v.Name})
	if heal := f.do(y.host, v, y.r); heal != nil {
		y.heals = append(y.heals, heal)
	}
}

// run plays the history, heals what can be healed and then requires a sound world in which no VM was unreachable for longer than its bound.
func (y *history) run() error {
	y.host.run(45 * time.Second)
	for _, heal := range y.heals {
		heal()
	}
	y.World.LibvirtDown(false)
	y.reboot()
	y.host.run(150 * time.Second)
	if y.unseen {
		y.Core.Repair(y.World.Now)
	}
	y.rest()
	if err := y.judge(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, y.story, y.dump())
	}
	return nil
}

func (y *history) judge() error {
	y.meter.Stop(y.World.Now)
	for vm, of := range y.meter.of {
		if of.most() > y.bound(vm) {
			return fmt.Errorf("%s; the bound is %s", y.meter.story[vm], y.bound(vm))
		}
	}
	if err := y.sound(); err != nil {
		return err
	}
	if err := y.unlimited(); err != nil {
		return err
	}
	return y.served()
}

// rest freezes placement by freezing the loads, and lets moves in progress end.
func (h *host) rest() {
	h.rules = model.Rules{Policy: "activity", Interval: time.Hour}
	if err := h.Core.SetRules(h.rules); err != nil {
		h.t.Fatal(err)
	}
	h.run(60 * time.Second)
}

// unlimited checks that no limit of vnraf remains on VFs under another policy.
func (h *host) unlimited() error {
	for n := range h.World.nics() {
		if vf := h.World.vf(n.hasVF); vf != nil && !n.foreign && vf.MaxTxRate != 0 {
			return fmt.Errorf("%s is still limited to %d bit/s", n, vf.MaxTxRate)
		}
	}
	return nil
}

// served checks that no usable VF lies idle while a NIC wants one whose VM has room for it.
func (h *host) served() error {
	for _, p := range h.World.PFs() {
		used, could, foreign := 0, 0, 0
		for n := range h.World.nics() {
			switch {
			case n.Net != p.Network:
			case n.open:
				used++
			case n.hasVF != model.NoVF || n.VM.freePort():
				could++
			}
			if n.foreign {
				foreign++
			}
		}
		if want := min(p.NumVFs, used+could); used < want {
			return fmt.Errorf("%d of %d VFs of %s serve a VM (%d attached by others)", used, want, p.Name, foreign)
		}
	}
	return nil
}

// TestRandomFaults runs random histories of several faults.
func TestRandomFaults(t *testing.T) {
	table := newTable()
	for _, u := range Uplinks {
		n := *schedules
		switch {
		case testing.Short() && u == Bridge:
			n = 200
		case testing.Short():
			n = 100
		}
		inOrder(n, func(seed int) *history { return newHistory(t, u, uint64(seed), faults, 2+seed%5).play() }, func(y *history) {
			kind := string(u) + ", only of Sluice and the host"
			if y.most() > 0 {
				kind = string(u) + ", of guests and operators too"
			}
			table.try(t, kind, y)
		})
	}
	t.Logf("reachability by what the faults are:\n%s", table)
}

// TestEachFault runs each fault alone.
func TestEachFault(t *testing.T) {
	n := max(1, *schedules/100)
	if testing.Short() {
		n = 10
	}
	table := newTable()
	for i, f := range faults {
		inOrder(n, func(seed int) *history {
			return newHistory(t, Uplinks[seed%len(Uplinks)], uint64(i*n+seed), []fault{f}, 1).play()
		}, func(y *history) { table.try(t, f.name, y) })
	}
	t.Logf("reachability by fault:\n%s", table)
}

// play runs a history and keeps what went wrong.
func (y *history) play() *history {
	y.err = y.run()
	return y
}

// inOrder plays n seeds on all processors, and passes what came of each to note, in their order.
func inOrder[T any](n int, play func(seed int) T, note func(T)) {
	played := make(chan chan T, runtime.GOMAXPROCS(0))
	done := make(chan struct{})
	defer close(done) // note may end the test
	go func() {
		defer close(played)
		for seed := range n {
			one := make(chan T, 1)
			select {
			case played <- one:
				go func() {
					defer close(one) // play may have failed the test for good
					one <- play(seed)
				}()
			case <-done:
				return
			}
		}
	}()
	for one := range played {
		result, ok := <-one
		if !ok {
			return
		}
		note(result)
	}
}

// table is how long VMs were unreachable, by fault.
type table struct {
	rows  map[string]*row
	order []string
	bad   int
}

type row struct {
	runs, above int
	bound       time.Duration
	worst       gaps
}

func newTable() *table { return &table{rows: map[string]*row{}} }

// try records a history, and stops the test if too many failed.
func (b *table) try(t *testing.T, name string, y *history) {
	t.Helper()
	w := b.rows[name]
	if w == nil {
		w = &row{}
		b.rows[name], b.order = w, append(b.order, name)
	}
	w.runs++
	w.worst.add(y.meter.worst)
	w.bound = max(w.bound, y.most())
	if y.meter.worst.most() > 0 {
		w.above++
	}
	if y.err != nil {
		t.Errorf("%v", y.err)
		if b.bad++; b.bad >= *tolerate {
			t.Fatalf("\n%s", b)
		}
	}
}

var tolerate = flag.Int("tolerate", 3, "histories that may go wrong before the test ends")

func (b *table) String() string {
	s := fmt.Sprintf("%-40s %6s %7s %9s", "fault", "runs", "above 0", "bound")
	for _, name := range directionNames {
		s += fmt.Sprintf(" %12s", name)
	}
	for _, name := range b.order {
		w := b.rows[name]
		s += fmt.Sprintf("\n%-40s %6d %7d %9s", name, w.runs, w.above, w.bound)
		for _, d := range w.worst {
			s += fmt.Sprintf(" %12s", d.Round(10*time.Microsecond))
		}
	}
	return s
}

func TestRunIsDeterministic(t *testing.T) {
	trace := func() string {
		h := newHost(t, 8, 3, model.Rules{Policy: "activity", Interval: 3 * time.Second})
		r := rand.New(rand.NewPCG(7, 7))
		s := ""
		h.OnStep = func(st model.Step) Verdict { s += h.World.Now.String() + st.String() + "\n"; return Verdict{} }
		h.OnTick = func(time.Time) { h.loads[r.IntN(8)].pps = r.Float64() * 1e5 }
		if err := h.Run(context.Background(), epoch.Add(5*time.Minute)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := trace(), trace()
	if a != b || len(a) < 1000 {
		t.Errorf("two equal runs differ, or nothing happened (%d bytes)", len(a))
	}
}
