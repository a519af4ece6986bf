package frames

import (
	"net/netip"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
)

func TestRoundTrips(t *testing.T) {
	kerneltest.IP(t, "link set lo up")
	kerneltest.IP(t, "link add quiet type veth peer name quiet2")
	defer kerneltest.IP(t, "link del quiet")
	kerneltest.IP(t, "addr add 192.0.2.1/24 dev quiet")
	kerneltest.IP(t, "link set quiet up")
	kerneltest.IP(t, "link set quiet2 up")
	p, err := NewPinger(netip.MustParseAddr("127.0.0.1"))
	must(t, err)
	defer p.Close()
	for _, size := range []int{28, 64, 1472, 1501} {
		if took, ok, err := p.Trip(t.Context(), size, 10*time.Second); !ok || err != nil || took <= 0 {
			t.Errorf("%d bytes: %s, %v, %v", size, took, ok, err)
		}
	}
	if sent, done, during := p.Flood(t.Context(), 64, 8, 100*time.Millisecond, 10*time.Second); done == 0 || done != sent ||
		during < 100*time.Millisecond {
		t.Errorf("%d of %d in %s", done, sent, during)
	}
	stop := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() { close(stop) })
	if sent, lost := p.Stream(t.Context(), 5*time.Millisecond, 10*time.Second, stop); sent == 0 || lost != 0 {
		t.Errorf("lost %d of %d", lost, sent)
	}
	full, ended := make(chan struct{}), make(chan float64)
	go func() { ended <- p.Load(t.Context(), 44, 2000, full) }()
	for p.load.Load() < 100 { // round trips go on beside it
		if _, ok, err := p.Trip(t.Context(), 64, 10*time.Second); !ok || err != nil {
			t.Fatal("no answer beside a load", err)
		}
	}
	close(full)
	if rate := <-ended; rate <= 0 || rate > 2100 {
		t.Errorf("%.0f answers/s to 2,000 echoes/s", rate)
	}
	nobody, err := NewPinger(netip.MustParseAddr("192.0.2.2"))
	must(t, err)
	defer nobody.Close()
	if _, ok, _ := nobody.Trip(t.Context(), 64, 50*time.Millisecond); ok {
		t.Error("nobody answered")
	}
	if _, err := NewPinger(netip.MustParseAddr("::1")); err == nil {
		t.Error("IPv6")
	}
}
