package tap

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// setPort sets a switch port and returns the result.
func setPort(t testing.TB, h *testHost, p model.SwitchPort) model.SwitchPortState {
	t.Helper()
	now, err := h.SetSwitchPort(kerneltest.Soon(t), p)
	kerneltest.Must(t, err)
	return now
}

// switchPorts lists the switch ports.
func switchPorts(t testing.TB, h *testHost) []model.SwitchPortState {
	t.Helper()
	all, err := h.SwitchPorts(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	return all
}

// tagged inserts a tag into a frame.
func tagged(frame []byte, etherType uint16, tci uint16) []byte {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, etherType), tci)
	return slices.Concat(frame[:12], tag, frame[12:])
}

func vlan(frame []byte, id uint16) []byte { return tagged(frame, 0x8100, id) }

// ofGuest is a port on tap0 with one rule for the guest.
func ofGuest(edit func(*model.SwitchRule)) model.SwitchPort {
	r := model.SwitchRule{MACs: []model.MAC{kerneltest.Guest}}
	edit(&r)
	return model.SwitchPort{Tap: "tap0", Rules: []model.SwitchRule{r}}
}

// crossing is a frame and what a switch port must turn it into.
type crossing struct {
	name string
	in   []byte
	out  []byte // nil: dropped
	want model.SwitchDrop
	none bool // counted by no rule
}

// crosses sends frames from one port and checks what leaves the other and what is counted.
func crosses(t *testing.T, h *testHost, from, to *kerneltest.Port, marker, markerOut []byte, all []crossing) {
	t.Helper()
	for _, c := range all {
		before := switchPorts(t, h)[0].Counts
		from.Send(t, c.in)
		if c.out != nil {
			to.Expect(t, c.out)
		}
		from.Send(t, marker)
		if got := to.Next(t); !slices.Equal(got, markerOut) {
			t.Errorf("%s: came out as %x", c.name, got)
			to.Expect(t, markerOut)
		}
		after := switchPorts(t, h)[0].Counts
		want := slices.Clone(before)
		at := &want[0]
		if c.none {
			at = &want[len(want)-1]
		}
		at.Spoof, at.VLAN, at.Rate = at.Spoof+c.want.Spoof, at.VLAN+c.want.VLAN, at.Rate+c.want.Rate
		if d := cmp.Diff(want, after); d != "" {
			t.Errorf("%s: counts (-want +got): %s", c.name, d)
		}
	}
}

var oneVLAN, oneSpoof = model.SwitchDrop{VLAN: 1}, model.SwitchDrop{Spoof: 1}

