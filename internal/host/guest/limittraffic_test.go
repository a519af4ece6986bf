package guest

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/model"
)

// A TCP stream that is running when the limit changes keeps its queue: nothing is dropped, the counters continue, and it follows the limit.
func TestLimitUnderTCP(t *testing.T) {
	g := newRealGuest(t, 1)
	l := g.listen()
	var got atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	g.limit(0, bits(20*mbit), model.Rate{})
	c := g.dial("tcp", l.Addr().String())
	go func() { _, _ = io.Copy(c, endless{}) }()
	var sent uint64
	for _, mb := range []float64{20, 60, 10, 40} {
		g.limit(0, bits(uint64(mb*mbit)), model.Rate{})
		g.eventually("TCP runs at the limit", func() bool {
			start, before := time.Now(), got.Load()
			time.Sleep(300 * time.Millisecond)
			rate := float64(got.Load()-before) * 8 / time.Since(start).Seconds() / mbit
			if rate > 1.05*mb {
				t.Logf("limit %v Mbit/s: %.1f", mb, rate) // what was queued before
			}
			return rate > 0.85*mb && rate < 1.02*mb
		})
		now := g.htbSent()
		if now <= sent {
			t.Errorf("the qdisc has sent %d bytes, after %d: it was replaced", now, sent)
		}
		sent = now
	}
	if s := g.tc("-s qdisc show dev m0"); !strings.Contains(s, "dropped 0") {
		t.Error(s)
	}
	_ = c.Close()
	<-done
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// htbSent returns what the root qdisc of NIC 0 has sent, in bytes.
func (g *realGuest) htbSent() uint64 {
	g.t.Helper()
	_, rest, _ := strings.Cut(g.tc("-s qdisc show dev m0"), "Sent ")
	n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
	must(g.t, err)
	return n
}

// A limit in packets/s counts small and full packets alike, and a limit in bits/s applies in addition.
func TestLimitInPackets(t *testing.T) {
	g := newRealGuest(t, 1)
	sink := in(t, g.wire, func() (net.PacketConn, error) { return net.ListenPacket("udp", "192.0.0.2:0") })
	t.Cleanup(func() { _ = sink.Close() })
	for _, c := range []struct {
		name  string
		size  int
		limit model.Rate
		want  float64 // packets/s
	}{
		{"small", 18, model.Rate{Packets: 2000}, 2000},
		{"full", 1472, model.Rate{Packets: 2000}, 2000},
		{"small, by bits", 18, model.Rate{Bits: 672000, Packets: 2000}, 1000},       // 84 bytes each
		{"full, by bits", 1472, model.Rate{Bits: 6152000, Packets: 2000}, 500},      // 1538 bytes each
		{"full, by packets", 1472, model.Rate{Bits: 100 * mbit, Packets: 700}, 700}, // 8.6 Mbit/s
	} {
		g.limit(0, c.limit, model.Rate{})
		if least, most := g.flood(sink.LocalAddr().String(), c.size); least > c.want*1.03 || most < c.want*0.9 {
			t.Errorf("%s: %.0f to %.0f packets/s, want %.0f", c.name, least, most, c.want)
		}
	}
}

// flood sends packets as fast as NIC 0 accepts them, and returns bounds of the packets/s that the guest's device sent: the time at which
// the counters were read is only known to lie between two times.
func (g *realGuest) flood(to string, size int) (least, most float64) {
	c := g.dial("udp", to)
	defer c.Close()
	must(g.t, c.(*net.UDPConn).SetWriteBuffer(20000))
	payload := make([]byte, size)
	send := func(d time.Duration) {
		must(g.t, c.SetWriteDeadline(time.Now().Add(d)))
		for {
			if _, err := c.Write(payload); err != nil {
				return
			}
		}
	}
	send(300 * time.Millisecond) // the burst, and what the previous flood left
	first := time.Now()
	before := g.sentPackets()
	start := time.Now()
	send(time.Second)
	end := time.Now()
	sent := float64(g.sentPackets() - before)
	return sent / time.Since(first).Seconds(), sent / end.Sub(start).Seconds()
}

// sentPackets returns what NIC 0's wire received.
func (g *realGuest) sentPackets() uint64 {
	g.t.Helper()
	for line := range strings.Lines(g.host("cat", "/proc/net/dev")) {
		if name, cols, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == "v0" {
			s, err := parseColumns(cols)
			must(g.t, err)
			return uint64(s.TxPackets)
		}
	}
	g.t.Fatal("no v0")
	return 0
}
