package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// promises is a random host with guarantees, and how well they are kept.
type promises struct {
	*host
	r       *rand.Rand
	period  time.Duration
	traffic *Traffic
	story   string
	excused time.Time     // until then what happened outside Sluice may break a guarantee
	loose   time.Time     // likewise a contract
	back    time.Time     // until then there are no Snapshots, so that Sluice learns of nothing
	held    longest       // a NIC that its own limit kept below its guarantee
	pressed longest       // a NIC below its guarantee at all, others' traffic included
	free    string        // a NIC with a contract that nothing limited
	asked   time.Duration // in all, for which a guarantee was asked for and not excused
	missed  time.Duration // of that, for which it was not kept
	err     error         // of the run
}

// react returns how long Sluice may take to keep a guarantee after demand for it begins: demand is known at the end of a period, and limits
// are in force after the delay. A lost reading or one that restarts with a VF takes another period, as does a limit that is still being
// applied, and a sender slightly below its limit.
func (y *promises) react() time.Duration {
	lost := 0
	if y.traffic.Lost > 0 {
		lost = 6
	}
	return time.Duration(4+lost)*y.period + 2*y.traffic.Delay
}

// mostPressed is how long a guarantee may be missed because others fill the link. On a full link, what a NIC sends is not its demand: new
// demand shows only gradually, as room is made for it.
const mostPressed = 15 * time.Second

// longest measures for how long a condition held for a NIC without interruption.
type longest struct {
	now  map[*NIC]time.Duration
	most time.Duration
	who  string
}

// note adds d, or ends the stretch.
func (l *longest) note(n *NIC, d time.Duration, is bool, say func() string) {
	if !is {
		delete(l.now, n)
		return
	}
	if l.now == nil {
		l.now = map[*NIC]time.Duration{}
	}
	if l.now[n] += d; l.now[n] > l.most {
		l.most, l.who = l.now[n], say()
	}
}

// newPromises makes a host with guarantees of at most four fifths of each link.
func newPromises(t *testing.T, seed uint64) *promises {
	r := rand.New(rand.NewPCG(seed, 2))
	y := &promises{r: r, period: []time.Duration{40 * time.Millisecond, 200 * time.Millisecond}[r.IntN(2)]}
	vms, vfs := 3+r.IntN(4), 1+r.IntN(3)
	y.host = newHost(t, 0, vfs, model.Rules{Policy: []string{"activity", "adaptive", "fair"}[r.IntN(3)], Interval: 3 * time.Second})
	y.World.PFs()[0].Caps.MaxTxRate = model.TriOf(r.IntN(4) > 0)
	for i := range vms {
		v := y.World.AddVM(i, fmt.Sprintf("vm%d", i), "br0", &sends{float64(r.IntN(12)) * gbit})
		v.NICs[0].Flows, v.InGuest = float64(1+r.IntN(8)), r.IntN(2) == 0 || y.World.PFs()[0].Caps.MaxTxRate == model.No
	}
	y.rules.VMs, y.rules.KeepSLAs = y.slas(), true
	if err := y.Core.SetRules(y.rules); err != nil {
		t.Fatal(err)
	}
	y.traffic = &Traffic{
		Step: 50 * time.Millisecond, Delay: upTo(r, 60*time.Millisecond), Tree: r.IntN(3) == 0,
		Rand: rand.New(rand.NewPCG(seed, 3)),
	}
	if r.IntN(2) == 0 {
		y.traffic.Noise = 0.02
	}
	if r.IntN(3) == 0 {
		y.traffic.Lost = 0.1
	}
	y.World.StartTraffic(y.traffic)
	y.World.OnFlow(y.look)
	y.control()
	y.StartControl(y.period)
	y.excuse(0)
	y.story = fmt.Sprintf("seed %d: %d VMs, %d VFs, %s, period %s, delay %s, tree %v, noise %v, lost %v, max_tx_rate %s\n", seed, vms, vfs,
		y.rules.Policy,
		y.period, y.traffic.Delay, y.traffic.Tree, y.traffic.Noise, y.traffic.Lost, y.World.PFs()[0].Caps.MaxTxRate)
	for _, v := range y.rules.VMs {
		y.story += fmt.Sprintf("  %s guaranteed %s, limit %s\n", v.Match, v.SLA.Guarantee, v.SLA.Limit)
	}
	for range 12 {
		y.At(epoch.Add(upTo(r, 50*time.Second)), func() {
			vms := y.World.VMs()
			vms[r.IntN(len(vms))].Load.(*sends).bits = float64(r.IntN(12)) * gbit
		})
	}
	return y
}

// slas gives guarantees to most VMs, at most four fifths of the link in all.
func (y *promises) slas() []model.VMRule {
	var out []model.VMRule
	rest := 8 // Gbit/s
	for i := range 7 {
		rule := model.VMRule{Match: fmt.Sprintf("vm%d", i)}
		if g := y.r.IntN(5); g > 0 && g <= rest {
			rule.SLA.Guarantee.Bits = uint64(g) * gbit
			rest -= g
		}
		if y.r.IntN(3) == 0 {
			rule.SLA.Limit.Bits = rule.SLA.Guarantee.Bits + uint64(1+y.r.IntN(4))*gbit
		}
		out = append(out, rule)
	}
	return out
}

