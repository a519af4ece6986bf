package tap

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// TestSwitchRates checks that each of several rules of a tap is limited separately, in both directions.
func TestSwitchRates(t *testing.T) {
	slow := model.Rate{Bits: minBits} // its burst is ten large frames
	for name, c := range map[string]struct {
		edit   func(*model.SwitchRule)
		toTap  bool
		length int
	}{
		"packets sent":     {func(r *model.SwitchRule) { r.Limit = few }, false, 60},
		"packets received": {func(r *model.SwitchRule) { r.Receive = few }, true, 60},
		"bits sent":        {func(r *model.SwitchRule) { r.Limit = slow }, false, 1514},
		"bits received":    {func(r *model.SwitchRule) { r.Receive = slow }, true, 1514},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			tap, out := twoPorts(t)
			kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Stray, 0, "out0")) // no flooding
			port := ofGuest(c.edit)
			port.Rules = append(port.Rules, model.SwitchRule{MACs: []model.MAC{kerneltest.Other}, VLAN: 10})
			setPort(t, h, port)
			const sent, atOnce = 100, 2 * minBurst
			for i := range sent {
				from, frame := tap, kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "limited")
				if c.toTap {
					from, frame = out, kerneltest.Frame(kerneltest.Guest, kerneltest.Stray, "limited")
				}
				from.Send(t, append(frame, make([]byte, c.length-60)...))
				if free := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "not limited"); !c.toTap && i%10 == 0 {
					tap.Send(t, free)
				}
			}
			now := switchPorts(t, h)[0].Counts
			if d := now[0].Rate; d < sent-atOnce || d >= sent {
				t.Errorf("%d of %d dropped, want all but a burst of about %d", d, sent, minBurst)
			}
			if now[1] != (model.SwitchDrop{}) || now[2] != (model.SwitchDrop{}) {
				t.Errorf("others: %+v", now[1:])
			}
			// Changing something else grants no new burst.
			port.Rules[1].VLAN = 11
			if after := setPort(t, h, port).Counts; after[0] != now[0] {
				t.Errorf("after a change: %+v, want %+v", after, now)
			}
			for range 50 {
				if c.toTap {
					out.Send(t, kerneltest.Frame(kerneltest.Guest, kerneltest.Stray, "limited"))
				} else {
					tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "limited"))
				}
			}
			if d := switchPorts(t, h)[0].Counts[0].Rate - now[0].Rate; d < 40 {
				t.Errorf("%d of 50 dropped after a change", d)
			}
		})
	}
}

