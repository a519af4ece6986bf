package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// situation is a Move, or one that is undone, on a host of its own.
type situation struct {
	name  string
	setUp func(h *host) // runs to where the Move is about to begin
	begin func(h *host) // makes it begin
	cut   time.Duration // how long the guest's own doing may cut it off
	keeps bool          // the guest keeps its VF, or does not let go of it for long: the Move waits in vain, and is undone
	end   string        // the NICs of the last VM that have a VF when all is over, where that is meant
}

var situations = []situation{
	{name: "plug", setUp: func(*host) {}, begin: func(*host) {}},
	{name: "unplug", setUp: atRest, begin: drain},
	{name: "swap", setUp: atRest, begin: swap},
	{
		name:  "undo of a plug: no driver",
		setUp: func(h *host) { h.each(func(v *VM) { v.NoDriver = true }) },
		begin: func(*host) {},
	},
	{
		name: "undo of a plug: the guest takes the VF up late", cut: seen,
		setUp: func(h *host) { h.each(func(v *VM) { v.Slow = 10 * time.Second }) },
		begin: func(*host) {},
	},
	{
		name: "undo of an unplug: the guest uses the VF", setUp: atRest, keeps: true,
		begin: func(h *host) { h.each(func(v *VM) { v.IgnoreUnplug = true }); swap(h) },
	},
	{
		name: "undo of an unplug: the guest lets go late", setUp: atRest, cut: seen, keeps: true,
		begin: func(h *host) { h.each(func(v *VM) { v.Slow = 15 * time.Second }); swap(h) },
	},
	{
		name: "undo of an unplug: the guest does not use the VF", cut: seen,
		setUp: func(h *host) {
			atRest(h)
			h.each(func(v *VM) { h.World.UnloadDriver(v); v.IgnoreUnplug = true })
			h.run(3 * time.Second)
		},
		begin: func(*host) {},
	},
	{
		name: "plug of a second NIC", end: "ua-net0 ua-net1 ",
		setUp: func(h *host) { h.second("br8", 0); atRest(h) },
		begin: func(h *host) { h.World.pf("pf8").SetNumVFs(1) },
	},
	{
		name: "undo of a plug of a second NIC", cut: seen, end: "ua-net0 ua-net1 ",
		setUp: func(h *host) { h.second("br8", 0); atRest(h) },
		begin: func(h *host) {
			h.each(func(v *VM) { v.Slow = 10 * time.Second })
			h.World.pf("pf8").SetNumVFs(1)
		},
	},
	{
		name: "unplug of one NIC of two", end: "ua-net1 ",
		setUp: func(h *host) { h.second("br8", 1); atRest(h); atRest(h) },
		begin: func(h *host) { h.only("ua-net1") },
	},
	{
		name: "swap between NICs of a VM", end: "ua-net1 ",
		setUp: func(h *host) { h.second("br0", 0); atRest(h) },
		begin: func(h *host) {
			nics := h.World.VMs()[2].NICs
			nics[0].Share, nics[1].Share = nics[1].Share, nics[0].Share
		},
	},
	{
		name: "the only root port goes to the other NIC", end: "ua-net1 ",
		setUp: func(h *host) { h.second("br8", 1).Ports = 1; atRest(h) },
		begin: func(h *host) { h.only("ua-net1") },
	},
}

// second gives the last VM another NIC on a network with a PF and VFs of its own.
func (h *host) second(network string, vfs int) *VM {
	v := h.World.VMs()[2]
	h.World.AddPF("pf8", "br8", vfs, 0)
	h.World.AddNIC(v, network, 0.1)
	return v
}

// only forbids VFs to all other NICs of the last VM.
func (h *host) only(nic string) {
	h.setRules(model.Rules{Policy: "activity", Interval: 3 * time.Second, VMs: []model.VMRule{{Match: "vm2", NIC: nic}}})
}

func atRest(h *host) { h.run(6 * time.Second) }

func (h *host) each(f func(v *VM)) {
	for _, v := range h.World.VMs() {
		f(v)
	}
}

func swap(h *host) { h.loads[0].pps = 50000 }

