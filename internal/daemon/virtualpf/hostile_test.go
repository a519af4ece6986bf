package virtualpf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// countedLines counts the lines of a log.
type countedLines struct{ atomic.Int64 }

func (c *countedLines) Write(b []byte) (int, error) {
	c.Add(int64(bytes.Count(b, []byte("\n"))))
	return len(b), nil
}

// Guests that change something as often as the channel allows cause few writes, observations and log lines, each and in total, and an
// honest guest is still served in time.
func TestHostileGuestsAreBounded(t *testing.T) {
	const hostile, during = 3, 100 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var looks atomic.Int64
		var lines countedLines
		look := r.Runner.Look
		r.stop()
		r.Runner.Look = func(ctx context.Context, fresh bool) (vpf.World, error) {
			if fresh {
				looks.Add(1)
			}
			return look(ctx, fresh)
		}
		r.Runner.Log = slog.New(slog.NewTextHandler(&lines, nil))
		r.work()
		pfs := map[model.VMID]model.VirtualPF{}
		for i := range hostile + 1 {
			vm := model.VMID(fmt.Sprint(i))
			pfs[vm], _ = r.run(vm, 2)
		}
		rev := r.Runner.Store.State().Rev
		looks.Store(0)
		lines.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), during)
		defer cancel()
		var wg sync.WaitGroup
		for i := range hostile {
			vm := model.VMID(fmt.Sprint(i))
			wg.Go(func() {
				g := r.Guest(vm)
				for n := 0; ctx.Err() == nil; n++ {
					within, done := context.WithTimeout(ctx, 30*time.Second) // like the channel
					switch vf := at(pfs[vm], 0); {
					case i == 0:
						_, _ = g.Hello(within, channel.Hello{Boot: fmt.Sprint(n)})
					case n%2 == 0:
						_, _ = g.Attach(within, channel.Attach{VF: vf, Owner: "pod", Weight: 1})
					default:
						_ = g.Detach(within, channel.Detach{VF: vf, Owner: "pod"})
					}
					done()
					time.Sleep(time.Second / 18)
				}
			})
		}
		honest := model.VMID(fmt.Sprint(hostile))
		wg.Go(func() {
			g := r.Guest(honest)
			for ctx.Err() == nil {
				begin := time.Now()
				if _, err := g.Attach(t.Context(), channel.Attach{VF: at(pfs[honest], 0), Owner: "pod"}); err != nil {
					t.Errorf("an honest guest: %v", err)
				}
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("an honest guest waited %v", took)
				}
				if err := g.Detach(t.Context(), channel.Detach{VF: at(pfs[honest], 0), Owner: "pod"}); err != nil {
					t.Errorf("an honest guest: %v", err)
				}
				time.Sleep(20 * time.Second)
			}
		})
		wg.Wait()
		writes := r.Runner.Store.State().Rev - rev
		t.Logf("within %v: %d writes, %d looks, %d lines", during, writes, looks.Load(), lines.Load())
		if most := 30 + during.Seconds(); float64(writes) > most {
			t.Errorf("%d writes are more than %.0f", writes, most)
		}
		if most := 40 + 4*during.Seconds(); float64(looks.Load()) > most {
			t.Errorf("%d looks are more than %.0f", looks.Load(), most)
		}
		if most := (hostile + 1) * (60 + during.Seconds()/10); float64(lines.Load()) > most {
			t.Errorf("%d lines are more than %.0f", lines.Load(), most)
		}
	})
}

// A single guest cannot use up the allowance of all guests, even if its requests fail and are undone.
func TestOneGuestIsBounded(t *testing.T) {
	for name, fail := range map[string]error{"granted": nil, "undone": errors.New("no room")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneGuest(t, fail) })
		})
	}
}