// TestSwitchPort checks that a guest's MACs and VLANs are enforced in both directions.
func TestSwitchPort(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	tap, out := kerneltest.NewPort(t, "tap0", "br0"), kerneltest.NewPort(t, "out0", "br0")
	up, spoofed, second := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "up"),
		kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "spoofed"), kerneltest.Frame(kerneltest.Stray, zeroed(3), "second MAC")
	down, all, foreign := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "down"),
		kerneltest.Frame(kerneltest.Broadcast, kerneltest.Other, "to all"), kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "foreign")
	ofBridges := func(dst ...byte) []byte { return kerneltest.Frame(model.MAC(dst), kerneltest.Guest, "of bridges") }
	type ways struct {
		rule                 func(*model.SwitchRule)
		upMarker, upOut      []byte
		downMarker, downSeen []byte
		up, down             []crossing
	}
	for name, c := range map[string]ways{
		"no VLAN": {
			rule:     func(r *model.SwitchRule) { r.MACs = append(r.MACs, zeroed(3)) },
			upMarker: up, upOut: up, downMarker: down, downSeen: down,
			up: []crossing{
				{"own MAC", up, up, model.SwitchDrop{}, false},
				{"second MAC", second, second, model.SwitchDrop{}, false},
				{"foreign MAC", spoofed, nil, oneSpoof, true},
				{"tag", vlan(up, 5), nil, oneVLAN, false},
				{"priority tag", vlan(up, 0x2000), nil, oneVLAN, false},
				{"service tag", tagged(up, 0x88a8, 5), nil, oneVLAN, false},
				{"older tag", tagged(up, 0x9100, 5), nil, oneVLAN, false},
				{"two tags", vlan(vlan(up, 6), 5), nil, oneVLAN, false},
				{"foreign MAC and tag", vlan(spoofed, 5), nil, oneSpoof, true},
				{"spanning tree", ofBridges(1, 0x80, 0xc2, 0, 0, 0), nil, oneSpoof, false},
				{"VLAN registration", ofBridges(1, 0x80, 0xc2, 0, 0, 0x21), nil, oneSpoof, false},
				{"spanning tree of a VLAN", ofBridges(1, 0, 0xc, 0xcc, 0xcc, 0xcd), nil, oneSpoof, false},
				{"a group behind those", ofBridges(1, 0x80, 0xc2, 0, 0, 0x30), ofBridges(1, 0x80, 0xc2, 0, 0, 0x30), model.SwitchDrop{}, false},
				{"another group", ofBridges(1, 0, 0x5e, 0, 0, 1), ofBridges(1, 0, 0x5e, 0, 0, 1), model.SwitchDrop{}, false},
			},
			down: []crossing{
				{"to it", down, down, model.SwitchDrop{}, false},
				{"to all", all, all, model.SwitchDrop{}, false},
				{"to somebody else", foreign, nil, model.SwitchDrop{}, false},
				{"tag", vlan(down, 5), nil, oneVLAN, false},
				{"priority tag", vlan(down, 0), nil, oneVLAN, false},
				{"to all in a VLAN", vlan(all, 5), nil, oneVLAN, true},
			},
		},
		"access": {
			rule:     func(r *model.SwitchRule) { r.VLAN = 10 },
			upMarker: up, upOut: vlan(up, 10), downMarker: vlan(down, 10), downSeen: down,
			up: []crossing{
				{"own MAC", up, vlan(up, 10), model.SwitchDrop{}, false},
				{"foreign MAC", spoofed, nil, oneSpoof, true},
				{"the VLAN's own tag", vlan(up, 10), nil, oneVLAN, false},
				{"another tag", vlan(up, 11), nil, oneVLAN, false},
				{"priority tag", vlan(up, 0), nil, oneVLAN, false},
				{"two tags", vlan(vlan(up, 11), 10), nil, oneVLAN, false},
			},
			down: []crossing{
				{"to it", vlan(down, 10), down, model.SwitchDrop{}, false},
				{"with priority", vlan(down, 10|7<<13), down, model.SwitchDrop{}, false},
				{"to all", vlan(all, 10), all, model.SwitchDrop{}, false},
				{"another VLAN", vlan(down, 11), nil, oneVLAN, false},
				{"to all in another VLAN", vlan(all, 11), nil, oneVLAN, true},
				{"no tag", down, nil, oneVLAN, false},
				{"service tag", tagged(down, 0x88a8, 10), nil, oneVLAN, false},
				{"two tags", vlan(vlan(down, 11), 10), nil, oneVLAN, false},
				{"to somebody else", vlan(foreign, 10), nil, model.SwitchDrop{}, false},
			},
		},
		"trunk": {
			rule:     func(r *model.SwitchRule) { r.Trunk = model.VLANs{{First: 10, Last: 20}, {First: 30, Last: 30}} },
			upMarker: vlan(up, 30), upOut: vlan(up, 30), downMarker: vlan(down, 30), downSeen: vlan(down, 30),
			up: []crossing{
				{"first", vlan(up, 10), vlan(up, 10), model.SwitchDrop{}, false},
				{"last", vlan(up, 20), vlan(up, 20), model.SwitchDrop{}, false},
				{"below", vlan(up, 9), nil, oneVLAN, false},
				{"between", vlan(up, 21), nil, oneVLAN, false},
				{"above", vlan(up, 31), nil, oneVLAN, false},
				{"no tag", up, nil, oneVLAN, false},
				{"priority tag", vlan(up, 0), nil, oneVLAN, false},
				{"two tags", vlan(vlan(up, 20), 10), nil, oneVLAN, false},
				{"foreign MAC", vlan(spoofed, 10), nil, oneSpoof, true},
			},
			down: []crossing{
				{"in it", vlan(down, 15), vlan(down, 15), model.SwitchDrop{}, false},
				{"to all", vlan(all, 15), vlan(all, 15), model.SwitchDrop{}, false},
				{"not in it", vlan(down, 29), nil, oneVLAN, false},
				{"to all not in it", vlan(all, 29), nil, oneVLAN, true},
				{"no tag", down, nil, oneVLAN, false},
			},
		},
		"no spoof check": {
			rule:     func(r *model.SwitchRule) { r.NoSpoofCheck, r.VLAN = true, 10 },
			upMarker: up, upOut: vlan(up, 10), downMarker: vlan(down, 10), downSeen: down,
			up: []crossing{
				{"foreign MAC", spoofed, vlan(spoofed, 10), model.SwitchDrop{}, false},
				{"foreign MAC and tag", vlan(spoofed, 10), nil, oneVLAN, false},
				{"spanning tree", ofBridges(1, 0, 0xc, 0xcc, 0xcc, 0xcd), vlan(ofBridges(1, 0, 0xc, 0xcc, 0xcc, 0xcd), 10), model.SwitchDrop{}, false},
			},
			down: []crossing{
				{"to somebody else", vlan(foreign, 10), foreign, model.SwitchDrop{}, false},
				{"to somebody else in another VLAN", vlan(foreign, 11), nil, oneVLAN, false},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kerneltest.Bridge(t, "link set dev tap0 learning off")
			kerneltest.Bridge(t, "link set dev out0 learning off")
			now := setPort(t, h, ofGuest(c.rule))
			if now.Detached != model.No || now.Index == 0 || len(now.Counts) != 2 {
				t.Fatalf("stands: %+v", now)
			}
			crosses(t, h, tap, out, c.upMarker, c.upOut, c.up)
			crosses(t, h, out, tap, c.downMarker, c.downSeen, c.down)
			kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
			noPolicies(t, h)
			tap.Send(t, spoofed)
			out.Expect(t, spoofed)
		})
	}
}