func drain(h *host) {
	h.rules.Drain = true
	if err := h.Core.SetRules(h.rules); err != nil {
		h.t.Fatal(err)
	}
}

// atEveryPoint plays each situation once for every point of its Steps: before each Step, and after each of its parts. hook gets the
// host and calls at at every point; at reports whether something goes wrong at this one. cut is how long that may cut off a VM, and delay
// how much later than usual Sluice may then repair what a guest did.
func atEveryPoint(t *testing.T, cut, delay time.Duration, prepare func(*host), hook func(h *host, at func() bool)) {
	atEveryPointOf(t, situations, cut, delay, prepare, hook)
}

func atEveryPointOf(t *testing.T, all []situation, cut, delay time.Duration, prepare func(*host), hook func(h *host, at func() bool)) {
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			var worst gaps
			points, bound := 0, max(cut, s.cut)
			if bound > 0 {
				bound += delay
			}
			for turn := 1; ; turn++ {
				h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
				h.OnEvent = h.meter.Note
				prepare(h)
				s.setUp(h)
				n := 0
				hook(h, func() bool {
					if h.World.Now.Sub(epoch) > 60*time.Second { // of what comes of it enough was seen
						return false
					}
					n++
					return n == turn
				})
				s.begin(h)
				h.run(60 * time.Second)
				h.heal()
				h.run(120 * time.Second)
				got := h.meter.Stop(h.World.Now)
				worst.add(got)
				if got.most() > bound {
					t.Fatalf("point %d: %s\n%s", turn, h.meter.story[h.meter.most], h.dump())
				}
				if err := h.sound(); err != nil {
					t.Fatalf("point %d: %v\n%s", turn, err, h.dump())
				}
				if v := h.World.vm(NumberedVM(2)); v != nil && s.end != "" && having(v) != s.end {
					t.Fatalf("point %d: NICs %q have a VF, want %q\n%s", turn, having(v), s.end, h.dump())
				}
				if n < turn {
					break
				}
				points++
			}
			t.Logf("%d points, bound %s: %s", points, bound, worst)
			if points < 5 {
				t.Errorf("only %d points: nothing was tried", points)
			}
		})
	}
}

// having lists the NICs of a VM whose VF the guest uses.
func having(v *VM) (aliases string) {
	for _, n := range v.NICs {
		if n.open {
			aliases += n.Alias + " "
		}
	}
	return aliases
}

// heal removes the faults of the host and its guests.
func (h *host) heal() {
	h.World.Fail, h.World.FailPart, h.OnStep, h.OnPart = nil, nil, nil, nil
	h.reboot()
	for _, v := range h.World.VMs() {
		v.IgnoreUnplug, v.Slow = false, 0
		h.World.LoadDriver(v)
	}
}

// points calls f before every Step and after each of its parts.
func (h *host) points(f func()) {
	h.OnStep = func(model.Step) Verdict { f(); return Verdict{} }
	h.OnPart = func(model.Step, int) { f() }
}

// hosts are the kinds of hosts on which the Moves are played.
var hosts = []struct {
	name    string
	prepare func(h *host)
	late    time.Duration // how much later than usual Sluice sees what a guest does
}{
	{"one PF", func(*host) {}, 0},
	{"representors", connected(Representors), 0},
	{"Open vSwitch", connected(OpenVSwitch), 0},
	{"OVN", connected(OVN), 0},
	{"VLAN", func(h *host) {
		for n := range h.World.nics() {
			n.VLAN = 7
		}
	}, 0},
	{"two PFs", func(h *host) { h.World.AddPF("pf1", "br0", 1, 0) }, time.Second},
	{"late news", func(h *host) {
		h.World.Lag, h.World.LagInGuest = 4500*time.Millisecond, true
		h.World.Timing.Gone, h.World.Timing.Close = time.Second, 700*time.Millisecond
	}, 7 * time.Second},
}

// connected makes the PFs' Uplinks of a kind.
func connected(u Uplink) func(h *host) {
	return func(h *host) {
		for _, p := range h.World.PFs() {
			h.World.Connect(p, u)
		}
	}
}

