package wholetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
)

// A guest's driver takes some time before it opens a VF, and before it releases it. A VF reports its link later than it can receive: until
// then the guest sends through its tap, after a boot for longer than the daemon takes to see that its driver is there.
const (
	probing   = 20 * time.Millisecond
	linking   = 100 * time.Millisecond
	booting   = 800 * time.Millisecond
	releasing = 20 * time.Millisecond
)

// arrivals counts how often a frame came to the guest's tap and VF, and how often the guest accepted it.
type arrivals struct {
	tap, vf, accepted int
	read              span // from the first to the last
}

// guest is the guest of the domain: it receives on its active path only, as net_failover does.
type guest struct {
	t   testing.TB
	nic *nic
	tap *kerneltest.Port

	mu     sync.Mutex
	onVF   bool // receives there
	sends  bool // through the VF
	flips  []time.Time
	opened time.Time // when it opened or closed its VF last
	frames map[byte]map[int]*arrivals
	last   map[byte]int // the highest number of a frame
	cancel context.CancelFunc

	turn sync.Mutex // held by what plugs or unplugs
}

func newGuest(t *testing.T, n *nic, f *fabric) *guest {
	g := &guest{
		t: reporter{t}, nic: n, tap: kerneltest.NewPort(t, "tap0", ""),
		frames: map[byte]map[int]*arrivals{}, last: map[byte]int{}, cancel: func() {},
	}
	f.join(t, "tap0")
	kerneltest.IP(t, "link set tap0 txqueuelen 10000") // a reader that waits for a processor loses nothing
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		g.giveUp()
		g.turn.Lock()
		close(stop)
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			g.mu.Lock()
			g.drain()
			g.mu.Unlock()
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return g
}

// drain reads what has arrived on both paths. The caller holds mu.
func (g *guest) drain() {
	for frame := g.tap.Waiting(g.t); frame != nil; frame = g.tap.Waiting(g.t) {
		if a := g.arrived(frame); a != nil {
			a.tap++
			if !g.onVF {
				a.accepted++
			}
		}
	}
	vf := g.nic.end()
	if vf == nil {
		return
	}
	for frame := vf.waiting(); frame != nil; frame = vf.waiting() {
		if a := g.arrived(frame); a != nil {
			a.vf++
			if g.onVF {
				a.accepted++
			}
		}
	}
}

func (g *guest) arrived(frame []byte) *arrivals {
	mark, n, ok := numbered(frame, kerneltest.Guest)
	if !ok {
		return nil
	}
	if g.frames[mark] == nil {
		g.frames[mark] = map[int]*arrivals{}
	}
	g.last[mark] = max(g.last[mark], n)
	a := g.frames[mark][n]
	if a == nil {
		a = &arrivals{}
		g.frames[mark][n] = a
	}
	a.read.extend(time.Now())
	return a
}

// flip makes the guest receive on its other path.
func (g *guest) flip(toVF bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drain()
	if g.onVF != toVF {
		g.flips = append(g.flips, time.Now())
	}
	g.onVF = toVF
	if !toVF {
		g.sends = false
	}
}

// open shows that the guest's driver has opened the VF, or has closed it.
func (g *guest) open(is bool) {
	g.nic.open(is)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = time.Now()
}

// seen reports whether something that was observed then shows whether the driver has the VF open now.
func (g *guest) seen(observed time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return observed.After(g.opened)
}

// listens reports whether the guest receives on its VF.
func (g *guest) listens() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.onVF
}

// linked reports whether its VF has its link, so that the guest sends there.
func (g *guest) linked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sends
}

// send sends through the active path; for a while after it has the VF that is still the tap.
func (g *guest) send(frame []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if vf := g.nic.end(); g.sends && vf != nil {
		vf.send(frame)
	} else {
		g.tap.Send(g.t, frame)
	}
}

