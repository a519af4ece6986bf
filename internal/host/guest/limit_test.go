package guest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/model"
)

const mbit = 1e6

func bits(n uint64) model.Rate { return model.Rate{Bits: n} }

func (g *realGuest) limit(i int, now, contract model.Rate) {
	g.t.Helper()
	if err := g.shaper.Limit(within(g.t, patience), vm, nicMAC(i), now, contract); err != nil {
		g.t.Fatal(err)
	}
}

// both are the ways of changing a limit: through files, and without them if the agent may not write any.
func both(t *testing.T, fn func(t *testing.T, args []string)) {
	t.Run("files", func(t *testing.T) { fn(t, nil) })
	t.Run("exec", func(t *testing.T) { fn(t, blocked("guest-file-open")) })
}

func TestLimit(t *testing.T) {
	both(t, func(t *testing.T, args []string) {
		g := newRealGuest(t, 2, args...)
		g.shaper.check = 0 // read back every time
		for i, mb := range []uint64{100, 7, 2500, 123} {
			g.limit(0, bits(mb*mbit), model.Rate{})
			if got := g.ceil(0); got != strconv.FormatUint(mb, 10)+"Mbit" {
				t.Fatalf("change %d: %s, want %d Mbit/s", i, got, mb)
			}
		}
		g.limit(1, model.Rate{Bits: 50 * mbit, Packets: 10000}, bits(80*mbit))
		if got := g.ceil(1) + " " + g.class(1, "51ce:1"); got != "50Mbit 123040Kbit" { // 10000 x 1538 x 8
			t.Errorf("NIC 1: %s", got)
		}
		g.limit(0, model.Rate{}, model.Rate{})
		if got := g.ceil(0) + g.class(0, "51ce:1"); got != "1Tbit1Tbit" || g.ceil(1) != "50Mbit" {
			t.Errorf("lifted: NIC 0 %s, NIC 1 %s", got, g.ceil(1))
		}
		for i := range 2 {
			if err := g.shaper.Lift(within(t, patience), vm, nicMAC(i)); err != nil || g.qdisc(i) != "noqueue 0:" {
				t.Errorf("NIC %d: %v, %s", i, err, g.qdisc(i))
			}
		}
		if left := g.leftovers(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// A busy fq_codel lists each of its flows as a class: these must not be read back as limits.
func TestLimitOverManyFlows(t *testing.T) {
	g := newRealGuest(t, 1)
	g.shaper.check = 0
	g.limit(0, bits(10*mbit), model.Rate{})
	g.tc("qdisc replace dev m0 parent 51ce:2 handle 9: htb")
	for i := range 100 {
		g.tc("class add dev m0 parent 9: classid 9:" + strconv.Itoa(i+1) + " htb rate 1mbit")
	}
	g.limit(0, bits(11*mbit), model.Rate{})
	if g.ceil(0) != "11Mbit" {
		t.Error(g.ceil(0))
	}
}

// Without renewal, the limit falls back to the contract, or is removed if there is none.
func TestLimitEndsWithItsLease(t *testing.T) {
	both(t, func(t *testing.T, args []string) {
		g := newRealGuest(t, 2, args...)
		g.shaper.lease = time.Second
		g.limit(0, bits(10*mbit), model.Rate{})
		g.limit(1, bits(10*mbit), bits(20*mbit))
		g.limit(0, bits(11*mbit), model.Rate{})
		g.limit(1, bits(11*mbit), bits(21*mbit))
		g.eventually("the limit ends", func() bool { return g.qdisc(0) == "noqueue 0:" && g.ceil(1) == "21Mbit" })
		g.eventually("nothing is left", func() bool { return len(g.leftovers()) == 0 && len(g.processes("sluice")) == 0 })
		g.limit(1, bits(12*mbit), bits(21*mbit)) // and it starts again from the limits in force
		if g.ceil(1) != "12Mbit" {
			t.Errorf("anew: %s", g.ceil(1))
		}
	})
}

// If a process ends, for example by its lease, just as the next one starts, the next one's limit stays in force.
func TestLimitStartsAsTheLastEnds(t *testing.T) {
	g := newRealGuest(t, 1)
	contract := bits(90 * mbit)
	for i := range 80 {
		last := g.processes("dd\x00bs=")
		ends := time.AfterFunc(time.Duration(i)*time.Millisecond/2, func() { // before or after the next one starts
			for _, pid := range last {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		defer ends.Stop()
		next := NewShaper(g.shaper.c.t)
		next.sys = g.shaper.sys
		limit := bits(uint64(10+i) * mbit)
		if err := next.Limit(within(t, patience), vm, nicMAC(0), limit, contract); err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		g.eventually("the last one has gone", func() bool { return len(g.processes("sluice")) == 1 })
		if want := fmt.Sprintf("%dMbit", 10+i); g.ceil(0) != want {
			t.Fatalf("start %d: %s, want %s", i, g.ceil(0), want)
		}
	}
}

// The agent dies, with or without the process in the guest, and comes back.
func TestLimitWhenTheAgentDies(t *testing.T) {
	for name, kill := range map[string]func(*realGuest){
		"alone":            func(g *realGuest) { g.kill("qemu-ga", syscall.SIGKILL) },
		"with all its own": func(g *realGuest) { g.kill("sluice", syscall.SIGKILL); g.kill("qemu-ga", syscall.SIGKILL) },
		"as systemd does it": func(g *realGuest) {
			for _, pid := range slices.Concat(g.processes("sluice"), g.processes("dd"), g.processes("qemu-ga")) {
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
			g.eventually("the process in the guest left the contract",
				func() bool { return g.ceil(0) == "90Mbit" && len(g.processes("sluice")) == 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRealGuest(t, 1)
			g.limit(0, bits(10*mbit), bits(90*mbit))
			kill(g)
			g.waitAgent()
			g.limit(0, bits(20*mbit), bits(90*mbit))
			g.eventually("the limit stands again", func() bool { return g.ceil(0) == "20Mbit" })
		})
	}
}

// Somebody in the guest removes or raises the limit. That is detected, and the limit is set again.
func TestLimitLiftedByTheGuest(t *testing.T) {
	for name, lift := range map[string]string{
		"raised":          "class change dev m0 parent 51ce:1 classid 51ce:2 htb rate 8kbit ceil 5gbit",
		"class gone":      "class del dev m0 classid 51ce:2",
		"qdisc gone":      "qdisc del dev m0 root",
		"packets raised":  "class change dev m0 parent 51ce: classid 51ce:1 htb rate 5gbit",
		"another's qdisc": "qdisc replace dev m0 root handle 7: tbf rate 5gbit burst 1m latency 1s",
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, args []string) {
				g := newRealGuest(t, 1, args...)
				g.shaper.check = 0
				limit := model.Rate{Bits: 10 * mbit, Packets: 5000}
				g.limit(0, limit, model.Rate{})
				g.limit(0, limit, model.Rate{})
				g.tc(lift)
				err := g.shaper.Limit(within(t, patience), vm, nicMAC(0), limit, model.Rate{})
				if !errors.Is(err, ErrLifted) {
					t.Fatalf("not found out: %v", err)
				}
				if strings.HasPrefix(name, "another's") {
					err := g.shaper.Limit(within(t, patience), vm, nicMAC(0), limit, model.Rate{})
					if err == nil || !strings.Contains(err.Error(), "tbf 7:") || g.qdisc(0) != "tbf 7:" {
						t.Errorf("over another's qdisc: %v, %s", err, g.qdisc(0))
					}
					return
				}
				g.limit(0, limit, model.Rate{})
				if g.ceil(0) != "10Mbit" || g.class(0, "51ce:1") != "61520Kbit" {
					t.Errorf("not set again: %s, %s", g.ceil(0), g.class(0, "51ce:1"))
				}
			})
		})
	}
}

// A contract that did not need renewal is checked when it is set the next time.
func TestContractLiftedByTheGuest(t *testing.T) {
	for name, lift := range map[string]string{
		"raised":     "class change dev m0 parent 51ce:1 classid 51ce:2 htb rate 8kbit ceil 5gbit",
		"qdisc gone": "qdisc del dev m0 root", "kept": "qdisc show",
	} {
		g := newRealGuest(t, 1)
		g.shaper.lease = time.Second
		g.limit(0, bits(10*mbit), bits(20*mbit))
		g.eventually("the process leaves the contract", func() bool { return g.ceil(0) == "20Mbit" && len(g.leftovers()) == 0 })
		g.tc(lift)
		err := g.shaper.Limit(within(t, patience), vm, nicMAC(0), bits(20*mbit), bits(20*mbit))
		if errors.Is(err, ErrLifted) != (name != "kept") || err != nil && name == "kept" || g.ceil(0) != "20Mbit" {
			t.Errorf("%s: %v, now %s", name, err, g.ceil(0))
		}
		g.limit(0, bits(20*mbit), bits(20*mbit))
	}
}

// Settings of others in the guest stay.
func TestLimitLeavesForeignQdiscs(t *testing.T) {
	g := newRealGuest(t, 1)
	for _, qdisc := range []string{"handle 7: tbf rate 5gbit burst 1m latency 1s", "handle 1: htb", "handle 51cf: htb"} {
		g.tc("qdisc replace dev m0 root " + qdisc)
		was := g.qdisc(0)
		err := g.shaper.Limit(within(t, patience), vm, nicMAC(0), bits(mbit), model.Rate{})
		if err == nil || !strings.Contains(err.Error(), was) {
			t.Errorf("over %s: %v", was, err)
		}
		if err := g.shaper.Lift(within(t, patience), vm, nicMAC(0)); err != nil || g.qdisc(0) != was || len(g.leftovers()) > 0 {
			t.Errorf("lifted over %s: %v, now %s, left %v", was, err, g.qdisc(0), g.leftovers())
		}
	}
}

// The limit of an earlier Shaper is read back.
func TestLimitInForce(t *testing.T) {
	g := newRealGuest(t, 1)
	g.shaper.lease = time.Second
	stands := func(mac model.MAC, want model.Rate) {
		t.Helper()
		if got, err := g.shaper.InForce(within(t, patience), vm, mac); err != nil || got != want {
			t.Errorf("stands %+v, %v; want %+v", got, err, want)
		}
	}
	stands(nicMAC(0), model.Rate{})
	stands(nicMAC(7), model.Rate{})
	contract := model.Rate{Bits: 20 * mbit, Packets: 5000}
	g.limit(0, bits(10*mbit), contract)
	stands(nicMAC(0), bits(10*mbit))
	g.eventually("the process leaves the contract", func() bool { return len(g.leftovers()) == 0 })
	stands(nicMAC(0), contract)
	g.tc("qdisc replace dev m0 root handle 7: tbf rate 5gbit burst 1m latency 1s")
	stands(nicMAC(0), model.Rate{})
}

// A second Shaper, as after a crash of the daemon, takes over what the first one left, and the first one's process does not interfere.
func TestLimitIsTakenOver(t *testing.T) {
	g := newRealGuest(t, 1)
	g.shaper.lease = time.Second
	g.limit(0, bits(10*mbit), model.Rate{})
	first := g.processes("sluice")
	second := *NewShaper(g.shaper.c.t)
	second.sys, second.check = g.shaper.sys, 0
	if err := second.Limit(within(t, patience), vm, nicMAC(0), bits(20*mbit), model.Rate{}); err != nil {
		t.Fatal(err)
	}
	g.eventually("the first process has ended", func() bool {
		return !slices.ContainsFunc(g.processes("sluice"), func(pid int) bool { return slices.Contains(first, pid) })
	})
	if err := second.Limit(within(t, patience), vm, nicMAC(0), bits(30*mbit), model.Rate{}); err != nil || g.ceil(0) != "30Mbit" {
		t.Errorf("%v, %s", err, g.ceil(0))
	}
}

// A partial record, an old one and invalid text change nothing.
func TestLimitIgnoresWhatIsNotWhole(t *testing.T) {
	g := newRealGuest(t, 1)
	g.shaper.check = 0
	g.limit(0, bits(10*mbit), model.Rate{})
	g.limit(0, bits(11*mbit), model.Rate{})
	good := record(50, bits(99*mbit), model.Rate{})
	key := channelKey{vm, nicMAC(0)}
	for _, rec := range []string{
		good[:20], "x", strings.Replace(good, "99", "98", 1), strings.Replace(good, " .", "  ", 1), record(2, bits(99*mbit), model.Rate{}),
		strings.Replace(good, "50 ", "$(touch /run/x) ", 1), strings.Repeat("7 ", 64), strings.Replace(good, "50", "0x32", 1),
	} {
		ch := g.shaper.of(key)
		if err := g.shaper.send(within(t, patience), key, ch, rec); err != nil {
			t.Fatal(err)
		}
		g.eventually("it is read", func() bool { return g.unread() == 0 })
		if err := g.shaper.Limit(within(t, patience), vm, nicMAC(0), bits(11*mbit), model.Rate{}); err != nil {
			t.Errorf("after %q: %v", rec, err)
		}
		if g.ceil(0) != "11Mbit" {
			t.Errorf("%q was obeyed: %s", rec, g.ceil(0))
		}
	}
	if left := g.leftovers(); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
}

func TestLimitWithoutExec(t *testing.T) {
	g := newRealGuest(t, 1, blocked("guest-exec")...)
	if a := g.shaper.Ability(within(t, patience), vm); a.Limits != model.No || !strings.Contains(a.Why, "guest-exec") ||
		!strings.Contains(a.Remedy, "qemu-ga.conf") {
		t.Errorf("%+v", a)
	}
	err := g.shaper.Limit(within(t, patience), vm, nicMAC(0), bits(mbit), model.Rate{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "qemu-ga.conf") || g.qdisc(0) != "noqueue 0:" {
		t.Errorf("%v, %s", err, g.qdisc(0))
	}
}

func TestLimitAbility(t *testing.T) {
	g := newRealGuest(t, 1)
	if a := g.shaper.Ability(within(t, patience), vm); a != (Ability{Limits: model.Yes}) {
		t.Errorf("%+v", a)
	}
}

// A guest without a device above the pair, or with two, gives an error that says so.
func TestLimitWithoutMaster(t *testing.T) {
	g := newRealGuest(t, 1)
	err := g.shaper.Limit(within(t, patience), vm, nicMAC(7), bits(mbit), model.Rate{})
	if err == nil || !strings.Contains(err.Error(), "net_failover") {
		t.Error(err)
	}
	if err := g.shaper.Lift(within(t, patience), vm, nicMAC(7)); err != nil {
		t.Error("lift what is not there:", err)
	}
}

func BenchmarkLimit(b *testing.B) {
	for name, args := range map[string][]string{"files": nil, "exec": blocked("guest-file-open")} {
		b.Run(name, func(b *testing.B) {
			g := newRealGuest(b, 1, args...)
			g.limit(0, bits(10*mbit), model.Rate{})
			g.shaper.check = time.Hour
			var was, is syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &was)
			n := uint64(0)
			for b.Loop() {
				n++
				g.limit(0, bits((10+n%2)*mbit), model.Rate{})
				b.StopTimer()
				time.Sleep(10 * time.Millisecond) // the guest applies it
				b.StartTimer()
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &is)
			cpu := is.Utime.Nano() + is.Stime.Nano() - was.Utime.Nano() - was.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
			time.Sleep(100 * time.Millisecond)
			b.ReportMetric(g.cpu("sluice")/float64(b.N), "script-cpu-ns/op")
			b.ReportMetric(g.cpu("qemu-ga")/float64(b.N), "agent-cpu-ns/op")
		})
	}
}

// cpu returns the CPU time of the guest's processes of that name and their children, in ns.
func (g *realGuest) cpu(word string) float64 {
	sum := 0.0
	for _, pid := range g.processes(word) {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		must(g.t, err)
		for _, f := range strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))[12:16] {
			n, err := strconv.ParseFloat(f, 64)
			must(g.t, err)
			sum += n * 1e7 // ticks of 10 ms
		}
	}
	return sum
}
