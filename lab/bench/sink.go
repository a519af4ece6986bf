package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// sinkStep is the sampling interval of the sink.
const sinkStep = 10 * time.Millisecond

// sink receives what all guests send. It counts segments: the count of in-order bytes stalls while one is missing, which would look as
// if the guest had sent nothing.
type sink struct {
	mu    sync.Mutex
	n     int
	conns map[*net.TCPConn]int // guest by connection
	ended []float64            // bits on the wire of closed connections, by guest
	local []bool               // guests that also receive traffic that does not leave the host
}

// sample is how much of each guest's data had arrived by a time, in bits on the wire.
type sample struct {
	at   time.Time
	bits []float64
}

// inGuest makes guest i receive too, and returns its address.
func (s *sink) inGuest(i int) (string, error) {
	at := guestIP(i).String() + ":5000"
	if s.local[i] {
		return at, nil
	}
	s.local[i] = true
	return at, s.listen(guestNS(i), at)
}

func newSink(n int) (*sink, error) {
	s := &sink{n: n, conns: map[*net.TCPConn]int{}, ended: make([]float64, n), local: make([]bool, n)}
	return s, s.listen(sinkNS, sinkListen)
}

// listen accepts connections in a namespace.
func (s *sink) listen(ns, at string) error {
	var l net.Listener
	err := inNS(ns, func() (err error) {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		l, err = lc.Listen(context.Background(), "tcp4", at)
		return err
	})
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.drain(c.(*net.TCPConn))
		}
	}()
	return nil
}

func (s *sink) drain(c *net.TCPConn) {
	guest := guestOf(c.RemoteAddr().(*net.TCPAddr).IP)
	s.mu.Lock()
	s.conns[c] = guest
	s.mu.Unlock()
	buf := make([]byte, 128<<10)
	for {
		if _, err := c.Read(buf); err != nil {
			break
		}
	}
	s.mu.Lock()
	s.ended[guest] += arrived(c)
	delete(s.conns, c)
	s.mu.Unlock()
	c.Close()
}

// arrived returns how much one connection has received, in bits on the wire.
func arrived(c *net.TCPConn) float64 {
	info, err := tcpInfo(c)
	if err != nil {
		return 0
	}
	return float64(info.Data_segs_in) * segmentWire * 8
}

func (s *sink) look() sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sample{time.Now(), slices.Clone(s.ended)}
	for c, guest := range s.conns {
		out.bits[guest] += arrived(c)
	}
	return out
}

// watch takes samples until ctx ends.
func (s *sink) watch(ctx context.Context) []sample {
	var out []sample
	tick := time.NewTicker(sinkStep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return append(out, s.look())
		case <-tick.C:
			out = append(out, s.look())
		}
	}
}

// idle waits until no connection is left.
func (s *sink) idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d connections of the run before are still open: %w", n, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