// TestSwitchChangesUnderTraffic replaces rules, and adds and removes limits of the tap, under traffic: nothing may pass that both
// the old and the new rules reject.
func TestSwitchChangesUnderTraffic(t *testing.T) {
	h := newHost(t)
	ports := [2]*kerneltest.Port{kerneltest.NewPort(t, "tap0", ""), kerneltest.NewPort(t, "out0", "")}
	rules := [2]model.SwitchPort{access, ofGuest(func(r *model.SwitchRule) { r.MACs[0], r.VLAN = kerneltest.Other, 20 })}
	setPort(t, h, rules[0])
	joinPorts(t, h, "tap0", "out0")
	joinPorts(t, h, "out0", "tap0")
	var sent, received [][]byte
	for _, m := range []model.MAC{kerneltest.Guest, kerneltest.Other, kerneltest.Stray} {
		f := kerneltest.Frame(kerneltest.Stray, m, "up")
		sent = append(sent, f, vlan(f, 10), vlan(f, 20))
		received = append(received, kerneltest.Frame(m, kerneltest.Stray, "down"), vlan(kerneltest.Frame(m, kerneltest.Stray, "10"), 10),
			vlan(kerneltest.Frame(m, kerneltest.Stray, "20"), 20))
	}
	passing := [2]map[string]string{
		{
			string(vlan(kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "up"), 10)): "sent 10",
			string(vlan(kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "up"), 20)): "sent 20",
		},
		{
			string(kerneltest.Frame(kerneltest.Guest, kerneltest.Stray, "10")): "received 10",
			string(kerneltest.Frame(kerneltest.Other, kerneltest.Stray, "20")): "received 20",
		},
	}
	var changer sync.WaitGroup
	stop := make(chan struct{})
	changes := make(chan struct{}, 1)
	changer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := h.SetSwitchPort(kerneltest.Soon(t), rules[i%2]); err != nil {
				t.Error(err)
				return
			}
			var err error
			switch i % 3 {
			case 0:
				_, err = h.UpdateTap(kerneltest.Soon(t), "tap0", func(p *Policy) { p.Tx.Contract = model.Rate{Bits: 100e9} })
			case 1:
				err = h.RemoveTap(kerneltest.Soon(t), "tap0")
			}
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	})
	defer func() { close(stop); changer.Wait() }()
	seen := map[string]int{}
	for began := time.Now(); len(seen) < 4 || time.Since(began) < 2*time.Second; {
		if time.Since(began) > time.Minute {
			t.Fatalf("seen: %v", seen)
		}
		<-changes
		for range 10 {
			for dir, frames := range [][][]byte{sent, received} {
				for _, f := range frames {
					ports[dir].Send(t, f)
				}
				for f := ports[1-dir].Waiting(t); f != nil; f = ports[1-dir].Waiting(t) {
					k, ok := passing[dir][string(f)]
					if !ok {
						t.Fatalf("direction %d: out came %x", dir, f)
					}
					seen[k]++
				}
			}
		}
	}
	t.Log("frames that passed:", seen)
}

// TestSwitchLargeFrames checks that the rules apply to frames with a virtio header that are still to be segmented, and that each
// segment is tagged.
func TestSwitchLargeFrames(t *testing.T) {
	checked := ofGuest(func(r *model.SwitchRule) {
		r.VLAN, r.CheckARP, r.Addresses = 10, true, []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	})
	for name, port := range map[string]model.SwitchPort{"access": access, "with its address": checked} {
		t.Run(name, func(t *testing.T) { largeFrames(t, port) })
	}
}

func largeFrames(t *testing.T, port model.SwitchPort) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	tap, out := kerneltest.NewOffloadPort(t, "tap0", "br0"), kerneltest.NewPort(t, "out0", "br0")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Stray, 0, "out0"))
	setPort(t, h, port)
	const payload = 14480
	tap.Send(t, largeFrame(kerneltest.Stray, kerneltest.Other, payload, 1448))
	tap.Send(t, largeFrame(kerneltest.Stray, kerneltest.Guest, payload, 1448))
	for got := 0; got < payload; {
		f := out.Next(t)
		if !slices.Equal(f[6:12], kerneltest.Guest[:]) || !isTag(f[12:], 0x8100) || binary.BigEndian.Uint16(f[14:]) != 10 {
			t.Fatalf("came out: %x", f[:18])
		}
		got += len(f) - 66 - 4
	}
	if c := switchPorts(t, h)[0].Counts; c[1].Spoof != 1 || c[0] != (model.SwitchDrop{}) {
		t.Errorf("counts %+v", c)
	}
	down := vlan(kerneltest.Frame(kerneltest.Guest, kerneltest.Stray, "down"), 10)
	out.Send(t, down)
	if f := tap.Next(t); !slices.Equal(f[10:22], down[:12]) || isTag(f[22:], 0x8100) {
		t.Errorf("the guest received %x", f)
	}
}