// zeroed is an address with the last byte n and the highest bits set elsewhere.
func zeroed(n byte) model.MAC { return model.MAC{0xfe, 0xff, 0xff, 0xff, 0xff, n} }

// TestSwitchPortState checks that a port is read back as set, that setting it again changes nothing, and that invalid ports are
// refused.
func TestSwitchPortState(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	want := ofGuest(func(r *model.SwitchRule) {
		r.Trunk = model.VLANs{{First: 1, Last: 4094}}
		r.Limit, r.Receive = model.Rate{Bits: 1e9}, model.Rate{Packets: 1000}
	})
	first := setPort(t, h, want)
	tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "untagged"))
	again := setPort(t, h, want)
	if d := cmp.Diff(want, again.SwitchPort); d != "" || again.Index != first.Index || again.Counts[0] != oneVLAN {
		t.Errorf("stands: %+v (-want +got): %s", again, d)
	}
	if all := switchPorts(t, h); len(all) != 1 || cmp.Diff(again, all[0]) != "" {
		t.Errorf("listed: %+v", all)
	}
	if all := policies(t, h); len(all) != 0 {
		t.Errorf("it is listed as a policy: %+v", all)
	}
	for name, edit := range map[string]func(*model.SwitchRule){
		"no MAC": func(r *model.SwitchRule) { r.MACs = nil }, "group": func(r *model.SwitchRule) { r.MACs[0] = kerneltest.Broadcast },
		"VLAN":  func(r *model.SwitchRule) { r.VLAN = 4095 },
		"both":  func(r *model.SwitchRule) { r.VLAN, r.Trunk = 1, model.VLANs{{First: 2, Last: 2}} },
		"range": func(r *model.SwitchRule) { r.Trunk = model.VLANs{{First: 5, Last: 4}} },
		"many":  func(r *model.SwitchRule) { r.MACs = make([]model.MAC, mostMACs+1) },
	} {
		if _, err := h.SetSwitchPort(kerneltest.Soon(t), ofGuest(edit)); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("%s: %v, want model.ErrPermanent", name, err)
		}
	}
	if _, err := h.SetSwitchPort(kerneltest.Soon(t), model.SwitchPort{Tap: "tap9", Rules: want.Rules}); !errors.Is(err, model.ErrGone) {
		t.Errorf("a tap that is not there: %v, want model.ErrGone", err)
	}
	kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap9"))
	for range 2 {
		kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
	}
	noPolicies(t, h)
}