func oneGuest(t *testing.T, fail error) {
	const during = 100 * time.Second
	r := newRig(t)
	p, g := r.run("a", 2)
	r.host.mu.Lock()
	r.host.fail = func(what string) error {
		if what == "set-port" {
			return fail
		}
		return nil
	}
	r.host.mu.Unlock()
	yes := true
	rev := r.Runner.Store.State().Rev
	begin := time.Now()
	for n := 0; time.Since(begin) < during; n++ {
		within, done := context.WithTimeout(t.Context(), 3*time.Second)
		if fail == nil {
			_, _ = g.Hello(within, channel.Hello{Boot: fmt.Sprint(n)})
		} else {
			time.AfterFunc(time.Second/18, done) // it does not wait for requests that fail
		}
		_, _ = g.Attach(within, channel.Attach{VF: at(p, n%2), Owner: "pod", Isolated: &yes})
		done()
		time.Sleep(time.Second / 18)
	}
	writes := r.Runner.Store.State().Rev - rev
	t.Logf("%d writes", writes)
	if most := 32 + 2*2 + during.Seconds()/2 + 1; float64(writes) > most {
		t.Errorf("%d writes are more than %.0f", writes, most)
	}
}

// A repeated request changes nothing, and is not written again.
func TestAskedAgainIsNotWritten(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	yes := true
	ask := channel.Attach{VF: at(p, 0), Owner: "pod", Isolated: &yes, Addresses: []string{"10.0.0.1"}}
	rev := r.Runner.Store.State().Rev
	for range 3 {
		if _, err := g.Attach(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Hello(t.Context(), channel.Hello{Boot: "boot-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Runner.Store.State().Rev - rev; n != 1 {
		t.Errorf("%d writes", n)
	}
	ask.Isolated = nil
	if _, err := g.Attach(t.Context(), ask); err != nil || r.Runner.Store.State().Find("a", "vpf0").VFs[0].Grant.Port.Isolated {
		t.Errorf("changed: %v", err)
	}
}

// The cost of a repeated or denied request does not grow with the number of other VMs.
func TestAskingCostsNothingForOtherVMs(t *testing.T) {
	const others = 500
	r := newRig(t)
	p, g := r.run("a", 1)
	attach := func(vlan int) float64 {
		least := math.Inf(1)
		for range 10 { // the Runner occasionally observes all VMs in the meantime
			least = min(least, testing.AllocsPerRun(1, func() {
				if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod", VLAN: vlan}); (err != nil) != (vlan != 0) {
					t.Fatal(err)
				}
			}))
		}
		return least
	}
	again, refused := attach(0), attach(7)
	_, err := r.Runner.Store.Update(func(s *vpf.State) error {
		for i := range others {
			o := model.VirtualPF{VM: model.VMID(fmt.Sprint("other-", i)), Name: "vpf0", Model: p.Model, Backend: p.Backend, Network: p.Network}
			o.MAC, o.VFs = model.MAC{2, 1, byte(i >> 8), byte(i)}, make([]model.VirtualVF, 2)
			for k := range o.VFs {
				o.VFs[k].MAC = model.MAC{2, 2, byte(i >> 8), byte(i), byte(k)}
			}
			s.Put(o)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if now := attach(0); now > again+others/10 {
		t.Errorf("asked again: %.0f allocations instead of %.0f", now, again)
	}
	if now := attach(7); now > refused+others/10 {
		t.Errorf("refused: %.0f allocations instead of %.0f", now, refused)
	}
}

// Guests cannot trigger checks of the definitions, each of which asks libvirt about every virtual PF.
func TestGuestsDriveNoChecks(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	select {
	case <-r.checks.waker():
	default:
	}
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.checks.waker():
		t.Error("an attach has all definitions checked")
	default:
	}
}

// A guest that floods is reconnected later each time, and is forgiven only after a long time without a flood.
func TestPausesAfterFloods(t *testing.T) {
	var p pauses
	flood := fmt.Errorf("read: %w", channel.ErrFlood)
	for i, c := range []struct {
		err  error
		open time.Duration
		want time.Duration
	}{
		{nil, 0, time.Second},
		{nil, 0, 2 * time.Second},
		{nil, time.Minute, time.Second},
		{flood, time.Minute, time.Minute},
		{flood, time.Minute, 2 * time.Minute},
		{nil, time.Minute, time.Second},
		{flood, time.Minute, 4 * time.Minute},
		{flood, 0, 8 * time.Minute},
		{flood, 0, 16 * time.Minute},
		{flood, 0, 32 * time.Minute},
		{flood, 0, time.Hour},
		{flood, 0, time.Hour},
		{nil, 2 * time.Hour, time.Second},
		{flood, time.Minute, time.Minute},
	} {
		if have := p.after(c.err, c.open); have != c.want {
			t.Errorf("%d: %v, want %v", i, have, c.want)
		}
	}
}
