package sim

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
)

// trouble is a fault that happens at a point of a Step. See fault for cut and delay.
type trouble struct {
	name    string
	cut     time.Duration // how long it may cut its VM off
	all     bool          // it may cut off any VM
	delay   time.Duration // how much later than usual Sluice may repair what the other fault did
	late    time.Duration // how long it may cut its VM off if the other fault keeps Sluice from seeing it at once
	on      Uplink        // the kind of host that can have it; "": any
	renames bool          // a port: what was begun before knows it by its old name
	stale   time.Duration // the delay, if longer, where the other fault renames a port: until what knows the old name has failed and ended
	do      func(h *host, v *VM, s model.Step)
}

// failing makes parts of Steps fail, besides those that fail already.
func (h *host) failing(f func(s model.Step, n int) error) {
	before := h.World.FailPart
	h.World.FailPart = func(s model.Step, n int) error {
		if err := f(s, n); err != nil || before == nil {
			return err
		}
		return before(s, n)
	}
}

func (h *host) failOnce(err error) {
	h.failing(func(model.Step, int) error {
		now := err
		err = nil
		return now
	})
}

// away is how long a daemon that was killed stays away; one that was stopped has as long to end its Moves before.
const away = 2 * time.Second

// down is how long libvirtd stays away.
const down = 4 * time.Second

// restTime is how long a VM rests after its first Move that failed; after the next it rests twice as long.
const restTime = 2 * time.Second

// retryTime is how long a Step waits before its first retry; before the next it waits twice as long.
const retryTime = time.Second

// undoTime is how long an undo lasts of which a Step fails whenever it is tried: it would clear a VF that the guest has, because the Move
// did not attach it before it failed, but one before a restart.
const undoTime = 7 * retryTime

// repairAgain is how long Sluice waits after a repair that did not end what it was for.
const repairAgain = 30 * time.Second

// troubles are what a pair is made of. Their lasting effects end with heal.
var troubles = []trouble{
	{name: "kill", delay: away, stale: undoTime, do: func(h *host, _ *VM, _ model.Step) {
		h.At(h.World.Now, func() { h.killNow(away) })
	}},
	{name: "kill, back at once", stale: undoTime, do: func(h *host, _ *VM, _ model.Step) {
		h.At(h.World.Now, func() { h.killNow(time.Millisecond) })
	}},
	{name: "stop", delay: 2 * away, do: func(h *host, _ *VM, _ model.Step) {
		h.At(h.World.Now, func() { h.Stop(away) })
		h.At(h.World.Now.Add(2*away), h.reboot)
	}},
	{name: "a Step fails", stale: retryTime, do: func(h *host, _ *VM, _ model.Step) { h.failOnce(errFault) }},
	// If that is a repair's, it is tried again only later, unless its port has been renamed since.
	{name: "a Step fails permanently", delay: 3 * restTime, stale: repairAgain, do: func(h *host, _ *VM, _ model.Step) {
		h.failOnce(model.ErrPermanent)
	}},
	{name: "Steps of a kind fail", delay: healAfter, do: func(h *host, _ *VM, s model.Step) {
		h.failing(func(o model.Step, _ int) error {
			if o.Kind == s.Kind {
				return errFault
			}
			return nil
		})
	}},
	{name: "libvirtd is away", delay: down + restTime, stale: down + restTime + retryTime, do: func(h *host, _ *VM, _ model.Step) {
		h.World.LibvirtDown(true)
		h.At(h.World.Now.Add(down), func() { h.World.LibvirtDown(false) })
	}},
	{name: "kernel hangs", delay: healAfter, do: func(h *host, _ *VM, _ model.Step) { h.World.Timing.Kernel = 1500 * time.Millisecond }},
	{name: "VM ends", do: func(h *host, v *VM, _ model.Step) {
		h.At(h.World.Now, func() {
			if !v.gone {
				h.World.Destroy(v)
				h.lost, h.unseen = true, h.unseen || h.Core == nil || h.Core.View().Snapshot == nil
			}
		})
	}},
	// Until its driver is loaded, it listens on virtio.
	{name: "guest reboots", delay: bootTime, late: PaperTiming.Guest, do: func(h *host, v *VM, _ model.Step) {
		h.At(h.World.Now, func() {
			if !v.gone {
				h.World.Reboot(v)
			}
		})
	}},
	{name: "guest ignores unplug", stale: inVain - seenAtOnce, do: func(_ *host, v *VM, _ model.Step) { v.IgnoreUnplug = true }},
	{name: "guest is slow", cut: seenAtOnce, stale: inVain - seenAtOnce, do: func(_ *host, v *VM, _ model.Step) { v.Slow = 10 * time.Second }},
	{name: "guest unloads driver", cut: seenAtOnce, do: func(h *host, v *VM, _ model.Step) {
		h.At(h.World.Now, func() { h.World.UnloadDriver(v) })
	}},
	{name: "operator takes tap down", do: func(_ *host, v *VM, _ model.Step) { v.NICs[0].TapDown = true }},
	{name: "operator takes link down", cut: seenAtOnce, all: true, do: func(h *host, _ *VM, _ model.Step) { h.World.PFs()[0].LinkUp = false }},
	{name: "VFs vanish", cut: seenAtOnce, all: true, delay: 5 * time.Second, do: func(h *host, _ *VM, _ model.Step) {
		h.At(h.World.Now, func() { h.vanish(5 * time.Second) })
	}},
	{
		name: "representor renamed, set down", on: OVN, cut: seenAtOnce, all: true, delay: restTime, renames: true,
		do: func(h *host, _ *VM, _ model.Step) { h.At(h.World.Now, func() { h.rename(0, true) }) },
	},
}