// onHosts runs a test on each kind of host; with -short only on the first.
func onHosts(t *testing.T, f func(t *testing.T, prepare func(h *host), late time.Duration)) {
	for i, on := range hosts {
		if i == 0 || !testing.Short() {
			t.Run(on.name, func(t *testing.T) { f(t, on.prepare, on.late) })
		}
	}
}

func TestKillAtEveryStep(t *testing.T) {
	const away = 2 * time.Second
	onHosts(t, func(t *testing.T, prepare func(h *host), late time.Duration) {
		atEveryPoint(t, 0, 2*away+late, prepare, func(h *host, at func() bool) {
			h.points(func() {
				if at() {
					h.At(h.World.Now, func() { h.killNow(away) })
				}
			})
		})
	})
}

// TestLoseEveryStep kills the daemon before its request has taken effect.
func TestLoseEveryStep(t *testing.T) {
	const away = 2 * time.Second
	atEveryPoint(t, 0, away, hosts[0].prepare, func(h *host, at func() bool) {
		h.OnStep = func(model.Step) Verdict {
			if !at() {
				return Verdict{}
			}
			h.At(h.World.Now, func() { h.killNow(away) })
			return Verdict{Lose: true}
		}
	})
}

// TestKillAndComeBackAtEveryStep starts the next daemon while libvirt still works on a request of the last one.
func TestKillAndComeBackAtEveryStep(t *testing.T) {
	atEveryPoint(t, 0, 0, hosts[0].prepare, func(h *host, at func() bool) {
		h.points(func() {
			if at() {
				h.At(h.World.Now, func() { h.killNow(time.Millisecond) })
			}
		})
	})
}

func TestStopAtEveryStep(t *testing.T) {
	const away = 12 * time.Second
	for _, grace := range []time.Duration{0, 20 * time.Millisecond, 10 * time.Second} {
		t.Run("grace "+grace.String(), func(t *testing.T) {
			atEveryPoint(t, 0, away, hosts[0].prepare, func(h *host, at func() bool) {
				h.points(func() {
					if at() {
						h.At(h.World.Now, func() { h.Stop(grace) })
						h.At(h.World.Now.Add(away), h.reboot)
					}
				})
			})
		})
	}
}

func TestFailAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		forGood bool
		delay   time.Duration
	}{
		{"once", errFault, false, 30 * time.Second},
		{"for good", errFault, true, 100 * time.Second}, // until somebody repairs what makes it fail
		{"permanently", model.ErrPermanent, false, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			atEveryPoint(t, 0, c.delay, hosts[0].prepare, func(h *host, at func() bool) {
				var kind model.StepKind
				part := 0
				h.World.FailPart = func(s model.Step, n int) error {
					if at() {
						kind, part = s.Kind, n
						return c.err
					}
					if c.forGood && s.Kind == kind && n == part {
						return c.err
					}
					return nil
				}
			})
		})
	}
}

// TestRebootAtEveryStep restarts every guest. A guest that finds its VF again first listens on virtio, and so is cut off by its own action
// until Sluice sees it.
func TestRebootAtEveryStep(t *testing.T) {
	onHosts(t, func(t *testing.T, prepare func(h *host), late time.Duration) {
		atEveryPoint(t, seen, late, prepare, func(h *host, at func() bool) {
			h.points(func() {
				if at() {
					h.At(h.World.Now, func() { h.each(h.World.Reboot) })
				}
			})
		})
	})
}

// TestVMEndsAtEveryStep ends the Step's VM: nothing of it may remain.
func TestVMEndsAtEveryStep(t *testing.T) {
	onHosts(t, func(t *testing.T, prepare func(h *host), late time.Duration) {
		atEveryPoint(t, 0, late, prepare, func(h *host, at func() bool) {
			end := func(s model.Step) {
				if at() {
					h.At(h.World.Now, func() {
						if v := h.World.vm(s.Subject.VM); v != nil {
							h.World.Destroy(v)
						}
					})
				}
			}
			h.OnStep = func(s model.Step) Verdict { end(s); return Verdict{} }
			h.OnPart = func(s model.Step, _ int) { end(s) }
		})
	})
}
