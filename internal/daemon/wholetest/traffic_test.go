package wholetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/tests/testkit"
)

// traffic begins what is sent until the end of the test.
func (s *site) traffic() {
	wire := newPacket(s.t, "wire0")
	atGuest := func(f *flow) func() int { return func() int { return s.guest.has(f) } }
	s.fromPeer = flow{name: "from the peer", mark: 'p', every: 2 * time.Millisecond, has: atGuest(&s.fromPeer)}
	s.fromWire = flow{name: "from the wire", mark: 'w', every: 4 * time.Millisecond, has: atGuest(&s.fromWire)}
	s.fromGuest = flow{name: "to the peer", mark: 'g', every: 4 * time.Millisecond, has: s.received}
	s.senders.Go(func() {
		s.fromPeer.run(kerneltest.Guest, kerneltest.Other, s.stop, func(f []byte) { s.peer.Send(reporter{s.t}, f) })
	})
	if s.fabric.wire {
		s.senders.Go(func() { s.fromWire.run(kerneltest.Guest, wireMAC, s.stop, wire.send) })
	}
	s.senders.Go(func() { s.fromGuest.run(kerneltest.Other, kerneltest.Guest, s.stop, s.guest.send) })
	stop, ended := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() { s.silence(); close(stop); <-ended; wire.close() })
	go func() {
		defer close(ended)
		for {
			for frame := s.peer.Waiting(reporter{s.t}); frame != nil; frame = s.peer.Waiting(reporter{s.t}) {
				if mark, n, ok := numbered(frame, kerneltest.Other); ok && mark == 'g' {
					s.mu.Lock()
					s.got[n] = append(s.got[n], time.Now())
					s.last = max(s.last, n)
					s.mu.Unlock()
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
}

// received returns how many of the guest's frames the peer has received, by the number of the last.
func (s *site) received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last + 1
}

// silence ends what is sent.
func (s *site) silence() {
	s.silent.Do(func() { close(s.stop) })
	s.senders.Wait()
}

// flows are those that are sent.
func (s *site) flows() []*flow {
	if s.fabric.wire {
		return []*flow{&s.fromPeer, &s.fromGuest, &s.fromWire}
	}
	return []*flow{&s.fromPeer, &s.fromGuest}
}

// interrupted runs something that calls begun when it begins to lose frames, if it does, and that ends when all is at rest again.
func (s *site) interrupted(what string, do func(begun func())) {
	var from time.Time
	var gaps []gap
	do(func() {
		from = time.Now()
		for _, f := range s.flows() {
			gaps = append(gaps, gap{from: f.has()}) // what is under way is lost too
		}
	})
	if from.IsZero() {
		return
	}
	for i, f := range s.flows() {
		gaps[i].end = f.next()
		f.gaps = append(f.gaps, gaps[i])
	}
	s.within(0) // before it is quicker again
	s.t.Logf("%s: at rest again after %s", what, time.Since(from).Round(time.Millisecond))
	// A flow that has lost many frames sends few, see [flow.run]: in the next interruption none would have shown that this one has ended.
	for i, f := range s.flows() {
		kerneltest.WaitFor(s.t, "frames "+f.name+" that were sent since", func() bool { return f.has() > gaps[i].end })
	}
}

// within returns how long what takes d on an idle machine may take here, when it was slowest.
func (s *site) within(d time.Duration) time.Duration {
	s.slow = max(s.slow, testkit.Time(time.Second).Seconds())
	return time.Duration(s.slow * float64(d))
}

// judge ends the traffic, and fails the test if frames were lost or came twice.
func (s *site) judge() {
	s.t.Helper()
	s.silence()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(s.flows(), func(f *flow) bool { return f.has() < f.next() }) {
			break
		}
	}
	for _, f := range s.flows() {
		c := s.tally(f)
		s.t.Logf("%s: %d frames, %d lost, in a row for %s at most; at %d changes of the guest's path %d came twice and %d not at all", f.name,
			c.sent, c.lost, c.longest.Round(time.Millisecond), len(s.guest.flips), c.twice, c.none)
		most := s.within(interruption)
		if total := time.Duration(c.lost) * f.every; c.longest > most || total > time.Duration(len(f.gaps))*most {
			s.t.Errorf("nothing came for %s, and for %s in all, of which %d interruptions excuse %s each", c.longest, total, len(f.gaps), most)
		}
		if n := len(s.guest.flips); c.twice > 3+3*n || c.none > 2+n/10 {
			s.t.Errorf("too many frames came twice or not at all: %d and %d", c.twice, c.none)
		}
		if n := len(c.wrong); n > 0 {
			s.t.Errorf("%d frames are wrong, among them:\n%s", n, strings.Join(c.wrong[:min(n, 10)], "\n"))
		}
	}
	log, err := os.ReadFile(s.log.Name())
	kerneltest.Must(s.t, err)
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") {
			s.t.Errorf("the daemon logged %s", line)
		}
	}
}

// interruption is how long a guest may not be reached, or not be heard, when its VF or its representor is taken from it: until the daemon
// looks again, which is every 200 ms, and has moved the guest's frames.
const interruption = 400 * time.Millisecond

func (s *site) tally(f *flow) tally {
	if f == &s.fromGuest {
		return s.counted()
	}
	return s.guest.count(f)
}

// counted judges what the peer has received of the guest. A frame may come twice, or not at all, only if it was under way while the switch
// changed the guest's port.
func (s *site) counted() (out tally) {
	var moves []span
	if s.moves != nil {
		moves = s.moves()
	}
	for i, within := 0, s.within(settling); i < len(moves); i++ {
		moves[i] = span{moves[i].from.Add(-within), moves[i].end.Add(within)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	underWay, next := make([]span, len(s.fromGuest.sent)), time.Now() // next is when a later frame came
	for n, at := range slices.Backward(s.fromGuest.sent) {
		if got := s.got[n]; len(got) > 0 {
			underWay[n], next = span{at, got[len(got)-1]}, got[0]
		} else {
			underWay[n] = span{at, next}
		}
	}
	for n, at := range s.fromGuest.sent {
		got, moving := len(s.got[n]), slices.ContainsFunc(moves, underWay[n].overlaps)
		neither := got == 0 && !s.fromGuest.forgiven(n) && moving
		out.row(at, got == 0 && !neither)
		switch {
		case got == 1, got == 0 && s.fromGuest.forgiven(n):
			continue
		case neither:
			out.none++
			continue
		case got == 2 && moving:
			out.twice++
			continue
		}
		out.wrong = append(out.wrong, fmt.Sprintf("frame %d of the guest, sent at %s, came %d times, the last or the next at %s", n,
			at.Format("05.000"), got, underWay[n].end.Format("05.000")))
	}
	if len(out.wrong) > 0 {
		for _, m := range moves {
			s.t.Logf("the guest's port moved between %s and %s", m.from.Format("05.000"), m.end.Format("05.000"))
		}
	}
	return out
}

// settling is how long before the database's client tells that a logical port moves, and after it tells that OVN has set it up, the
// switch may go by its new port for some frames and by the old one for others, on an idle machine.
const settling = 50 * time.Millisecond
