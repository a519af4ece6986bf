package actuate

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// limited is a host whose vm1 has VF 0, with the Snapshot of it.
func limitedHost() (*fakeHost, *model.Snapshot) {
	f := newFakeHost(2)
	f.vms[0].Hostdevs = []libvirt.Hostdev{{Alias: model.PassthroughAlias(mac(1)), Address: addr(0)}}
	vf := model.VFID{PF: "pf0"}
	return f, &model.Snapshot{
		PFs: []model.PF{{
			Name: "pf0", Network: "br0", Managed: true, Caps: model.Caps{MaxTxRate: model.Yes},
			VFs: []model.VF{{ID: vf, Address: addr(0)}, {ID: model.VFID{PF: "pf0", Index: 1}, Address: addr(1)}},
		}},
		VMs: []model.VM{
			{ID: id(1), NICs: []model.NIC{{Alias: "ua-net0", MAC: mac(1), VF: vf, Network: "br0"}}},
			{ID: id(2), NICs: []model.NIC{{Alias: "ua-net0", MAC: mac(2), Network: "br0"}}},
		},
	}
}

func limitOf(n int, bits uint64) model.Limit {
	return model.Limit{LimitKey: model.LimitKey{VM: id(n), NIC: "ua-net0", Path: model.PathVF, Dir: model.Tx}, Rate: model.Rate{Bits: bits}}
}

func TestLimits(t *testing.T) {
	f, snap := limitedHost()
	l := New(f, f.uplinks(), f, nil).Limits()
	for _, bits := range []uint64{1_000_400_000, 0} {
		now, err := l.Apply(context.Background(), snap, []model.Limit{limitOf(2, 5e9), limitOf(1, bits)})
		want := model.WholeMbit(bits)
		if err == nil || len(now) != 1 || now[0] != limitOf(1, want) || f.vfs[0].set.MaxTxRate != want {
			t.Errorf("%d bit/s: VF has %d, applied %v, error %v; want an error about vm2 only", bits, f.vfs[0].set.MaxTxRate, now, err)
		}
	}
	if f.vfs[1].set.MaxTxRate != 0 {
		t.Error("another VF was limited")
	}
}

// The NIC provides a guarantee if it can; otherwise the result does not claim it.
func TestLimitsGuarantee(t *testing.T) {
	for _, c := range []struct {
		caps  model.Tri
		noMin bool
		want  uint64
	}{{model.Yes, false, 2e9}, {model.Yes, true, 0}, {model.No, false, 0}, {model.Unknown, false, 0}} {
		f, snap := limitedHost()
		f.noMin = c.noMin
		snap.PFs[0].Caps.MinTxRate = c.caps
		l := limitOf(1, 5e9)
		l.Guarantee = 2e9
		now, err := New(f, f.uplinks(), f, nil).Limits().Apply(context.Background(), snap, []model.Limit{l})
		if err != nil || len(now) != 1 || now[0].Guarantee != c.want || now[0].Bits != 5e9 || f.vfs[0].min != c.want ||
			f.vfs[0].set.MaxTxRate != 5e9 {
			t.Errorf("%+v: applied %+v, %v; VF has %d", c, now, err, f.vfs[0].min)
		}
	}
}

// The Snapshot may be out of date: another VM has the VF by now, or none.
func TestLimitsLeaveOthersVFsAlone(t *testing.T) {
	for name, spoil := range map[string]func(*fakeHost){
		"released":              func(f *fakeHost) { f.vms[0].Hostdevs = nil },
		"another VM's":          func(f *fakeHost) { f.vms[0].Hostdevs, f.vms[1].Hostdevs = nil, f.vms[0].Hostdevs },
		"attached by hand here": func(f *fakeHost) { f.vms[0].Hostdevs[0].Alias = "hostdev0" },
	} {
		f, snap := limitedHost()
		spoil(f)
		now, err := New(f, f.uplinks(), f, nil).Limits().Apply(context.Background(), snap, []model.Limit{limitOf(1, 1e9)})
		if err == nil || len(now) != 0 || f.vfs[0].set.MaxTxRate != 0 {
			t.Errorf("%s: applied %v, error %v, VF has %d", name, now, err, f.vfs[0].set.MaxTxRate)
		}
	}
}

