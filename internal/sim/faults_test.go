package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/model"
)

var schedules = flag.Int("schedules", 10000, "random fault schedules to run")

// fault is one thing that goes wrong; heal takes back what would otherwise last.
type fault struct {
	name string
	do   func(h *host, v *VM, r *rand.Rand) (heal func())
}

var errFault = errors.New("injected failure")

var faults = []fault{
	{"kill", func(h *host, _ *VM, r *rand.Rand) func() {
		h.kill()
		h.At(h.World.Now.Add(time.Duration(r.IntN(5000))*time.Millisecond), h.reboot)
		return nil
	}},
	{"kill inside a step", func(h *host, _ *VM, r *rand.Rand) func() {
		lose := r.IntN(2) == 0
		h.OnStep = func(model.Step) Verdict {
			h.OnStep = nil
			h.At(h.World.Now, h.kill)
			h.At(h.World.Now.Add(time.Duration(r.IntN(3000))*time.Millisecond), h.reboot)
			return Verdict{Lose: lose}
		}
		return func() { h.OnStep = nil }
	}},
	{"libvirtd restart", func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.LibvirtDown(true)
		h.At(h.World.Now.Add(time.Duration(r.IntN(8000))*time.Millisecond), func() { h.World.LibvirtDown(false) })
		return nil
	}},
	{"destroy", func(h *host, v *VM, _ *rand.Rand) func() {
		if len(h.World.VMs()) > 3 {
			h.destroy(v)
		}
		return nil
	}},
	{"pause", func(_ *host, v *VM, _ *rand.Rand) func() {
		v.State = model.VMPaused
		return func() { v.State = model.VMRunning }
	}},
	{"reboot", func(h *host, v *VM, _ *rand.Rand) func() { h.World.Reboot(v); return nil }},
	{"migrate", func(h *host, v *VM, r *rand.Rand) func() {
		v.State = model.VMMigrating
		h.At(h.World.Now.Add(time.Duration(r.IntN(5000))*time.Millisecond), func() {
			if len(h.World.VMs()) > 3 && r.IntN(2) == 0 {
				h.destroy(v) // it went
			} else {
				v.State = model.VMRunning // it stayed
			}
		})
		return func() { v.State = model.VMRunning }
	}},
	{"ignores unplug", func(_ *host, v *VM, _ *rand.Rand) func() {
		v.IgnoreUnplug = true
		return func() { v.IgnoreUnplug = false }
	}},
	{"no driver", func(h *host, v *VM, _ *rand.Rand) func() {
		v.NoDriver = true
		return func() { h.World.LoadDriver(v) }
	}},
	{"agent hangs", func(_ *host, v *VM, _ *rand.Rand) func() {
		v.Blind = true
		return func() { v.Blind = false }
	}},
	{"virtio path broken", func(_ *host, v *VM, _ *rand.Rand) func() {
		v.TapDown = true
		return func() { v.TapDown = false }
	}},
	{"link down", func(h *host, _ *VM, _ *rand.Rand) func() {
		h.World.PFs()[0].LinkUp = false
		return func() { h.World.PFs()[0].LinkUp = true }
	}},
	{"numvfs changed", func(h *host, _ *VM, r *rand.Rand) func() {
		p := h.World.PFs()[0]
		used := false
		for _, v := range h.World.VMs() {
			used = used || v.hasVF != model.NoVF
		}
		if !used { // the kernel refuses it while VFs are assigned
			p.SetNumVFs(r.IntN(4))
		}
		return func() {
			if p.NumVFs == 0 {
				p.SetNumVFs(2)
			}
		}
	}},
	{"foreign attach", func(h *host, v *VM, r *rand.Rand) func() {
		p := h.World.PFs()[0]
		if v.hasVF != model.NoVF || p.NumVFs == 0 {
			return nil
		}
		id := p.VFs[r.IntN(p.NumVFs)].ID
		for _, o := range h.World.VMs() {
			if o.hasVF == id {
				return nil
			}
		}
		h.World.AttachForeign(v, id)
		return nil
	}},
	{"steps fail", func(h *host, _ *VM, r *rand.Rand) func() {
		kind := []model.StepKind{
			model.StepBindVFIO, model.StepSetVF, model.StepSetMAC, model.StepAttach, model.StepWaitGuest, model.StepDetach,
			model.StepFDBToVF, model.StepFDBToTap, model.StepClearVF, model.StepOpenWindow, model.StepCloseWindow, model.StepAddSelf, model.StepDelSelf, model.StepAnnounce,
		}[r.IntN(14)]
		h.World.Fail = func(s model.Step) error {
			if s.Kind == kind {
				return errFault
			}
			return nil
		}
		return func() { h.World.Fail = nil }
	}},
	{"limits fail", func(h *host, _ *VM, _ *rand.Rand) func() {
		h.World.FailLimit = func(model.Limit) error { return errFault }
		return func() { h.World.FailLimit = nil }
	}},
	{"steps are slow", func(h *host, _ *VM, r *rand.Rand) func() {
		h.World.Timing.Kernel = time.Duration(r.IntN(900)) * time.Millisecond
		return func() { h.World.Timing = PaperTiming }
	}},
}

