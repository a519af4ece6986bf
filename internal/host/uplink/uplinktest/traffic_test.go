package uplinktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

var moves = flag.Int("moves", 20, "how often a guest changes its path under traffic")

// A phase of moving a guest to its VF and back. In each, frames must reach some of the paths: the one on which the guest listens, and
// both while it may change over.
type phase int32

const (
	onTap phase = iota
	openingFromTap
	both
	routingToVF
	closingOnVF
	onVF
	openingFromVF
	bothAgain
	routingToTap
	closingOnTap
	phases
)

var needs = [phases]struct{ tap, vf bool }{
	onTap: {tap: true}, openingFromTap: {tap: true}, both: {true, true}, routingToVF: {vf: true}, closingOnVF: {vf: true},
	onVF: {vf: true}, openingFromVF: {vf: true}, bothAgain: {true, true}, routingToTap: {tap: true}, closingOnTap: {tap: true},
}

// sent is a frame with the phases before and after it was sent.
type sent struct{ before, after phase }

// TestNoFrameIsLostInAMove moves a guest to its VF and back while another port of the switch, and the wire if the switch must steer what
// comes from there, send it a frame every millisecond each. Every frame reaches the path that it must reach, and none reaches a path twice.
// Under OVN one more follows each, which an access list drops: it reaches neither path, whatever the moment.
func TestNoFrameIsLostInAMove(t *testing.T) {
	for name, build := range map[string]func(*testing.T) world{
		"linux bridge": bridgeWorld, "linux bridge, representors": representorWorld, "ovn": ovnWorld, "open vswitch": ovsWorld,
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			p := w.step(t, guestTap, kerneltest.Guest)
			kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
			for _, port := range []*kerneltest.Port{w.tap, w.vf} {
				kerneltest.IP(t, "link set "+port.Name+" txqueuelen 10000") // a reader that waits for a processor loses nothing
			}
			var now atomic.Int32
			seen, out := make([]atomic.Int64, len(w.from)), make([]atomic.Int64, len(w.from))
			tap, vf := collect(t, w.tap, seen), collect(t, w.vf, seen)
			stop := make(chan struct{})
			var senders sync.WaitGroup
			frames := make([][]sent, len(w.from))
			for i, from := range w.from {
				senders.Go(func() { frames[i] = send(t, from, byte(i), &now, stop, &seen[i], &out[i], w.rules) })
			}
			change := func(to phase, f func(context.Context, *model.PathStep) error) {
				now.Store(int32(to))
				for i := range out { // frames that are still before a switch in user space belong to the phase before
					for n, waited := out[i].Load(), 0; seen[i].Load() < n && waited < 1000; waited++ {
						time.Sleep(time.Millisecond)
					}
				}
				kerneltest.Must(t, f(kerneltest.Soon(t), p))
			}
			wait := func(in phase) { // until each sender has sent some frames in this phase
				now.Store(int32(in))
				const some = 3
				for i := range out {
					n := out[i].Load() + some
					kerneltest.WaitFor(t, "a sender to send", func() bool { return out[i].Load() >= n })
				}
			}
			for range *moves {
				change(openingFromTap, w.toBoth)
				wait(both)
				change(routingToVF, w.ToVF)
				change(closingOnVF, w.ToOne)
				wait(onVF)
				change(openingFromVF, w.toBoth)
				wait(bothAgain)
				change(routingToTap, w.ToTap)
				change(closingOnTap, w.ToOne)
				wait(onTap)
			}
			close(stop)
			senders.Wait()
			kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p)) // where OVN sends broadcasts to one port, both get the last frame too
			last := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Other, "last")
			w.from[0].Send(t, last)
			atTap, atVF := <-tap, <-vf
			lost, total := 0, 0
			for i := range frames {
				for n, f := range frames[i] {
					key := [2]int{i, n}
					total++
					must := needs[f.before]
					if f.after != f.before {
						must.tap, must.vf = must.tap && needs[f.after].tap, must.vf && needs[f.after].vf
					}
					if must.tap && atTap[key] == 0 || must.vf && atVF[key] == 0 || atTap[key]+atVF[key] == 0 {
						lost++
						t.Errorf("frame %d from %s, sent in phase %d to %d, reached the tap %d and the VF %d times", n, w.from[i].Name, f.before,
							f.after, atTap[key], atVF[key])
					}
					if atTap[key] > 1 || atVF[key] > 1 {
						t.Errorf("frame %d from %s reached the tap %d and the VF %d times", n, w.from[i].Name, atTap[key], atVF[key])
					}
				}
			}
			t.Logf("%d moves, %d frames, %d lost", 2**moves, total, lost)
		})
	}
}

// inFlight is how many frames a switch in user space may have before it, which has a socket's buffer for them.
const inFlight = 100

// send sends numbered frames to the guest, one a millisecond, and returns the phases in which it did. It waits for a switch that gets no
// processor: out is the last frame that was sent, and seen the last that arrived.
func send(t *testing.T, from *kerneltest.Port, mark byte, now *atomic.Int32, stop <-chan struct{}, seen, out *atomic.Int64,
	rules bool,
) (frames []sent) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := uint32(0); ; n++ {
		select {
		case <-stop:
			return frames
		case <-tick.C:
		}
		for waited := 0; int64(n) > seen.Load()+inFlight && waited < 1000; waited++ { // those lost would never come
			time.Sleep(time.Millisecond)
		}
		text := string(binary.BigEndian.AppendUint32([]byte{'#', mark}, n))
		before := phase(now.Load())
		from.Send(t, kerneltest.Frame(kerneltest.Guest, kerneltest.Other, text))
		out.Store(int64(n))
		frames = append(frames, sent{before, phase(now.Load())})
		if rules {
			from.Send(t, forbid(kerneltest.Frame(kerneltest.Guest, kerneltest.Other, text)))
		}
	}
}

// collect counts the numbered frames that a port receives, by sender and number, until the last frame.
func collect(t *testing.T, at *kerneltest.Port, seen []atomic.Int64) <-chan map[[2]int]int {
	out := make(chan map[[2]int]int, 1)
	go func() {
		got := map[[2]int]int{}
		defer func() { out <- got }()
		for {
			frame := at.Next(t)
			i := bytes.IndexByte(frame, '#')
			switch {
			case bytes.Contains(frame, []byte("last")):
				return
			case frame[13] == 0xb6:
				t.Errorf("%s received a frame that the access list drops: %x", at.Name, frame[:24])
			case i >= 0 && len(frame) >= i+6 && bytes.Equal(frame[:6], kerneltest.Guest[:]):
				from, n := int(frame[i+1]), int(binary.BigEndian.Uint32(frame[i+2:]))
				got[[2]int{from, n}]++
				if s := &seen[from]; int64(n) > s.Load() { // two ports: at worst a little less
					s.Store(int64(n))
				}
			}
		}
	}()
	return out
}
