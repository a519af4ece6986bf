package vf

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// fakePF simulates a PF's driver: its VFs, and what it refuses. It accepts the same messages as the kernel.
type fakePF struct {
	vfs     []vfState
	refuse  map[uint16]unix.Errno            // by attribute
	zeroMAC error                            // refusal of the zero MAC
	deaf    bool                             // accepts everything and does nothing
	zeroTo  model.MAC                        // what it turns the zero MAC into
	rates   func(*fakePF, []byte) unix.Errno // refuses rates
	changes []string
}

func (f *fakePF) vfStates(_ context.Context, pf string, _ uint32) ([]vfState, error) {
	if pf != "pf0" {
		return nil, sysif.Fail("read VFs of", pf, unix.ENODEV)
	}
	return decodeVFs(pfAnswer(f.vfs...))
}

func (f *fakePF) changeVF(_ context.Context, _ string, idx int, c vfChange) error {
	f.changes = append(f.changes, c.what)
	if errno := f.refuse[c.attr]; errno != 0 {
		return errno
	}
	v := &f.vfs[idx]
	if f.deaf {
		return nil
	}
	switch c.attr {
	case unix.IFLA_VF_MAC:
		m := model.MAC(c.value[:6])
		if m.IsZero() && f.zeroMAC != nil {
			return f.zeroMAC
		}
		if m.IsZero() {
			m = f.zeroTo
		}
		v.MAC = m
	case unix.IFLA_VF_VLAN:
		v.VLAN = int(rtnl.U32(c.value))
	case unix.IFLA_VF_SPOOFCHK:
		v.SpoofCheck = model.TriOf(rtnl.U32(c.value) != 0)
	case unix.IFLA_VF_TRUST:
		v.Trust = model.TriOf(rtnl.U32(c.value) != 0)
	case unix.IFLA_VF_RATE:
		if f.rates != nil && f.rates(f, c.value) != 0 {
			return f.rates(f, c.value)
		}
		v.MinTxRate, v.MaxTxRate = uint64(rtnl.U32(c.value))*netdev.Mbit, uint64(rtnl.U32(c.value[4:]))*netdev.Mbit
	}
	return nil
}

// edit prepares an edit as Functions.editVF does.
func (f *fakePF) edit(t *testing.T, driver string, idx int) *vfEdit {
	t.Helper()
	e := &vfEdit{io: f, pf: "pf0", pfMAC: kerneltest.MAC("a0:36:9f:00:00:01"), idx: idx, driver: driver}
	e.caps, _ = capsOf(driver, "0x10c9", 0)
	var err error
	e.before, err = e.state(t.Context())
	kerneltest.Must(t, err)
	return e
}

// used returns a driver whose VF 1 still has the settings of its last holder.
func used() *fakePF {
	return &fakePF{vfs: []vfState{
		{Index: 0, MAC: kerneltest.Other, SpoofCheck: model.Yes, Trust: model.No},
		{Index: 1, MAC: kerneltest.Guest, VLAN: 7, MinTxRate: 1e8, MaxTxRate: 1e9, SpoofCheck: model.No, Trust: model.Yes},
	}}
}

var clean = vfState{Index: 1, SpoofCheck: model.Yes, Trust: model.No}

func TestClearVF(t *testing.T) {
	f := used()
	note, err := f.edit(t, "ice", 1).clear(t.Context())
	if err != nil || note != "" || f.vfs[1] != clean {
		t.Errorf("cleared to %+v, note %q, error %v", f.vfs[1], note, err)
	}
	if f.vfs[0].MAC != kerneltest.Other {
		t.Errorf("the neighbour was touched: %+v", f.vfs[0])
	}
	f.changes = nil
	if _, err := f.edit(t, "ice", 1).clear(t.Context()); err != nil || len(f.changes) != 0 {
		t.Errorf("clearing again changed %q, error %v", f.changes, err)
	}
}

