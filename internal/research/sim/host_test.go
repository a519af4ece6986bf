package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// foreignMAC is the MAC of somebody else's filter.
var foreignMAC = model.MAC{2, 0xfe, 0, 0, 0, 1}

// level is a load that a test changes while it runs.
type level struct{ pps float64 }

func (l *level) At(time.Time) (float64, float64, float64) { return l.pps, l.pps * 200, 0.1 }

// host is a small world with a daemon on it.
type host struct {
	*Engine
	t       testing.TB
	journal *Journal
	filters filters
	rules   model.Rules
	opts    loop.Options
	loads   []*level
	meter   *Meter
	lost    bool // a VM was destroyed
	unseen  bool // and the daemon that would have missed it is dead
	renamed int  // representors that were renamed
}

// filters is a loop.Filters in memory that survives Kill.
type filters map[model.Filter]bool

// All implements loop.Filters.
func (f filters) All() []model.Filter { return slices.Collect(maps.Keys(f)) }

// Added implements loop.Filters.
func (f filters) Added(x model.Filter) { f[x] = true }

// Gone implements loop.Filters.
func (f filters) Gone(x model.Filter) { delete(f, x) }

// atRest reports whether no move is under way and none waits.
func (h *host) atRest() bool {
	v := h.Core.View()
	return len(v.Active)+len(v.Pending) == 0
}

func newHost(t testing.TB, vms, vfs int, rules model.Rules) *host {
	t.Helper()
	w := &World{Now: epoch, Timing: PaperTiming}
	w.AddPF("pf0", "br0", vfs, 0)
	h := &host{t: t, journal: &Journal{}, filters: filters{}, rules: rules, Engine: &Engine{World: w, Sample: time.Second}}
	for i := range vms {
		l := &level{pps: float64(1000 * (i + 1))}
		h.loads = append(h.loads, l)
		w.AddVM(i, fmt.Sprintf("vm%d", i), "br0", l)
	}
	h.opts = loop.DefaultOptions
	h.opts.Mode = model.ModeEnforce
	h.opts.Backoff, h.opts.BackoffMax = 2*time.Second, 20*time.Second
	h.opts.Timeouts = plan.Timeouts{Kernel: time.Second, Attach: 2 * time.Second, Guest: 3 * time.Second, Detach: 3 * time.Second}
	h.meter = NewMeter(w)
	h.boot()
	h.Start()
	return h
}

// boot starts the daemon on the journal of an earlier one.
func (h *host) boot() {
	h.t.Helper()
	core, err := loop.NewCore(h.rules, h.opts, h.journal, h.journal.Left())
	if err != nil {
		h.t.Fatal(err)
	}
	core.Remember(h.filters)
	h.Core = core
}

func (h *host) run(d time.Duration) {
	h.t.Helper()
	if err := h.Run(context.Background(), h.World.Now.Add(d)); err != nil {
		h.t.Fatal(err)
	}
}

// holders lists the VMs whose guests use a VF, and by which NIC if that is not the first.
func (h *host) holders() string {
	s := ""
	for n := range h.World.nics() {
		switch {
		case !n.open:
		case n == n.VM.NICs[0]:
			s += n.VM.Name + " "
		default:
			s += n.String() + " "
		}
	}
	return s
}

func (h *host) want(holders string) {
	h.t.Helper()
	if got := h.holders(); got != holders {
		h.t.Errorf("at %s: holders %q, want %q\n%s", h.World.Now.Sub(epoch), got, holders, h.dump())
	}
}

