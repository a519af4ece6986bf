package browsertest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/history"
	"sluice/internal/edge/page"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// hostile are names that VMs may have: libvirt allows nearly everything.
var hostile = []string{
	`<img src=x onerror="window.pwned=1">`,
	`</script><script>window.pwned=1</script>`,
	"\u202etxt.exe\u202d\u0007",
	`" onmouseover="window.pwned=1" '`,
	strings.Repeat("long-", 40),
	"שלום-عالم-1",
	"`sluice drain` $(reboot); rm -rf /",
	"{{.}} ${alert(1)} %s %d \\",
}

// host is a daemon with made-up Views and a history of the last hour.
type host struct {
	back *edgetest.Backend
	past *history.Memory
	url  string
	n    int
	// asked is how long ago the loads ended that other policies were played with.
	asked time.Duration
	at    atomic.Int64 // ns since 1970; the server reads it while tests advance it
	stop  func()
}

func (h *host) now() time.Time { return time.Unix(0, h.at.Load()).UTC() }

func (h *host) pass(d time.Duration) { h.at.Add(int64(d)) }

// newHost returns a host with n VMs, the first of them with hostile names, and serves the page on a free port or on
// address.
func newHost(t testing.TB, n int, address string) *host {
	t.Helper()
	h := &host{back: edgetest.NewBackend(nil), past: history.New(), n: n}
	h.pass(edgetest.Now.Add(-30 * time.Minute).Sub(time.Unix(0, 0)))
	for h.now().Before(edgetest.Now) {
		h.past.Add(h.view())
		h.pass(10 * time.Second)
	}
	h.back.Show(h.view())
	h.serve(t, address)
	return h
}