// plug is what QEMU and the guest do with a new VF.
func (g *guest) plug() {
	if mac := g.nic.mac(); mac != kerneltest.Guest {
		g.t.Errorf("the guest gets a VF with MAC %s, which it does not pair with its virtio NIC", mac)
	}
	if d := g.nic.driver(); d != "vfio-pci" {
		g.t.Errorf("the guest gets a VF that is bound to driver %q", d)
	}
	g.turn.Lock()
	defer g.turn.Unlock()
	g.nic.file("bus/pci/devices/"+vfAddress+"/enable", "1")
	g.boot(linking)
}

// boot has the guest's driver look for the VF, which has its link so long after it was opened.
func (g *guest) boot(linking time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	g.mu.Lock()
	g.cancel = cancel
	g.mu.Unlock()
	go g.probe(ctx, linking)
}

// giveUp ends a probe.
func (g *guest) giveUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel()
}

// probe is the guest's driver: it opens the VF, and listens there as soon as the representor is up, whatever the switch does. A veth's end
// passes frames then, not when it has a carrier.
func (g *guest) probe(ctx context.Context, linking time.Duration) {
	g.turn.Lock()
	defer g.turn.Unlock()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start, up := time.Now(), false; !up || !shows(g.nic.representor(), "operstate", "up"); {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !up && time.Since(start) > probing {
			kerneltest.IP(g.t, "link set "+vfNetdev+" up")
			up = true
		}
	}
	g.flip(true)
	time.AfterFunc(linking, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if ctx.Err() == nil { // otherwise it was shut since, and a later boot decides
			g.sends = true
		}
	})
	g.open(true)
}

// unplug is what the guest does when it is asked to release its VF, or QEMU says that it is gone.
func (g *guest) unplug() {
	time.Sleep(releasing)
	g.shut()
	if g.nic.end() != nil { // it has not vanished
		g.nic.file("bus/pci/devices/"+vfAddress+"/enable", "0")
	}
}

// shut ends the guest's driver.
func (g *guest) shut() {
	g.giveUp()
	g.turn.Lock()
	defer g.turn.Unlock()
	g.flip(false)
	g.open(false)
	if g.nic.end() != nil {
		kerneltest.IP(g.t, "link set "+vfNetdev+" down")
	}
}

// has returns how many frames of a flow have come, by the number of the last.
func (g *guest) has(f *flow) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[f.mark] + 1
}

// tally is what became of the frames of a flow to the guest.
type tally struct {
	sent, lost  int
	twice, none int           // came by both paths, one before and one after a change of path, and were accepted on both, or on neither
	longest     time.Duration // from the first of a row of lost frames to the next that came: a sender may go slower in between
	since       time.Time     // the first of the row; zero: the last frame is not lost
	wrong       []string      // frames that are lost, or came twice for another reason
}

// row notes whether the next frame, sent at that time, is lost.
func (c *tally) row(at time.Time, lost bool) {
	c.sent++
	if !c.since.IsZero() {
		c.longest = max(c.longest, at.Sub(c.since))
	}
	if !lost {
		c.since = time.Time{}
		return
	}
	c.lost++
	if c.since.IsZero() {
		c.since = at
	}
}

// count judges the frames of a flow. A frame is lost if the switch sent it neither to the path on which the guest listened nor to both.
func (g *guest) count(f *flow) (out tally) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, at := range f.sent {
		a := arrivals{}
		if seen := g.frames[f.mark][n]; seen != nil {
			a = *seen
		}
		changing := slices.ContainsFunc(g.flips, func(flip time.Time) bool { return a.read.overlaps(span{flip, flip}) })
		lost := a.accepted == 0 && a.tap+a.vf < 2
		out.row(at, lost)
		switch {
		case a.accepted == 1 && a.tap <= 1 && a.vf <= 1:
			continue
		case lost:
			if f.forgiven(n) {
				continue
			}
		case a.tap == 1 && a.vf == 1 && changing && a.accepted == 0:
			out.none++
			continue
		case a.tap == 1 && a.vf == 1 && changing:
			out.twice++
			continue
		}
		out.wrong = append(out.wrong, fmt.Sprintf("frame %d of flow %c, sent at %s, came %d times to the tap and %d to the VF, accepted %d times",
			n, f.mark, at.Format("05.000"), a.tap, a.vf, a.accepted))
	}
	return out
}
