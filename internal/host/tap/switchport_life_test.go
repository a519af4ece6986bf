package tap

import (
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

var access = ofGuest(func(r *model.SwitchRule) { r.VLAN = 10 })

// holdsTo10 checks that tap0 enforces MAC and VLAN of its guest.
func holdsTo10(t *testing.T, tap, out *kerneltest.Port) {
	t.Helper()
	good := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "good")
	tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "spoofed"))
	tap.Send(t, vlan(good, 11))
	tap.Send(t, good)
	out.Expect(t, vlan(good, 10))
	down := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "down")
	out.Send(t, down)
	out.Send(t, vlan(down, 11))
	out.Send(t, vlan(down, 10))
	tap.Expect(t, down)
}

// twoPorts returns tap0 and out0 of a bridge.
func twoPorts(t *testing.T) (tap, out *kerneltest.Port) {
	kerneltest.NewBridge(t, "br0")
	return kerneltest.NewPort(t, "tap0", "br0"), kerneltest.NewPort(t, "out0", "br0")
}

// TestSwitchPortBesideLimits adds and removes limits and rules of one tap in any order; each must stay when the other is removed.
func TestSwitchPortBesideLimits(t *testing.T) {
	plenty := PathRates{Contract: model.Rate{Bits: 1e9, Packets: 1e6}}
	limits := map[string]func(*Policy){
		"both ways": func(p *Policy) { p.Tx, p.Rx = plenty, plenty },
		"one way":   func(p *Policy) { p.Rx = plenty },
	}
	for name, limit := range limits {
		for _, first := range []string{"limit", "port"} {
			t.Run(name+", first the "+first, func(t *testing.T) {
				h := newHost(t)
				tap, out := twoPorts(t)
				if first == "limit" {
					update(t, h, "tap0", limit)
				}
				setPort(t, h, access)
				want := update(t, h, "tap0", limit)
				holdsTo10(t, tap, out)
				if all := policies(t, h); len(all) != 1 || all[0].Rx != want.Rx || all[0].Tx != want.Tx {
					t.Errorf("policies: %+v", all)
				}
				lift := func() {
					if first == "limit" {
						kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
					} else {
						update(t, h, "tap0", func(p *Policy) { p.Tx, p.Rx = PathRates{}, PathRates{} })
					}
				}
				lift()
				if all := policies(t, h); len(all) != 0 {
					t.Errorf("policies: %+v", all)
				}
				holdsTo10(t, tap, out)
				update(t, h, "tap0", limit)
				kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
				if all := policies(t, h); len(all) != 1 || all[0].Rx != want.Rx || all[0].Detached != model.No {
					t.Errorf("policies: %+v", all)
				}
				if got := h.taps.opened("tap0").attached(); got != want.wants() {
					t.Errorf("programs by direction: %v, want %v", got, want.wants())
				}
				spoofed := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "spoofed")
				tap.Send(t, spoofed)
				out.Expect(t, spoofed)
				lift()
				noPolicies(t, h)
			})
		}
	}
}

// TestSwitchPortIsLimited checks that a frame must pass both the limits of the tap and the rules.
func TestSwitchPortIsLimited(t *testing.T) {
	h := newHost(t)
	tap := kerneltest.NewPort(t, "tap0", "")
	setPort(t, h, access)
	update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = few })
	for range 50 {
		tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "spoofed"))
	}
	if d := policies(t, h)[0].TxDropped; d.Packets != 0 {
		t.Errorf("%d spoofed frames were charged", d.Packets)
	}
	send(t, tap, 100)
	if d := policies(t, h)[0].TxDropped; d.Packets < 80 || d.Bytes != 60*d.Packets {
		t.Errorf("dropped %+v, want all of 100 frames but the burst, as the guest sent them", d)
	}
	limited := policies(t, h)[0].TxDropped.Packets // attributed to the rule, as there is only one
	if c := switchPorts(t, h)[0].Counts; c[1].Spoof != 50 || c[0] != (model.SwitchDrop{Rate: limited}) {
		t.Errorf("counts %+v", c)
	}
	several := access
	several.Rules = append(slices.Clone(access.Rules), model.SwitchRule{MACs: []model.MAC{zeroed(3)}})
	if c := setPort(t, h, several).Counts; c[0].Rate != 0 || c[2].Rate != limited {
		t.Errorf("counts of several rules %+v", c)
	}
}

// TestSwitchPortAdopted checks that the next process finds a port with its counts, and changes and removes it. Its programs
// replace the earlier ones also when it limits the tap.
func TestSwitchPortAdopted(t *testing.T) {
	for _, how := range []string{"changed", "limited", "removed"} {
		t.Run(how, func(t *testing.T) {
			h := newHost(t)
			tap, out := twoPorts(t)
			first := setPort(t, h, access)
			tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "spoofed"))
			kerneltest.Must(t, h.taps.drop())
			holdsTo10(t, tap, out)
			next := newHostWith(t, options{BPFFS: h.taps.pins.BPFFS})
			want := first
			want.Counts = []model.SwitchDrop{{VLAN: 3}, {Spoof: 2}}
			if d := cmp.Diff([]model.SwitchPortState{want}, switchPorts(t, next)); d != "" {
				t.Fatal("found (-want +got):", d)
			}
			switch how {
			case "changed":
				changed := ofGuest(func(r *model.SwitchRule) { r.MACs[0] = kerneltest.Other })
				if now := setPort(t, next, changed); now.Counts[1].Spoof != 2 || cmp.Diff(changed.Rules, now.Rules) != "" {
					t.Errorf("stands %+v", now)
				}
				good := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "good now")
				tap.Send(t, kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "spoofed now"))
				tap.Send(t, good)
				out.Expect(t, good)
			case "limited":
				update(t, next, "tap0", func(p *Policy) { p.Tx.Contract = model.Rate{Packets: 1e6} })
				holdsTo10(t, tap, out)
				kerneltest.Must(t, next.RemoveTap(kerneltest.Soon(t), "tap0"))
				holdsTo10(t, tap, out)
			}
			kerneltest.Must(t, next.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
			noPolicies(t, next)
			if all := switchPorts(t, next); len(all) != 0 {
				t.Errorf("left: %+v", all)
			}
		})
	}
}