// dump prints the world and the daemon's view of it.
func (h *host) dump() string {
	s := h.World.String()
	if h.Core == nil {
		return s + "no daemon\n"
	}
	view := h.Core.View()
	if view.Target != nil {
		for _, r := range view.Target.Reasons {
			s += string(r.VM[30:]) + " " + r.String() + "\n"
		}
	}
	for _, m := range view.Active {
		s += fmt.Sprintf("active step %d undoing=%v err=%s\n%s", m.Step, m.Undoing, m.Error, m.Move)
	}
	for _, m := range view.Pending {
		s += "waiting " + m.String()
	}
	for _, f := range view.Findings {
		s += f.Code + " " + f.Subject + " " + f.Text + "\n"
	}
	for _, m := range view.Recent[:min(5, len(view.Recent))] {
		s += fmt.Sprintf("recent %s %s %s err=%s\n", m.Move.Kind, m.Move.VMName, m.Move.VF, m.Error)
	}
	return s
}

// sound checks what must hold at rest: every NIC is reachable, VFs are clean or in use by one VM, nothing is in progress.
func (h *host) sound() error {
	seen := map[model.VFID]string{}
	for n := range h.World.nics() {
		if r := h.World.Reach(n); h.meter.counts(n) && (!r.Wire || !r.Local || !r.Out) {
			return fmt.Errorf("%s is cut off: %+v", n, r)
		}
		if n.hasVF != model.NoVF {
			if o, dup := seen[n.hasVF]; dup {
				return fmt.Errorf("VF %s is in %s and %s", n.hasVF, o, n)
			}
			seen[n.hasVF] = n.String()
		}
	}
	for _, p := range h.World.PFs() {
		for _, vf := range p.VFs {
			if seen[vf.ID] == "" && (!vf.MAC.IsZero() || vf.VLAN != 0 || vf.MaxTxRate != 0 || vf.MaxPackets != 0 || vf.Trust == model.Yes) {
				return fmt.Errorf("VF %s leaked: %+v", vf.ID, vf)
			}
		}
	}
	macs := map[model.MAC]bool{}
	for n := range h.World.nics() {
		macs[n.MAC] = true
	}
	for at, port := range h.World.fdb {
		if !macs[at.mac] {
			return fmt.Errorf("%s sends %s, whose VM is gone, to %s", at.network, at.mac, port)
		}
	}
	for _, p := range h.World.PFs() {
		for mac := range p.self {
			if !macs[mac] && mac != foreignMAC {
				return fmt.Errorf("PF %s filters for %s, whose VM is gone", p.Name, mac)
			}
		}
	}
	if len(h.World.mirrors) > 0 {
		return fmt.Errorf("dual paths left open: %v", h.World.mirrors)
	}
	return nil
}

// neverCutOff fails the test if a NIC was unreachable at any instant up to its end.
func (h *host) neverCutOff() {
	h.t.Helper()
	h.OnEvent = h.meter.Note
	h.t.Cleanup(func() {
		if worst := h.meter.Stop(h.World.Now); worst.most() > 0 {
			h.t.Errorf("%s\n%s", h.meter.story[h.meter.most], h.dump())
		}
	})
}

