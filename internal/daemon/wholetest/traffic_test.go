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
	s.fromPeer.mark, s.fromWire.mark, s.fromGuest.mark = 'p', 'w', 'g'
	s.senders.Go(func() {
		s.fromPeer.run(kerneltest.Guest, kerneltest.Other, 2*time.Millisecond, s.stop, func() int { return s.guest.has(&s.fromPeer) },
			func(f []byte) { s.peer.Send(s.t, f) })
	})
	if s.fabric.wire {
		s.senders.Go(func() {
			s.fromWire.run(kerneltest.Guest, wireMAC, 4*time.Millisecond, s.stop, func() int { return s.guest.has(&s.fromWire) }, wire.send)
		})
	}
	s.senders.Go(func() {
		s.fromGuest.run(kerneltest.Other, kerneltest.Guest, 4*time.Millisecond, s.stop, s.received, s.guest.send)
	})
	stop, ended := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() { s.silence(); close(stop); <-ended; wire.close() })
	go func() {
		defer close(ended)
		for {
			for frame := s.peer.Waiting(s.t); frame != nil; frame = s.peer.Waiting(s.t) {
				if mark, n, ok := numbered(frame, kerneltest.Other); ok && mark == 'g' {
					s.mu.Lock()
					s.got[n]++
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

// interrupted runs something during which frames may be lost.
func (s *site) interrupted(what string, do func()) {
	from := time.Now()
	do()
	s.gaps = append(s.gaps, window{from.Add(-straddling), time.Now()}) // what was under way is lost too
	s.t.Logf("%s: at rest again after %s", what, time.Since(from).Round(time.Millisecond))
}

type window struct{ from, to time.Time }

// forgiven reports whether a frame that was sent then may be lost.
func (s *site) forgiven(at time.Time) bool {
	return slices.ContainsFunc(s.gaps, func(w window) bool { return at.After(w.from) && at.Before(w.to) })
}

// judge ends the traffic, and fails the test if frames were lost or came twice.
func (s *site) judge() {
	s.t.Helper()
	s.silence()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s.received() == len(s.fromGuest.sent) && s.guest.has(&s.fromPeer) == len(s.fromPeer.sent) &&
			(!s.fabric.wire || s.guest.has(&s.fromWire) == len(s.fromWire.sent)) {
			break
		}
	}
	tallies := []tally{s.guest.count(&s.fromPeer, s.forgiven), s.guest.count(&s.fromWire, s.forgiven), s.counted()}
	for i, c := range tallies {
		if c.sent == 0 {
			continue
		}
		s.t.Logf("%s: %d frames, %d lost, in a row for %s at most; the guest changed its path %d times, at which %d came twice and %d not at all",
			[]string{"from the peer", "from the wire", "to the peer"}[i], c.sent, c.lost, c.longest.Round(time.Millisecond),
			len(s.guest.flips), c.twice, c.none)
		if c.longest > testkit.Time(1500*time.Millisecond) {
			s.t.Errorf("nothing came for %s", c.longest)
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

// counted judges what the peer has received of the guest.
func (s *site) counted() (out tally) {
	soonAfter := func(at time.Time) bool {
		return slices.ContainsFunc(s.guest.flips, func(flip time.Time) bool { return at.Sub(flip).Abs() < s.fabric.twice })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, at := range s.fromGuest.sent {
		got := s.got[n]
		out.row(at, got == 0)
		switch {
		case got == 1, got == 0 && s.forgiven(at):
			continue
		case got == 2 && soonAfter(at):
			out.twice++
			continue
		}
		out.wrong = append(out.wrong, fmt.Sprintf("frame %d of the guest, sent at %s, came %d times", n, at.Format("05.000"), got))
	}
	return out
}