// TestSwitchPortOfTapThatIsGone checks that the port of a tap that has gone is reported and removed; a later tap of the same name
// has none.
func TestSwitchPortOfTapThatIsGone(t *testing.T) {
	for _, fresh := range []bool{false, true} { // the process that made the port, and the next one
		h := newHost(t)
		gone := func() {
			t.Helper()
			tap := kerneltest.NewPort(t, "tap0", "")
			setPort(t, h, access)
			kerneltest.Must(t, tap.Close())
			kerneltest.WaitFor(t, "the tap to go", func() bool {
				all := switchPorts(t, h)
				return len(all) == 1 && all[0].Detached == model.Yes
			})
			if fresh {
				kerneltest.Must(t, h.taps.drop())
			}
		}
		gone()
		kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
		noPolicies(t, h)
		gone()
		kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
		noPolicies(t, h)
		gone()
		tap := kerneltest.NewPort(t, "tap0", "")
		update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = few })
		if all := switchPorts(t, h); len(all) != 0 {
			t.Errorf("the new tap has the old one's port: %+v", all)
		}
		if now := setPort(t, h, access); now.Detached != model.No || now.Counts[0] != (model.SwitchDrop{}) {
			t.Errorf("stands %+v", now)
		}
		kerneltest.Must(t, tap.Close())
		kerneltest.WaitFor(t, "the tap to go", func() bool { return switchPorts(t, h)[0].Detached == model.Yes })
		if _, err := h.SetSwitchPort(kerneltest.Soon(t), access); !errors.Is(err, model.ErrGone) {
			t.Errorf("set: %v, want model.ErrGone", err)
		}
		noPolicies(t, h)
	}
}

// TestSwitchProgramTakenOff checks that a detached program is reported, and re-attached by the next SetSwitchPort or UpdateTap.
func TestSwitchProgramTakenOff(t *testing.T) {
	for name, put := range map[string]func(h *testHost){
		"set":   func(h *testHost) { setPort(t, h, access) },
		"limit": func(h *testHost) { update(t, h, "tap0", func(p *Policy) { p.Tx.Contract = model.Rate{Bits: 1e9} }) },
	} {
		for _, which := range [][]string{{"tap0_tx"}, {"tap0_rx"}, {"tap0_tx", "tap0_rx"}} {
			t.Run(name, func(t *testing.T) {
				h := newHost(t)
				tap, out := twoPorts(t)
				setPort(t, h, access)
				for _, pin := range which {
					theirs, err := link.LoadPinnedLink(h.taps.pins.Path(pin), nil)
					kerneltest.Must(t, err)
					kerneltest.Must(t, errors.Join(theirs.Detach(), theirs.Close()))
				}
				if all := switchPorts(t, h); len(all) != 1 || all[0].Detached != model.Yes {
					t.Errorf("listed %+v, want detached", all)
				}
				put(h)
				if all := switchPorts(t, h); len(all) != 1 || all[0].Detached != model.No {
					t.Errorf("listed %+v", all)
				}
				holdsTo10(t, tap, out)
				kerneltest.Must(t, h.RemoveTap(kerneltest.Soon(t), "tap0"))
				kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
				noPolicies(t, h)
			})
		}
	}
}

// TestSwitchPortOfAnotherVersion checks that a port whose rules this version cannot read stays enforced until it is set again.
func TestSwitchPortOfAnotherVersion(t *testing.T) {
	h := newHost(t)
	tap, out := twoPorts(t)
	setPort(t, h, access)
	theirs := h.taps.opened("tap0")
	rules, err := newRulesMap([]byte(`{"tap":"tap0","rules":[],"what_comes_later":true}`))
	kerneltest.Must(t, err)
	kerneltest.Must(t, theirs.port.rules.Close())
	theirs.port.rules = rules
	kerneltest.Must(t, h.taps.replace("tap0", theirs, [2]bool{true, true}))
	kerneltest.Must(t, h.taps.drop())
	next := newHostWith(t, options{BPFFS: h.taps.pins.BPFFS})
	unknown := func() {
		t.Helper()
		if all := switchPorts(t, next); len(all) != 1 || all[0].Tap != "tap0" || all[0].Detached != model.Unknown {
			t.Errorf("listed %+v", all)
		}
		holdsTo10(t, tap, out)
	}
	unknown()
	update(t, next, "tap0", func(p *Policy) { p.Tx.Contract.Bits = 1e9 })
	unknown()
	kerneltest.Must(t, next.RemoveTap(kerneltest.Soon(t), "tap0"))
	unknown()
	if now := setPort(t, next, access); now.Detached != model.No {
		t.Errorf("stands %+v", now)
	}
	holdsTo10(t, tap, out)
	kerneltest.Must(t, next.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
	noPolicies(t, next)
}