// TestClearVFOfDriverWithoutZeroMAC tests the behaviour of qede and others.
func TestClearVFOfDriverWithoutZeroMAC(t *testing.T) {
	f := used()
	f.zeroMAC = unix.EINVAL
	e := f.edit(t, "qede", 1)
	note, err := e.clear(t.Context())
	want := clean
	want.MAC = parkedMAC(e.pfMAC, 1)
	if err != nil || f.vfs[1] != want || !strings.Contains(note, want.MAC.String()) {
		t.Errorf("cleared to %+v, note %q, error %v; want it parked on %s and told", f.vfs[1], note, err, want.MAC)
	}
	f.changes = nil
	if note, err := f.edit(t, "qede", 1).clear(t.Context()); err != nil || note != "" || len(f.changes) != 0 {
		t.Errorf("clearing again changed %q, note %q, error %v", f.changes, note, err)
	}
}

func TestClearVFThatKeepsTheMAC(t *testing.T) {
	f := used()
	f.refuse = map[uint16]unix.Errno{unix.IFLA_VF_MAC: unix.EBUSY}
	_, err := f.edit(t, "ice", 1).clear(t.Context())
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "ip link set pf0 vf 1 mac") {
		t.Errorf("error %v, want EBUSY and the remedy", err)
	}
	if f.vfs[1].VLAN != 0 || f.vfs[1].Trust != model.No {
		t.Errorf("after the failure nothing else was cleared: %+v", f.vfs[1])
	}

	f = used()
	f.deaf = true
	if _, err := f.edit(t, "ice", 1).clear(t.Context()); err == nil || !strings.Contains(err.Error(), "still shows") {
		t.Errorf("error %v, want one that says that the driver did nothing", err)
	}
}

func TestClearVFOfDriverThatInventsAMAC(t *testing.T) {
	f := used()
	f.zeroTo = kerneltest.MAC("02:00:00:00:00:77")
	note, err := f.edit(t, "ice", 1).clear(t.Context())
	if err != nil || !strings.Contains(note, "02:00:00:00:00:77") {
		t.Errorf("note %q, error %v; want the address told", note, err)
	}
}

func TestSetVF(t *testing.T) {
	for name, c := range map[string]struct {
		driver string
		refuse map[uint16]unix.Errno
		set    Settings
		note   string // part of it
		err    error
	}{
		"all":                 {driver: "ice", set: Settings{VLAN: 5, SpoofCheck: true, MaxTxRate: 3e9, MinTxRate: 2e9}},
		"all but a guarantee": {driver: "ice", set: Settings{VLAN: 5, SpoofCheck: true, MaxTxRate: 3e9}},
		"no rates, none wanted": {
			driver: "sfc", refuse: map[uint16]unix.Errno{unix.IFLA_VF_TRUST: unix.EOPNOTSUPP, unix.IFLA_VF_RATE: unix.EOPNOTSUPP},
			set: Settings{SpoofCheck: true}, note: "does not support",
		},
		"rate where the table says no": {
			driver: "sfc", refuse: map[uint16]unix.Errno{unix.IFLA_VF_RATE: unix.EINVAL},
			set: Settings{MaxTxRate: 1e9}, note: "driver sfc does not support rate",
		},
		"unknown driver refuses a rate": {
			driver: "brandnew", refuse: map[uint16]unix.Errno{unix.IFLA_VF_RATE: unix.EINVAL},
			set: Settings{MaxTxRate: 2e9}, note: "does not support rate",
		},
		"igb with the link down": {
			driver: "igb", refuse: map[uint16]unix.Errno{unix.IFLA_VF_RATE: unix.EINVAL},
			set: Settings{MaxTxRate: 2e9}, err: unix.EINVAL,
		},
		"VLAN refused": {
			driver: "ice", refuse: map[uint16]unix.Errno{unix.IFLA_VF_VLAN: unix.EPERM},
			set: Settings{VLAN: 5}, err: unix.EPERM,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := used()
			f.refuse = c.refuse
			e := f.edit(t, c.driver, 1)
			note, err := e.apply(t.Context(), c.set.traits(e.caps))
			if !errors.Is(err, c.err) || !strings.Contains(note, c.note) || (c.note == "") != (note == "") {
				t.Fatalf("note %q, error %v; want %q, %v", note, err, c.note, c.err)
			}
			if v := f.vfs[1]; len(c.refuse) == 0 && (v.VLAN != c.set.VLAN || v.MaxTxRate != c.set.MaxTxRate ||
				v.MinTxRate != c.set.MinTxRate || v.Trust != model.No ||
				v.MAC != kerneltest.Guest) {
				t.Errorf("set to %+v", v)
			}
		})
	}
}