func (h *host) serve(t testing.TB, address string) {
	t.Helper()
	s, err := server.New(server.Options{
		Backend: h.back, History: h.past, WhatIf: h, Version: "1.2.3", Listen: address,
		Page: page.Handler("1.2.3"), Now: h.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { h.stop() })
	h.url = "http://" + s.Addrs()[0].String()
}

// WhatIf implements server.WhatIf.
func (h *host) WhatIf(*model.View) api.WhatIf {
	return api.WhatIf{
		Age:  h.asked.Seconds(),
		From: edgetest.Now.Add(-time.Hour), To: edgetest.Now, Computed: edgetest.Now, Current: "activity",
		Policies: []api.PolicyResult{
			{Policy: "adaptive", Net: 0.81, Gross: 0.83, Moves: 120}, {Policy: "activity", Net: 0.62, Gross: 0.66, Moves: 400}, {Policy: "none"},
		},
	}
}

// next publishes the state of the host a second later.
func (h *host) next() {
	h.pass(time.Second)
	v := h.view()
	h.past.Add(v)
	h.back.Show(v)
}

func (h *host) name(i int) string {
	if i < len(hostile) {
		return hostile[i]
	}
	return fmt.Sprintf("web-%d", i)
}

func idOf(i int) model.VMID { return model.VMID(fmt.Sprintf("10000000-0000-4000-8000-%012d", i)) }

const vfs = 64

// view returns VMs some of which hold VFs in turn. It starts with edgetest's View, which has one of everything.
func (h *host) view() *model.View {
	v := edgetest.View()
	s := v.Snapshot
	s.Time = h.now()
	v.Revision = uint64(h.now().Unix())
	pf := model.PF{
		Name: "pf2", Address: "0000:03:00.0", Driver: "ixgbe", Network: "br0", LinkUp: true, Speed: 10e9, NumVFs: vfs,
		TotalVFs: vfs, Managed: true, Uplink: model.Uplink{Kind: "linux-bridge", Switch: "br0", Port: "pf2"},
	}
	holder := map[int]model.VFID{}
	turn := int(h.now().Sub(edgetest.Now.Add(-time.Hour)) / (7 * time.Minute))
	for i := range min(vfs, h.n/2) {
		id := model.VFID{PF: "pf2", Index: i}
		who := (i + turn) % h.n
		holder[who] = id
		pf.VFs = append(pf.VFs, model.VF{ID: id, Owner: model.OwnerSluice, Holder: idOf(who), InGuest: model.Yes, Driver: "vfio-pci"})
	}
	s.PFs = append(s.PFs, pf)
	for i := range h.n {
		pps := 20000 + 15000*math.Sin(float64(h.now().Unix())/300+float64(i))
		vm := model.VM{ID: idOf(i), Name: h.name(i), State: model.VMRunning, Ready: model.Yes, VCPUs: 2, NICs: []model.NIC{{
			Alias: "ua-net0", MAC: model.MAC{0x52, 0x54, 1, 0, byte(i >> 8), byte(i)}, Network: "br0", Failover: model.FailoverTeaming,
			FreePort: model.Yes, LinkUp: model.Yes,
			Tap: fmt.Sprintf("tap%d", i), Virtio: traffic(pps),
		}}}
		r := model.Reason{VM: vm.ID, Code: model.CodeOutranked, Policy: "adaptive", Score: pps, Price: 30000, Rank: i + 1, Slots: vfs}
		if i > 0 {
			r.Bursts = model.Bursts{High: 48.2, Low: 109.7, Seen: i}
		}
		if id, holds := holder[i]; holds {
			nic := &vm.NICs[0]
			nic.VF, nic.VFOwner, nic.Virtio, nic.VFPath = id, model.OwnerSluice, traffic(3), traffic(pps)
			r.Code, r.Hold, r.Other, r.OtherNm = model.CodeRank, true, idOf(0), h.name(0)
		}
		s.VMs = append(s.VMs, vm)
		v.Target.Reasons = append(v.Target.Reasons, r)
	}
	s.Problems = append(s.Problems, model.Problem{
		Subject: h.name(6), Text: "it has no free port: " + h.name(6),
		Remedy: "look at it with `sluice explain " + h.name(6) + "`, or `sluice doctor --offline`",
	})
	v.Bandwidth.NICs = append(v.Bandwidth.NICs, model.NICBandwidth{
		NICID: model.NICID{VM: idOf(0), NIC: "ua-net0"}, VMName: h.name(0), PF: "pf0", Path: model.PathVF,
		SLA:      model.SLA{Guarantee: model.Rate{Bits: 2e9}, Limit: model.Rate{Bits: 4e9}},
		Promised: model.Rate{Bits: 2e9}, Allowed: model.Rate{Bits: 3e9}, Sent: model.RateReading{Bits: 1.5e9, Proof: model.ProofKernel},
		Code: model.BandwidthShare, Why: "its share",
	})
	h.shortage(v)
	h.moves(v)
	return v
}

// shortage makes the first VM lack part of its guarantee on pf2, which the second takes.
func (h *host) shortage(v *model.View) {
	lacks, takes := v.Bandwidth.NICs[len(v.Bandwidth.NICs)-1], model.NICBandwidth{
		NICID: model.NICID{VM: idOf(1), NIC: "ua-net0"}, VMName: h.name(1), PF: "pf2", Path: model.PathVF, Takes: 7e9,
		Sent: model.RateReading{Bits: 7e9, Proof: model.ProofHardware}, Code: model.BandwidthNotEnforced,
		Why: "somebody else attached its VF; it takes 7Gbit/s while " + h.name(0) + " lacks 1Gbit/s", Remedy: "detach that VF",
	}
	lacks.NIC, lacks.PF, lacks.Short, lacks.Sent.Bits, lacks.Allowed = "ua-net1", "pf2", 1e9, 1e9, model.Rate{}
	lacks.Why, lacks.Remedy, lacks.ShortFor = "sends 1Gbit/s of the 2Gbit/s it is promised", takes.Remedy, 15*time.Second
	v.Bandwidth.NICs = append(v.Bandwidth.NICs, lacks, takes)
	v.Bandwidth.Links = append(v.Bandwidth.Links, model.LinkState{
		PF: "pf2", Speed: 10e9, Capacity: 8e9, Carries: model.Capacity{Bits: 10e9, Speed: 10e9}, Carried: 9.9e9, Guaranteed: model.Rate{Bits: 2e9},
		Shortage: &model.Shortage{
			Bits: 1e9, For: 15 * time.Second, Remedy: takes.Remedy, Text: h.name(0) + " lacks 1Gbit/s: " + h.name(1) + " takes 7Gbit/s",
			Takers: []model.Taker{{NICID: takes.NICID, VMName: h.name(1), Path: model.PathVF, Sent: 7e9, Beyond: 7e9, Remedy: takes.Remedy}},
		},
	})
}

func traffic(pps float64) model.Traffic {
	return model.Traffic{
		RxPPS: pps * 0.6, TxPPS: pps * 0.4, RxBytes: pps * 300, TxBytes: pps * 200, Source: model.SourceTap, Known: true,
		Proof: model.ProofKernel,
	}
}

// moves gives ended moves IDs and the times of their Steps.
func (h *host) moves(v *model.View) {
	for i := range v.Recent {
		m := &v.Recent[i]
		m.ID = uint64(len(v.Recent) - i)
		m.Times = []model.StepTime{
			{Kind: model.StepCheckVirtio, From: m.Started, To: m.Started.Add(20 * time.Millisecond), Tries: 1},
			{Kind: model.StepAttach, From: m.Started.Add(20 * time.Millisecond), To: m.Ended, Tries: max(1, m.Try), Error: m.Error},
		}
	}
	swap := model.MoveStatus{
		ID: 3, Move: model.Move{
			Kind: model.MovePlug, VM: idOf(0), VMName: h.name(0), VF: model.VFID{PF: "pf2", Index: 0},
			Reason: v.Target.Reasons[len(v.Target.Reasons)-1], Cause: model.Cause{Kind: model.CauseLinkUp, PF: "pf2"},
		}, Started: edgetest.Now.Add(-10 * time.Minute),
		Ended: edgetest.Now.Add(-10*time.Minute + 640*time.Millisecond),
	}
	v.Recent = append([]model.MoveStatus{swap}, v.Recent...)
	for i := range v.Active {
		v.Active[i].ID = uint64(10 + i)
	}
}
