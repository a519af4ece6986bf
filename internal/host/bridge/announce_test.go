package bridge

import (
	"errors"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

func TestAnnounceTeachesTheNextSwitch(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "pf0", "")
	// A second switch, reached through a cable whose near end takes the role of the PF.
	kerneltest.NewBridge(t, "switch0")
	near := kerneltest.NewPort(t, "far0", "switch0")
	asker := kerneltest.NewPort(t, "far1", "switch0")
	third := kerneltest.NewPort(t, "far2", "switch0")
	kerneltest.IP(t, "link add cable0 type veth peer name cable1")
	t.Cleanup(func() { kerneltest.IP(t, "link del cable0") })
	kerneltest.Quiet(t, "cable0")
	kerneltest.Quiet(t, "cable1")
	kerneltest.IP(t, "link set cable1 master switch0 up")
	kerneltest.IP(t, "link set cable0 up")
	kerneltest.WaitForwarding(t, "cable1")

	// The guest was behind far0.
	hello := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "I am here")
	near.Send(t, hello)
	asker.Expect(t, hello)
	third.Expect(t, hello)
	kerneltest.Must(t, h.Announce(kerneltest.Soon(t), kerneltest.Guest, 0, "cable0"))
	want := rarp(kerneltest.Guest, 0)
	asker.Expect(t, want)
	third.Expect(t, want)
	near.Expect(t, want)

	toGuest := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "where?")
	before := received(t, h, "cable0")
	asker.Send(t, toGuest)
	marker := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "marker")
	asker.Send(t, marker)
	near.Expect(t, marker)
	third.Expect(t, marker)
	kerneltest.WaitFor(t, "two frames through the cable", func() bool {
		return received(t, h, "cable0") == before+2
	})
}

// TestAnnounceMovesNoPin announces through the bridge itself.
func TestAnnounceMovesNoPin(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	kerneltest.Must(t, h.Announce(kerneltest.Soon(t), kerneltest.Guest, 0, "br0"))
	for _, p := range []*kerneltest.Port{l.PF, l.Tap, l.Peer} {
		p.Expect(t, rarp(kerneltest.Guest, 0))
	}
	pinnedTo(t, h, "pf0")
	toGuest := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "hello")
	l.Peer.Send(t, toGuest)
	l.PF.Expect(t, toGuest)
}

func TestAnnounceErrors(t *testing.T) {
	h := newHost(t)
	if err := h.Announce(kerneltest.Soon(t), kerneltest.Guest, 0, "nosuch"); !errors.Is(err, model.ErrGone) {
		t.Errorf("through an interface that is gone: %v, want model.ErrGone", err)
	}
	p := kerneltest.NewPort(t, "tap0", "")
	kerneltest.IP(t, "link set tap0 down")
	if err := h.Announce(kerneltest.Soon(t), kerneltest.Guest, 0, p.Name); err == nil {
		t.Error("through an interface that is down: no error")
	}
}

func TestRARP(t *testing.T) {
	plain, tagged := rarp(kerneltest.Guest, 0), rarp(kerneltest.Guest, 7)
	if len(plain) != 60 || len(tagged) != 60 {
		t.Errorf("lengths %d and %d, want the minimum of Ethernet", len(plain), len(tagged))
	}
	if model.MAC(plain[:6]) != kerneltest.Broadcast || model.MAC(plain[6:12]) != kerneltest.Guest {
		t.Errorf("from %x to %x", plain[6:12], plain[:6])
	}
	if string(plain[12:22]) != "\x80\x35\x00\x01\x08\x00\x06\x04\x00\x03" {
		t.Errorf("not a reverse request: %x", plain[12:22])
	}
	if string(tagged[12:18]) != "\x81\x00\x00\x07\x80\x35" || string(tagged[18:46]) != string(plain[14:42]) {
		t.Errorf("tagged: %x", tagged)
	}
}

// received returns how many packets an interface has received.
func received(t *testing.T, h *testHost, name string) uint64 {
	t.Helper()
	links, err := h.Links(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	for _, l := range links {
		if l.Name == name {
			return l.Counters.RxPackets
		}
	}
	return 0
}
