package uplinktest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

// simulated is a PF that the kernel simulates in a bridge with a guest's tap.
type simulated struct {
	t   *testing.T
	nic kerneltest.SimulatedNIC
	k   *kernel.Host
	*bridge.Bridge
}

// find reads the PF as it is with so many VFs in a mode.
func (s simulated) find(mode model.EswitchMode, vfs int) model.PF {
	s.t.Helper()
	pf := model.PF{Name: s.nic.PF, Eswitch: mode, NumVFs: vfs}
	for i := range vfs {
		pf.VFs = append(pf.VFs, model.VF{ID: model.VFID{PF: s.nic.PF, Index: i}})
	}
	list, err := s.k.Links(kerneltest.Soon(s.t))
	kerneltest.Must(s.t, err)
	var links uplink.Links
	links.Index(list)
	links.ByName[s.nic.PF].Port = "p0" // netdevsim counts ports from 1, and PFs from 0
	uplink.Set{s.Bridge}.Find(&links, &pf)
	return pf
}

// represented brings up two VFs in mode switchdev, and fails the test unless both representors are found, one of them renamed.
func (s simulated) represented(as string) *model.PathStep {
	s.t.Helper()
	s.nic.SetVFs(s.t, 2)
	s.nic.Switchdev(s.t)
	kerneltest.IP(s.t, "link set "+s.nic.Port("pf0vf0")+" name "+as)
	pf := s.find(model.EswitchSwitchdev, 2)
	if !pf.Uplink.Representors || pf.Uplink.Why != "" || pf.VFs[0].Port != as || pf.VFs[1].Port == "" ||
		pf.VFs[1].Port != s.nic.Port("pf0vf1") {
		s.t.Fatalf("representors are %q and %q, uplink %+v", pf.VFs[0].Port, pf.VFs[1].Port, pf.Uplink)
	}
	return &model.PathStep{MAC: kerneltest.Guest, Tap: guestTap, Network: "br0", PF: s.nic.PF, Uplink: as, Kind: bridge.Kind, Representor: true}
}

// routed fails the test unless the bridge sends the guest's frames to a port, and no dual path is open.
func (s simulated) routed(to string) {
	s.t.Helper()
	routes, err := s.Routes(kerneltest.Soon(s.t))
	kerneltest.Must(s.t, err)
	if want := []model.Route{{Network: "br0", MAC: kerneltest.Guest, Port: to}}; !slices.Equal(routes, want) {
		s.t.Errorf("routes %+v, want %+v", routes, want)
	}
	if both, err := s.DualPaths(kerneltest.Soon(s.t)); err != nil || len(both) > 0 {
		s.t.Errorf("dual paths %+v, %v", both, err)
	}
}

// TestSimulatedNICLosesItsVFs: a PF in mode switchdev that loses its VFs falls back to mode legacy, and has no representors. A guest that
// was on a VF, or on its way there, gets its frames at its tap. When VFs come back, guests can use them, whatever the representors are
// called.
func TestSimulatedNICLosesItsVFs(t *testing.T) {
	nic := kerneltest.NewSimulatedNIC(t)
	kerneltest.NewBridge(t, "br0")
	tap, peer := kerneltest.NewPort(t, guestTap, "br0"), kerneltest.NewPort(t, otherTap, "br0")
	kerneltest.Quiet(t, nic.PF)
	kerneltest.IP(t, "link set "+nic.PF+" master br0 up")
	k := newKernel(t)
	s := simulated{t, nic, k, bridge.New(k)}
	for _, when := range []string{"move", "onVF"} {
		p := s.represented(when)
		_, err := s.ToBoth(kerneltest.Soon(t), p)
		kerneltest.Must(t, err)
		if when == "onVF" {
			kerneltest.Must(t, s.ToVF(kerneltest.Soon(t), p))
			kerneltest.Must(t, s.ToOne(kerneltest.Soon(t), p))
			s.routed(when)
		}
		s.nic.SetVFs(t, 0)

		if pf := s.find(model.EswitchLegacy, 0); pf.Uplink != (model.Uplink{Kind: bridge.Kind, Switch: "br0", Port: s.nic.PF}) {
			t.Errorf("%s: without VFs: %+v", when, pf.Uplink)
		}
		stale := s.find(model.EswitchSwitchdev, 2)
		if !strings.Contains(stale.Uplink.Why, "no interface of this network namespace represents") || stale.VFs[0].Port+stale.VFs[1].Port != "" {
			t.Errorf("%s: read before the VFs went: %+v, %+v", when, stale.Uplink, stale.VFs)
		}
		if err := s.ToVF(kerneltest.Soon(t), p); !errors.Is(err, model.ErrGone) {
			t.Errorf("%s: to a VF that is gone: %v", when, err)
		}
		if _, err := s.ToBoth(kerneltest.Soon(t), p); !errors.Is(err, model.ErrGone) {
			t.Errorf("%s: to tap and a VF that is gone: %v", when, err)
		}
		for range 2 {
			kerneltest.Must(t, s.ToTap(kerneltest.Soon(t), p))
			kerneltest.Must(t, s.ToOne(kerneltest.Soon(t), p))
			kerneltest.Must(t, s.Back(kerneltest.Soon(t), &model.PathStep{MAC: p.MAC, Tap: p.Tap, PF: p.PF, VirtioRoute: p.Uplink}))
		}
		s.routed(guestTap)
		frame := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, when)
		peer.Send(t, frame)
		tap.Expect(t, frame)

		p = s.represented(when + "again")
		kerneltest.Must(t, s.ToVF(kerneltest.Soon(t), p))
		s.routed(p.Uplink)
		kerneltest.Must(t, s.ToTap(kerneltest.Soon(t), p))
		s.nic.SetVFs(t, 0)
	}
}