// TestSwitchSeparates checks that, over a bridge without VLAN filtering, guests of one VLAN reach only each other, and an uplink
// carries all VLANs tagged.
func TestSwitchSeparates(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	up := kerneltest.NewPort(t, "up0", "br0")
	var taps []*kerneltest.Port
	macs := []model.MAC{kerneltest.Guest, kerneltest.Other, zeroed(3)}
	for i, id := range []int{10, 20, 10} {
		name := "tap" + string(rune('0'+i))
		taps = append(taps, kerneltest.NewPort(t, name, "br0"))
		setPort(t, h, model.SwitchPort{Tap: name, Rules: []model.SwitchRule{{MACs: macs[i : i+1], VLAN: id}}})
	}
	hello := func(i int) []byte { return kerneltest.Frame(kerneltest.Broadcast, macs[i], "hello") }
	for i, id := range []uint16{10, 20, 10} {
		taps[i].Send(t, hello(i))
		up.Expect(t, vlan(hello(i), id))
	}
	fromUp := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Stray, "from outside")
	up.Send(t, vlan(fromUp, 10))
	up.Send(t, vlan(fromUp, 20))
	up.Send(t, fromUp)
	unicast := kerneltest.Frame(macs[2], macs[0], "to the third")
	taps[0].Send(t, unicast)
	taps[1].Send(t, kerneltest.Frame(macs[2], macs[1], "from another VLAN"))
	for i, want := range [][][]byte{{hello(2), fromUp}, {fromUp}, {hello(0), fromUp, unicast}} {
		for _, f := range want {
			taps[i].Expect(t, f)
		}
		if f := taps[i].Waiting(t); f != nil {
			t.Errorf("tap%d received %x", i, f)
		}
	}
	if c := switchPorts(t, h)[2].Counts; c[0].VLAN != 1 || c[1].VLAN != 3 {
		t.Errorf("counts of the third: %+v", c)
	}
}

// TestSwitchPortIsShaped checks that frames pass through the shaper tagged, and leave it once.
func TestSwitchPortIsShaped(t *testing.T) {
	h := newHost(t)
	tap, out := twoPorts(t)
	ifb := smallTree(t, h)
	setPort(t, h, access)
	update(t, h, "tap0", func(p *Policy) { p.Shaper, p.Class = ifb, 1<<16|5 })
	holdsTo10(t, tap, out)
	if s := kerneltest.TC(t, "-s class show dev ifb9 classid 1:5"); !strings.Contains(s, " 1 pkt") {
		t.Errorf("the class has\n%s", s)
	}
	kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
	holdsTo10(t, tap, out)
	kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
	noPolicies(t, h)
}

// TestSwitchPortComesFirst checks that another program that ends processing with TCX_PASS lets no frame bypass the rules, in
// whichever order it, the rules and the tap's limits were set up. It must see the frames that pass, so a shaper is refused.
func TestSwitchPortComesFirst(t *testing.T) {
	const tcxPass = 0
	for _, first := range []string{"theirs", "limit, theirs", "theirs, limit", "port"} {
		t.Run(first, func(t *testing.T) {
			h := newHost(t)
			tap, out := twoPorts(t)
			ifb := smallTree(t, h)
			tapLink, err := h.Link(kerneltest.Soon(t), "tap0")
			kerneltest.Must(t, err)
			prog, seen := counting(t, ebpf.SchedCLS, tcxPass)
			attach := func() {
				l, err := link.AttachTCX(link.TCXOptions{Interface: tapLink.Index, Program: prog, Attach: ebpf.AttachTCXIngress})
				kerneltest.Must(t, err)
				t.Cleanup(func() { _ = l.Close() })
			}
			limit := func() { update(t, h, "tap0", func(p *Policy) { p.Tx.Contract.Bits = 1e9 }) }
			order := strings.Split(first, ", ")
			for _, what := range order {
				switch what {
				case "theirs":
					attach()
				case "limit":
					limit()
				case "port":
					setPort(t, h, access)
					attach()
				}
			}
			setPort(t, h, access)
			holdsTo10(t, tap, out)
			limit()
			holdsTo10(t, tap, out)
			if n := seen(); n != 2 {
				t.Errorf("theirs saw %d frames, want the 2 that passed", n)
			}
			_, err = h.UpdateTap(kerneltest.Soon(t), "tap0", func(p *Policy) { p.Shaper, p.Class = ifb, 1<<16|5 })
			if !errors.Is(err, model.ErrPermanent) {
				t.Errorf("a shaper: %v, want model.ErrPermanent", err)
			}
			holdsTo10(t, tap, out)
		})
	}
}
