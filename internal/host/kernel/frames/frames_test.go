package frames

import (
	"context"
	"os"
	"testing"
	"time"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair creates a wire from this namespace ("near") to a Space ("lent").
func pair(t *testing.T) *Space {
	t.Helper()
	s, err := NewSpace()
	must(t, err)
	kerneltest.IP(t, "link add near type veth peer name far")
	t.Cleanup(func() { must(t, s.Close()) })
	kerneltest.Quiet(t, "near")
	kerneltest.IP(t, "link set near up")
	h, err := kernel.New(kernel.Options{BPFFS: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	must(t, h.MoveLink(t.Context(), "far", "lent", s.FD()))
	if _, err := os.Stat("/sys/class/net/far"); err == nil {
		t.Error("the interface is still here")
	}
	must(t, s.Up(t.Context(), "lent"))
	if !s.Has("lent") || s.Has("near") {
		t.Error("the space has not what it should")
	}
	t.Cleanup(func() { kerneltest.IP(t, "link del near") })
	return s
}

func TestFramesArriveAndAreCounted(t *testing.T) {
	s := pair(t)
	kerneltest.NewBridge(t, "br9")
	kerneltest.IP(t, "link set near master br9") // a bridge takes frames before most sockets see them
	mark, other := NewMark(), NewMark()
	count, err := NewCounter(nil, "near", mark)
	must(t, err)
	defer count.Close()
	back, err := NewCounter(s, "lent", mark)
	must(t, err)
	defer back.Close()
	out, err := NewSender(s, "lent")
	must(t, err)
	defer out.Close()
	f := Frame{To: model.MAC{2, 1}, From: model.MAC{2, 2}, Mark: mark, Size: 1514}
	sent, err := out.Send(t.Context(), f, 50, time.Millisecond)
	if err != nil || sent != 50 {
		t.Fatalf("sent %d, %v", sent, err)
	}
	f.Mark = other
	_, err = out.Send(t.Context(), f, 7, 0)
	must(t, err)
	if n, err := count.Await(t.Context(), 50, 10*time.Second); err != nil || n != 50 {
		t.Errorf("%d arrived of 50, %v", n, err)
	}
	if n, err := back.Count(); err != nil || n != 0 {
		t.Errorf("the sender heard %d of its own, %v", n, err)
	}
	in, err := NewSender(nil, "near")
	must(t, err)
	defer in.Close()
	f.Mark = mark
	_, err = in.Send(t.Context(), f, 3, 0)
	must(t, err)
	if n, err := back.Await(t.Context(), 3, 10*time.Second); err != nil || n != 3 {
		t.Errorf("%d of 3 came back, %v", n, err)
	}
	if n, err := count.Count(); err != nil || n != 50 {
		t.Errorf("what the host sent counts as received: %d, %v", n, err)
	}
}

// TestFlood checks that a flood is counted completely without a reader.
func TestFlood(t *testing.T) {
	s := pair(t)
	mark := NewMark()
	count, err := NewCounter(nil, "near", mark)
	must(t, err)
	defer count.Close()
	out, err := NewSender(s, "lent")
	must(t, err)
	defer out.Close()
	sent, took, err := out.Flood(t.Context(), Frame{To: model.MAC{2, 1}, From: model.MAC{2, 2}, Mark: mark}, 200*time.Millisecond)
	must(t, err)
	if sent == 0 || took < 200*time.Millisecond {
		t.Errorf("sent %d in %s", sent, took)
	}
	if n, err := count.Await(t.Context(), sent, 10*time.Second); err != nil || n != sent {
		t.Errorf("%d of %d counted, %v", n, sent, err)
	}
}

func TestNoSuchInterface(t *testing.T) {
	s, err := NewSpace()
	must(t, err)
	defer s.Close()
	if _, err := NewSender(s, "lo2"); err == nil {
		t.Error("a sender on nothing")
	}
	if _, err := NewCounter(nil, "lo2", 1); err == nil {
		t.Error("a counter on nothing")
	}
	if err := s.Up(t.Context(), "lo2"); err == nil {
		t.Error("nothing is up")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	kerneltest.IP(t, "link add alone type veth peer name other")
	defer kerneltest.IP(t, "link del alone")
	var here *Space
	if err := here.Up(ctx, "alone"); err == nil {
		t.Error("it has carrier without its peer")
	}
}