func TestCanLimit(t *testing.T) {
	f, snap := limitedHost()
	l := New(f, f.uplinks(), f, nil).Limits()
	virtio, rx := limitOf(1, 0).LimitKey, limitOf(1, 0).LimitKey
	virtio.Path, rx.Dir = model.PathVirtio, model.Rx
	for _, c := range []struct {
		key  model.LimitKey
		caps model.Tri
		want model.Tri
	}{
		{limitOf(1, 0).LimitKey, model.Yes, model.Yes},
		{limitOf(1, 0).LimitKey, model.No, model.No},
		{limitOf(1, 0).LimitKey, model.Unknown, model.Unknown},
		{limitOf(2, 0).LimitKey, model.Yes, model.Unknown},
		{limitOf(2, 0).LimitKey, model.No, model.No}, // no VF that it could get supports limits
		{limitOf(3, 0).LimitKey, model.Yes, model.No},
		{virtio, model.Yes, model.No},
		{rx, model.Yes, model.No},
	} {
		snap.PFs[0].Caps.MaxTxRate = c.caps
		if got := l.Can(snap, c.key); got != c.want {
			t.Errorf("%+v where the PF says %s: %s, want %s", c.key, c.caps, got, c.want)
		}
	}
}

// Packets/s are limited at the VF's representor where that has been proved, from the plug on until the VF is released.
func TestLimitsInPackets(t *testing.T) {
	f, snap := limitedHost()
	a := New(f, f.uplinks(), f, nil)
	both := limitOf(1, 5e9)
	both.Packets, both.Contract = 9000, model.Rate{Packets: 5000}
	apply := func(l model.Limit) (model.Rate, error) {
		now, err := a.Limits().Apply(t.Context(), snap, []model.Limit{l})
		if len(now) == 0 {
			return model.Rate{}, err
		}
		return now[0].Rate, err
	}
	at := func() uint64 { return f.policed["rep0"].Contract.Packets }
	vf := &snap.PFs[0].VFs[0]
	vf.Port = "rep0"
	if got, err := apply(both); err != nil || got != (model.Rate{Bits: 5e9}) || at() != 0 {
		t.Errorf("not proved: applied %v, %v, at the representor %d", got, err, at())
	}
	snap.PFs[0].Caps.VFPackets = model.Yes
	if got, err := apply(both); err != nil || got != (model.Rate{Bits: 5e9, Packets: 5000}) || at() != 5000 {
		t.Errorf("applied %v, %v, at the representor %d", got, err, at())
	}
	f.fail["UpdateTap"] = errors.New("no TCX")
	if got, err := apply(both); err == nil || got != (model.Rate{}) {
		t.Errorf("that fails: applied %v, %v", got, err)
	}
	delete(f.fail, "UpdateTap")
	snap.PFs[0].Caps.VFPackets, vf.MaxPackets = model.Unknown, 5000 // the report does not count any more
	if _, err := apply(both); err != nil || at() != 0 {
		t.Errorf("no longer proved: %v, at the representor %d", err, at())
	}
	snap.PFs[0].Caps.VFPackets, vf.Port = model.Yes, ""
	if _, err := apply(both); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("without a representor: %v", err)
	}
	f.vms[0].Hostdevs = nil
	step := model.Step{Kind: model.StepSetVF, Subject: model.Subject{VM: id(1)}, VF: model.VFStep{ID: vf.ID, Address: addr(0), MAC: mac(1)}}
	step.VF.Port, step.VF.MaxPackets, step.VF.MaxTxRate, step.VF.MinTxRate = "rep0", 7000, 2e9, 1e9
	if err := a.Do(t.Context(), step); err != nil || at() != 7000 {
		t.Errorf("set-vf: %v, at the representor %d", err, at())
	}
	if s := f.vfs[0].set; s.MaxTxRate != 2e9 || s.MinTxRate != 1e9 {
		t.Errorf("set-vf sets %+v", s)
	}
	step.Kind, step.VF.MaxPackets = model.StepClearVF, 0
	f.fail["UpdateTap"] = fmt.Errorf("representor: %w", model.ErrGone)
	if err := a.Do(t.Context(), step); err != nil {
		t.Errorf("clear-vf without a representor: %v", err)
	}
	delete(f.fail, "UpdateTap")
	if err := a.Do(t.Context(), step); err != nil || at() != 0 {
		t.Errorf("clear-vf: %v, at the representor %d", err, at())
	}
}