// healAfter is how long after the Moves begin lasting faults end.
const healAfter = 40 * time.Second

// deeds are the two faults of a pair, and the VMs to which they happened.
type deeds [2]struct {
	*trouble
	vm string
}

func (d deeds) bound(vm string) (most time.Duration) {
	for i, f := range d {
		if f.trouble == nil || !f.all && f.vm != vm {
			continue
		}
		cut, other := f.cut, d[1-i]
		switch {
		case other.trouble == nil:
		case f.renames:
			cut += max(other.delay, other.stale)
		case f.cut == 0 && other.delay > 0:
			cut = f.late
		default:
			cut += other.delay
		}
		most = max(most, cut)
	}
	return most
}

// playPair plays a situation with fault a at point i of its Steps and b, unless nil, at the j-th point after it. It reports whether there
// were as many points.
func playPair(t *testing.T, s *situation, a, b *trouble, i, j int) (h *host, did deeds, happened bool) {
	h = newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
	h.OnEvent = h.meter.Note
	for _, f := range [2]*trouble{a, b} {
		if f != nil && f.on != "" {
			connected(f.on)(h)
		}
	}
	s.setUp(h)
	n := 0
	at := func(st model.Step) {
		v := h.World.vm(st.Subject.VM)
		if v == nil || h.World.Now.Sub(epoch) > 30*time.Second {
			return
		}
		n++
		for k, f := range [2]*trouble{a, b} {
			if f != nil && n == i+k*j {
				did[k].trouble, did[k].vm = f, v.Name
				f.do(h, v, st)
			}
		}
	}
	h.OnStep = func(st model.Step) Verdict { at(st); return Verdict{} }
	h.OnPart = func(st model.Step, _ int) { at(st) }
	s.begin(h)
	h.run(healAfter)
	h.World.Timing, h.World.PFs()[0].LinkUp = PaperTiming, true
	for nic := range h.World.nics() {
		nic.TapDown = false
	}
	h.heal()
	h.run(80 * time.Second)
	if h.unseen {
		h.Core.Repair(h.World.Now)
		h.run(20 * time.Second)
	}
	h.meter.Stop(h.World.Now)
	return h, did, n >= i+j
}

// outages are the longest times in which a VM was unreachable, by pair of faults.
type outages struct {
	sync.Mutex
	runs  int
	worst map[[2]string]time.Duration
}

func (o *outages) note(a, b string, worst time.Duration) {
	o.Lock()
	defer o.Unlock()
	o.runs++
	o.worst[[2]string{a, b}] = max(o.worst[[2]string{a, b}], worst)
}

func (o *outages) String() string {
	s := fmt.Sprintf("%d runs; longest outage in ms, rows: first fault, columns: second\n%-26s", o.runs, "")
	names := []string{"alone"}
	for i, f := range troubles {
		names = append(names, f.name)
		s += fmt.Sprintf("(%d) %s, ", i+1, f.name)
	}
	s += fmt.Sprintf("\n%-26s", "")
	for i := range names {
		s += fmt.Sprintf(" %5s", strings.Replace(fmt.Sprintf("(%d)", i), "(0)", "alone", 1))
	}
	for _, f := range troubles {
		s += fmt.Sprintf("\n%-26s", f.name)
		for _, b := range names {
			if worst, tried := o.worst[[2]string{f.name, b}]; tried {
				s += fmt.Sprintf(" %5d", worst.Milliseconds())
			} else {
				s += "     -"
			}
		}
	}
	return s
}

// TestPairsOfFaults plays each fault alone, and every ordered pair of faults, at every point of the Steps of a plug, an unplug and a swap:
// the second fault at the point of the first or at the next. With -short it plays only an unplug, and of the pairs only those of faults
// that may cut nobody off, at one point.
func TestPairsOfFaults(t *testing.T) {
	found := &outages{worst: map[[2]string]time.Duration{}}
	t.Run("all", func(t *testing.T) {
		for k := range 3 {
			s := &situations[k]
			if testing.Short() && s.name != "unplug" {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				for a := range troubles {
					for b := -1; b < len(troubles); b++ {
						if testing.Short() && b >= 0 && troubles[a].cut+troubles[b].cut+troubles[a].late+troubles[b].late > 0 {
							continue
						}
						playEverywhere(t, s, &troubles[a], b, found)
					}
				}
			})
		}
	})
	t.Logf("%s", found)
	if found.runs < 1000 {
		t.Errorf("only %d runs: hardly anything was tried", found.runs)
	}
}

func playEverywhere(t *testing.T, s *situation, a *trouble, second int, found *outages) {
	var b *trouble
	name, last := "alone", 0
	if second >= 0 {
		b = &troubles[second]
		name = b.name
		if !testing.Short() {
			last = 1
		}
	}
	for i := 1; ; i++ {
		for j := 0; j <= last; j++ {
			h, did, more := playPair(t, s, a, b, i, j)
			if did[0].trouble == nil {
				return
			}
			if !more {
				break
			}
			found.note(a.name, name, h.meter.worst.most())
			for vm, gap := range h.meter.of {
				if gap.most() > did.bound(vm) {
					t.Errorf("%s, then %s at points %d and +%d: bound %s: %s", a.name, name, i, j, did.bound(vm), h.meter.story[vm])
				}
			}
			if err := h.sound(); err != nil {
				t.Errorf("%s, then %s at points %d and +%d: %v", a.name, name, i, j, err)
			}
		}
	}
}