func TestSetVFReadsBack(t *testing.T) {
	f := used()
	f.deaf = true
	e := f.edit(t, "ice", 1)
	_, err := e.apply(t.Context(), Settings{VLAN: 5}.traits(e.caps))
	if err == nil || !strings.Contains(err.Error(), "accepted it but does not show") {
		t.Errorf("error %v, want one that says that the driver did nothing", err)
	}
}

func TestSetVFRates(t *testing.T) {
	full := func(_ *fakePF, c []byte) unix.Errno { // the guarantees exceed the link speed
		if rtnl.U32(c) > 1000 {
			return unix.EINVAL
		}
		return 0
	}
	backwards := func(_ *fakePF, c []byte) unix.Errno {
		if most := rtnl.U32(c[4:]); most != 0 && rtnl.U32(c) > most {
			return unix.EINVAL
		}
		return 0
	}
	for _, c := range []struct {
		name, driver string
		refuse       func(*fakePF, []byte) unix.Errno
		want, now    Rates
		fails        bool
	}{
		{"both", "ice", backwards, Rates{2_000_400_000, 5e8}, Rates{2e9, 5e8}, false},
		{"promised more than allowed", "ice", backwards, Rates{1_000_400_000, 2e9}, Rates{1e9, 1e9}, false},
		{"promised and not limited", "ice", backwards, Rates{0, 2e9}, Rates{0, 2e9}, false},
		{"more promised than there is", "ice", full, Rates{3e9, 2e9}, Rates{3e9, 0}, false},
		{"driver without minimum", "igb", backwards, Rates{3e9, 2e9}, Rates{3e9, 0}, false},
		{"lifted", "ice", backwards, Rates{}, Rates{}, false},
		{"refused", "ice", func(*fakePF, []byte) unix.Errno { return unix.EBUSY }, Rates{3e9, 2e9}, Rates{1e9, 1e8}, true},
	} {
		f := used()
		f.rates = c.refuse
		now, err := f.edit(t, c.driver, 1).setRates(t.Context(), c.want)
		if now != c.now || (err != nil) != c.fails || f.vfs[1].MaxTxRate != c.now.Max || f.vfs[1].MinTxRate != c.now.Min {
			t.Errorf("%s: %+v, %v; want %+v", c.name, now, err, c.now)
		}
		if f.vfs[1].MAC != kerneltest.Guest || f.vfs[1].VLAN != 7 {
			t.Errorf("%s: something else changed: %+v", c.name, f.vfs[1])
		}
	}
}

// TestSetVFWithoutReadBack tests a driver that does not report spoof check and trust.
func TestSetVFWithoutReadBack(t *testing.T) {
	f := &fakePF{vfs: []vfState{{}}, refuse: map[uint16]unix.Errno{
		unix.IFLA_VF_SPOOFCHK: unix.EOPNOTSUPP,
		unix.IFLA_VF_TRUST:    unix.EOPNOTSUPP,
	}}
	e := f.edit(t, "brandnew", 0)
	note, err := e.apply(t.Context(), Settings{SpoofCheck: true}.traits(e.caps))
	if err != nil || !strings.Contains(note, "spoofchk") || strings.Contains(note, "trust") {
		t.Errorf("note %q, error %v; want told that spoof check is not on, but not that trust is not off", note, err)
	}
}

func TestVFThatIsNotThere(t *testing.T) {
	e := &vfEdit{io: used(), pf: "pf0", idx: 9}
	if _, err := e.state(t.Context()); !errors.Is(err, model.ErrGone) {
		t.Errorf("VF 9 of 2: %v, want model.ErrGone", err)
	}
	h := newHost(t)
	if _, err := h.ClearVF(kerneltest.Soon(t), "nosuch", 0); !errors.Is(err, model.ErrGone) {
		t.Errorf("VF of a PF that is gone: %v, want model.ErrGone", err)
	}
	if err := h.SetVFMAC(kerneltest.Soon(t), "lo", 0, kerneltest.Guest); !errors.Is(err, model.ErrGone) {
		t.Errorf("VF of what is no PF: %v, want model.ErrGone", err)
	}
	for _, m := range []model.MAC{kerneltest.NoMAC, kerneltest.Broadcast} {
		if err := h.SetVFMAC(kerneltest.Soon(t), "lo", 0, m); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("MAC %s: %v, want model.ErrPermanent", m, err)
		}
	}
}