// control starts a daemon's bandwidth controller.
func (y *promises) control() {
	core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "waterfill", Period: y.period})
	if err != nil {
		y.t.Fatal(err)
	}
	y.Bandwidth = core
}

// again starts a daemon if there is none.
func (y *promises) again() {
	if y.Core == nil {
		y.boot()
		y.control()
	}
}

// excuse allows guarantees and contracts to be broken for a while from now on, and until Sluice has seen that it is over.
func (y *promises) excuse(d time.Duration) {
	y.excuseRates(d)
	y.loose = later(y.loose, later(y.back, y.World.Now).Add(d+y.Sample+y.react()))
}

// excuseRates allows guarantees, but not contracts, to be broken for a while.
func (y *promises) excuseRates(d time.Duration) {
	y.excused = later(y.excused, later(y.back, y.World.Now).Add(d+y.Sample+y.react()))
}

// dead notes that there is no daemon for a while: what it was about to do waits for the next one.
func (y *promises) dead(d time.Duration) {
	if y.loose.After(y.World.Now) {
		y.excuse(d)
	}
	y.excuseRates(d)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sla returns the SLA in the present rules.
func (y *promises) sla(n *NIC) model.SLA {
	return y.rules.SLA(&model.VM{ID: n.VM.ID, Name: n.VM.Name}, &model.NIC{Alias: n.Alias})
}

// look judges what was sent during d, in which no rate changed.
func (y *promises) look(d time.Duration) {
	now := y.World.Now
	asked := map[*PF]float64{}
	for n := range y.World.nics() {
		s := y.sla(n)
		asked[n.link] += min(n.want, float64(s.Guarantee.Bits))
	}
	for n := range y.World.nics() {
		s := y.sla(n)
		ask := min(n.want, float64(s.Guarantee.Bits))
		feasible := n.link != nil && asked[n.link] <= 0.9*n.link.Capacity()
		counts := ask > 0 && feasible && now.After(y.excused)
		missed := counts && n.rate < 0.95*ask
		say := func() string {
			return fmt.Sprintf("at %s %s on %s sends %.3g of %.3g bits/s, and may send %.3g", now.Sub(epoch), n, paths[n.path()], n.rate, ask,
				n.allowed)
		}
		y.held.note(n, d, missed && n.allowed < 0.95*ask, say)
		y.pressed.note(n, d, missed, say)
		if counts {
			y.asked += d
		}
		if missed {
			y.missed += d
		}
		if s.Limit.Bits > 0 && n.link != nil && now.After(y.loose) && n.allowed > float64(s.Limit.Bits)+1e6 && y.free == "" {
			y.free = fmt.Sprintf("at %s %s on %s may send %.3g bits/s, and its limit is %.3g", now.Sub(epoch), n, paths[n.path()], n.allowed,
				float64(s.Limit.Bits))
		}
	}
}

// judge returns what was broken.
func (y *promises) judge() error {
	switch {
	case y.held.most > y.react():
		return fmt.Errorf("held below its guarantee for %s, and %s are allowed: %s", y.held.most, y.react(), y.held.who)
	case y.pressed.most > mostPressed:
		return fmt.Errorf("short of its guarantee for %s, and %s are allowed: %s", y.pressed.most, mostPressed, y.pressed.who)
	case y.free != "":
		return fmt.Errorf("no limit: %s", y.free)
	}
	return nil
}

// end kills the daemon or makes it lift all limits, and checks what remains.
func (y *promises) end() error {
	y.again()
	y.World.FailLimit, y.traffic.Hang = nil, nil
	y.World.LibvirtDown(false)
	y.host.run(35 * time.Second)
	if err := y.judge(); err != nil {
		return err
	}
	all := y.r.IntN(2) == 0
	y.World.OnFlow(nil)
	if all {
		for y.Core == nil { // it was killed late: the next daemon first sees what is in force
			y.again()
			y.host.run(5 * time.Second)
		}
		y.Core.Stop() // as the daemon does: what moves set up they end first
		for range 150 {
			if y.Core == nil || y.Core.Settled() {
				break
			}
			y.host.run(100 * time.Millisecond)
		}
		y.Lift(true)
		y.Kill()
		y.host.run(time.Second)
	} else {
		y.Kill()
		y.host.run(model.LimitLease + time.Second)
	}
	for n := range y.World.nics() {
		s, what := y.sla(n), "after its lease"
		least := math.Inf(1)
		if s.Limit.Bits > 0 {
			least = float64(s.Limit.Bits)
		}
		switch {
		case all:
			least, what = math.Inf(1), "after all was lifted"
		case n.open && y.World.vf(n.hasVF).MaxTxRate > 0: // the VF's limit has no lease, and is never below these
			least = float64(s.Guarantee.Bits)
		}
		if n.link != nil && n.allowed < 0.999*least {
			return fmt.Errorf("%s on %s is held to %.3g bits/s %s, its guarantee is %s and its limit %s", n, paths[n.path()], n.allowed, what,
				s.Guarantee, s.Limit)
		}
	}
	if n := len(y.traffic.held); all && n > 0 {
		return fmt.Errorf("%d limits remain after all were lifted: %v", n, y.traffic.held)
	}
	return nil
}