func TestActivityFollowsTheLoad(t *testing.T) {
	h := newHost(t, 4, 2, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.neverCutOff()
	h.run(4 * time.Second)
	h.want("vm2 vm3 ")
	h.loads[0].pps, h.loads[3].pps = h.loads[3].pps, h.loads[0].pps
	h.loads[1].pps, h.loads[2].pps = h.loads[2].pps, h.loads[1].pps
	h.run(12 * time.Second)
	h.want("vm0 vm1 ")
	if err := h.sound(); err != nil {
		t.Error(err)
	}
}

func TestFairGivesEqualTime(t *testing.T) {
	h := newHost(t, 6, 2, model.Rules{Policy: "fair", Interval: 10 * time.Second})
	h.neverCutOff()
	held := map[string]time.Duration{}
	h.OnTick = func(time.Time) {
		for _, v := range h.World.VMs() {
			if _, open := v.Holds(); open {
				held[v.Name] += h.Sample
			}
		}
	}
	h.run(180 * time.Second) // six turns for each VM
	for _, v := range h.World.VMs() {
		if d := held[v.Name] - 60*time.Second; d < -10*time.Second || d > 10*time.Second {
			t.Errorf("%s had a VF for %s, want 60s within one round of 10s", v.Name, held[v.Name])
		}
	}
}

func TestEnoughVFsForAll(t *testing.T) {
	h := newHost(t, 3, 4, model.Rules{Policy: "activity", Interval: 300 * time.Second})
	h.run(5 * time.Second)
	h.want("vm0 vm1 vm2 ")
	h.World.AddVM(9, "late", "br0", &level{pps: 1})
	h.run(5 * time.Second)
	h.want("vm0 vm1 vm2 late ")
}

func TestNoVFOfTheWrongNetwork(t *testing.T) {
	h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.World.AddPF("pf1", "br1", 4, 1)
	x := h.World.AddVM(7, "other", "br1", &level{pps: 5})
	h.run(10 * time.Second)
	h.want("vm2 other ")
	if id, _ := x.Holds(); id.PF != "pf1" {
		t.Errorf("a VM of br1 has VF %s", id)
	}
}

func TestObserveModeChangesNothing(t *testing.T) {
	h := newHost(t, 4, 2, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.opts.Mode = model.ModeObserve
	h.boot()
	h.OnStep = func(s model.Step) Verdict {
		t.Errorf("observe mode did %s", s)
		return Verdict{}
	}
	h.run(20 * time.Second)
	if n := len(h.Core.View().Pending); n != 2 {
		t.Errorf("%d moves would be done, want 2", n)
	}
}

func TestDrainGivesEverythingUp(t *testing.T) {
	h := newHost(t, 4, 2, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.neverCutOff()
	h.run(5 * time.Second)
	h.rules.Drain = true
	if err := h.Core.SetRules(h.rules); err != nil {
		t.Fatal(err)
	}
	h.run(5 * time.Second)
	h.want("")
	if err := h.sound(); err != nil {
		t.Error(err)
	}
}

// A finding is older than its VM's moves that ended after it: repairing it would undo what they did.
func TestRepairsDoNotOutliveWhatTheyMend(t *testing.T) {
	h := newHost(t, 100, 63, model.Rules{Policy: "activity", Interval: time.Minute})
	h.run(5 * time.Minute)
	if f := h.Core.View().Findings; len(f) > 0 || !h.atRest() {
		t.Errorf("not at rest, or not as it should be: %v", f)
	}
}

// The VF of a VM that ends goes to the next VM at once. What the first left on it must not be cleared while the second has it: the repair
// would fail again and again, and delay other repairs of that VM.
func TestWhatIsLeftOnAVFIsNotClearedForItsNextHolder(t *testing.T) {
	h := newHost(t, 4, 3, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.run(10 * time.Second)
	h.want("vm1 vm2 vm3 ")
	h.OnStep = func(s model.Step) Verdict {
		if o := h.World.holder(s.VF.ID); s.Kind == model.StepClearVF && o != nil {
			t.Errorf("at %s: %s, which %s has", h.World.Now.Sub(epoch), s, o)
		}
		return Verdict{}
	}
	h.World.Destroy(h.World.VMs()[3])
	h.run(5 * time.Second)
	h.want("vm0 vm1 vm2 ")
}

// A VM whose guest leaves its VF is cut off, and VFs reach it through no filter: the former is repaired at the first Snapshot, the latter
// can wait.
func TestWhatCutsAVMOffIsRepairedFirst(t *testing.T) {
	h := newHost(t, 3, 2, model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.OnEvent = h.meter.Note
	h.At(epoch.Add(10500*time.Millisecond), func() { h.World.UnloadDriver(h.World.VMs()[2]) })
	h.run(15 * time.Second)
	if got := h.meter.Stop(h.World.Now); got.most() == 0 || got.most() > h.Sample {
		t.Errorf("%v, want something, but at most until the next Snapshot and the repair", h.meter.story)
	}
}