// destroy ends a VM. What it leaves on its VF is mended by the daemon that saw it, and
// after a restart when somebody asks.
func (h *host) destroy(v *VM) {
	h.World.Destroy(v)
	h.lost, h.unseen = true, h.unseen || h.Core == nil || h.Core.View().Snapshot == nil
}

func (h *host) kill() {
	h.Kill()
	h.unseen = h.unseen || h.lost
}

func (h *host) reboot() {
	if h.Core == nil {
		h.boot()
	}
}

// schedule runs one random history, heals what can be healed and asks for a sound world.
func schedule(t *testing.T, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	policy := []string{"activity", "adaptive", "fair", "vnraf", "rentbuy"}[r.IntN(5)]
	vms, vfs := 4+r.IntN(4), 1+r.IntN(3)
	if r.IntN(3) == 0 {
		vfs = vms + r.IntN(3) // what is left on a VF stays there: nobody needs that one
	}
	h := newHost(t, vms, vfs, model.Rules{
		Policy: policy, Interval: 3 * time.Second, Params: model.Params{"vf0_mbit": 100, "delta_mbit": 100},
	})
	story := fmt.Sprintf("seed %d, %s, %d VMs, %d VFs\n", seed, policy, vms, vfs)
	var heals []func()
	for range 2 + r.IntN(5) {
		at := time.Duration(r.IntN(30000)) * time.Millisecond
		f := faults[r.IntN(len(faults))]
		h.At(epoch.Add(at), func() {
			vms := h.World.VMs()
			v := vms[r.IntN(len(vms))]
			story += fmt.Sprintf("  %s %s %s\n", at, f.name, v.Name)
			if heal := f.do(h, v, r); heal != nil {
				heals = append(heals, heal)
			}
		})
	}
	for range 6 {
		h.At(epoch.Add(time.Duration(r.IntN(40000))*time.Millisecond), func() { h.loads[r.IntN(len(h.loads))].pps = float64(r.IntN(9000)) })
	}
	h.run(45 * time.Second)
	for _, heal := range heals {
		heal()
	}
	h.World.LibvirtDown(false)
	h.reboot()
	h.run(150 * time.Second)
	if h.unseen {
		h.Core.Repair(h.World.Now)
	}
	h.rest()
	if err := h.sound(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, story, h.dump())
	}
	if err := h.unlimited(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, story, h.dump())
	}
	if err := h.served(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, story, h.dump())
	}
	return nil
}

// rest freezes placement by freezing the loads and lets moves under way end.
func (h *host) rest() {
	h.rules = model.Rules{Policy: "activity", Interval: time.Hour}
	if err := h.Core.SetRules(h.rules); err != nil {
		h.t.Fatal(err)
	}
	h.run(60 * time.Second)
}

// unlimited checks that no limit of vnraf's is left on the VFs that another policy gives.
func (h *host) unlimited() error {
	for _, v := range h.World.VMs() {
		if vf := h.World.vf(v.hasVF); vf != nil && !v.foreign && vf.MaxTxRate != 0 {
			return fmt.Errorf("%s is limited to %d bit/s still", v.Name, vf.MaxTxRate)
		}
	}
	return nil
}

// served checks that no usable VF lies idle while a VM wants one.
func (h *host) served() error {
	used, foreign := 0, 0
	for _, v := range h.World.VMs() {
		if v.hasVF != model.NoVF && v.open {
			used++
		}
		if v.foreign {
			foreign++
		}
	}
	if want := min(h.World.PFs()[0].NumVFs, len(h.World.VMs())); used < want {
		return fmt.Errorf("%d of %d VFs serve a VM (%d attached by others)", used, want, foreign)
	}
	return nil
}

func TestRandomFaults(t *testing.T) {
	n := *schedules
	if testing.Short() {
		n = 500
	}
	bad := 0
	for seed := range n {
		if err := schedule(t, uint64(seed)); err != nil {
			t.Errorf("%v", err)
			if bad++; bad >= 3 {
				t.FailNow()
			}
		}
	}
}

// TestKillAtEveryStep kills the daemon at every boundary and inside every Step of a
// swap, with the Step taking effect and not, and restarts it.
func TestKillAtEveryStep(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for at := 1; ; at++ {
			h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
			n := 0
			h.OnStep = func(model.Step) Verdict {
				n++
				if n != at {
					return Verdict{}
				}
				h.At(h.World.Now, h.Kill)
				h.At(h.World.Now.Add(2*time.Second), h.reboot)
				return Verdict{Lose: lose}
			}
			h.run(6 * time.Second)
			h.loads[0].pps = 50000
			h.run(30 * time.Second)
			h.want("vm0 ")
			if err := h.sound(); err != nil {
				t.Fatalf("killed at step %d, lost %v: %v\n%s", at, lose, err, h.dump())
			}
			if n < at {
				break
			}
		}
	}
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
