// Package edgetest provides a View with one of everything and a Backend that serves it, for tests of packages that present
// Views. Only tests import it.
package edgetest

import (
	"time"

	"sluice/internal/model"
)

// Now is the time of the View.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// View returns a host with two PFs and eight VMs: holders, non-holders, a pin, a veto, a manual release, a backoff, moves
// under way, pending and finished, and findings.
func View() *model.View {
	s := &model.Snapshot{Time: Now, PFs: pfs(), VMs: vms(), Problems: []model.Problem{
		{Subject: "pf1", Text: "its link is down: none of its VFs carries traffic", Remedy: "check the cable and the switch"},
	}}
	v := &model.View{
		Snapshot: s, Target: &model.Target{Time: Now, Reasons: reasons(s)}, Mode: model.ModeEnforce,
		Revision: 1000, Rules: rules(), Rounds: true, Overrides: []model.Override{{
			Kind: model.OverrideRelease, VM: ID(1), VMName: "batch-1", By: "alice", UID: 1000,
			At: Now.Add(-10 * time.Minute), Reason: "nightly run is over", Until: Now.Add(time.Hour),
		}},
		Totals: model.Totals{
			Ticks: 3600, Plugs: 20, Unplugs: 18, Failed: 1, FailedHour: 1, Retries: 4, PlugTime: 12800 * time.Millisecond,
			UnplugTime: 1008 * time.Millisecond,
		},
		Started: Now.Add(-time.Hour), Tick: 180 * time.Microsecond, Config: "/etc/sluice/sluice.yaml",
	}
	v.Bandwidth = bandwidth()
	v.Active, v.Pending, v.Recent = moves(v.Target.Reasons)
	v.Findings = []model.Finding{
		{Code: "stale-mac", Subject: "pf0/2", Text: "carries MAC 52:54:00:00:00:63, which no VM here has", Repair: []model.Step{
			{Kind: model.StepClearVF, VF: model.VFStep{ID: model.VFID{PF: "pf0", Index: 2}, Address: "0000:01:10.2"}},
		}},
		{Code: "foreign-driver", Subject: "pf0/3", Text: "bound to igbvf and in use by the host"},
	}
	return v
}

// ID returns the UUID of VM number n, counted from 1.
func ID(n byte) model.VMID {
	return model.VMID("00000000-0000-4000-8000-00000000000" + string('0'+n))
}

func rules() model.Rules {
	return model.Rules{Policy: "activity", Interval: 5 * time.Minute, VMs: []model.VMRule{
		{Match: string(ID(1)), Forbid: true, ByHand: true},
		{Match: "db", Pin: true, Class: "gold"},
		{Match: "web-*", Class: "web", Weight: 2},
	}}
}

func pfs() []model.PF {
	caps := model.Caps{MaxTxRate: model.Yes, MinTxRate: model.No, VFCounters: model.Yes, Trust: model.Yes}
	return []model.PF{
		{
			Name: "pf0", Index: 4, Address: "0000:01:00.0", Driver: "ixgbe", Network: "br0",
			Uplink: model.Uplink{Kind: "linux-bridge", Switch: "br0", Port: "pf0"}, NUMANode: 0, LinkUp: true,
			Speed: 10e9, NumVFs: 4, TotalVFs: 63, Caps: caps, Managed: true, VFs: []model.VF{
				vf("pf0", 0, model.OwnerSluice, ID(7)), vf("pf0", 1, model.OwnerSluice, ID(3)),
				vf("pf0", 2, model.OwnerFree, ""), vf("pf0", 3, model.OwnerForeign, ""),
			},
		},
		{
			Name: "pf1", Index: 5, Address: "0000:02:00.0", Driver: "igb", Network: "br1", NUMANode: -1,
			NumVFs: 1, TotalVFs: 7, VFs: []model.VF{vf("pf1", 0, model.OwnerForeign, ID(6))},
		},
	}
}

func vf(pf string, n int, owner model.Owner, holder model.VMID) model.VF {
	v := model.VF{
		ID: model.VFID{PF: pf, Index: n}, Driver: "vfio-pci", Owner: owner, Holder: holder, SpoofCheck: model.Yes, Trust: model.No,
		Address: model.PCIAddress("0000:0" + string(pf[2]+1) + ":10." + string('0'+byte(n))), InGuest: model.No,
	}
	if holder != "" {
		v.MAC, v.InGuest = mac(holder[len(holder)-1]-'0'), model.Yes
	}
	if owner == model.OwnerForeign && holder == "" {
		v.Driver, v.OwnerWhy = "igbvf", "in use by the host as ens1f0v3"
	}
	return v
}

func mac(n byte) model.MAC { return model.MAC{0x52, 0x54, 0, 0, 0, n} }

func vms() []model.VM {
	return []model.VM{
		vm(1, "batch-1", 900, model.NoVF),
		vm(2, "burst", 30000, model.NoVF),
		vm(3, "db", 12000, model.VFID{PF: "pf0", Index: 1}),
		vm(4, "legacy", 500, model.NoVF),
		blind(vm(5, "quiet", 0, model.NoVF)),
		foreign(vm(6, "router", 700, model.VFID{PF: "pf1"})),
		vm(7, "web-2", 250000, model.VFID{PF: "pf0", Index: 0}),
		vm(8, "web-10", 80000, model.NoVF),
	}
}

func vm(n byte, name string, pps float64, has model.VFID) model.VM {
	nic := model.NIC{
		Alias: "ua-net0", MAC: mac(n), Tap: "vnet" + string('0'+n), TapIndex: 10 + int(n), Network: "br0", Failover: model.FailoverTeaming,
		FreePort: model.Yes, LinkUp: model.Yes, VF: has, Virtio: traffic(pps, model.SourceTap, model.ProofKernel),
	}
	if has != model.NoVF {
		nic.Virtio, nic.VFPath, nic.VFOwner = traffic(2, model.SourceTap, model.ProofKernel), traffic(pps, model.SourcePF, model.ProofHardware),
			model.OwnerSluice
	}
	return model.VM{
		ID: ID(n), Name: name, State: model.VMRunning, Started: Now.Add(-time.Hour), Ready: model.Yes, NUMANode: -1,
		VCPUs: 2, NICs: []model.NIC{nic}, CPU: 0.25 * float64(n), CPUKnown: true,
	}
}

func foreign(v model.VM) model.VM {
	v.NICs[0].Network, v.NICs[0].VFOwner = "br1", model.OwnerForeign
	v.NICs[0].VFPath = traffic(700, model.SourceAgent, model.ProofGuest)
	v.NICs[0].VFPath.Waiting = 25_000
	return v
}

func blind(v model.VM) model.VM {
	v.NICs[0].Virtio = model.Traffic{Note: "one sample so far"}
	v.CPUKnown = false
	return v
}

func traffic(pps float64, from model.Source, proof model.Proof) model.Traffic {
	return model.Traffic{RxPPS: pps * 0.6, TxPPS: pps * 0.4, RxBytes: pps * 300, TxBytes: pps * 200, Source: from, Known: true, Proof: proof}
}

func reasons(s *model.Snapshot) []model.Reason {
	list := []model.Reason{
		{Code: model.CodeReleased, Detail: "`sluice unpin` gives it back to the policy"},
		{Code: model.CodeBackoff, Until: Now.Add(time.Minute), Detail: "attach failed 4 times: no free PCIe root port"},
		{Code: model.CodePinned, Hold: true},
		{Code: model.CodeVeto, Detail: "no failover: add <teaming type='persistent'/> to its interface, then stop and start it"},
		{Code: model.CodeBlind, Detail: "one sample so far"},
		{Code: model.CodeForeign, Hold: true},
		{Code: model.CodeRank, Hold: true, Policy: "activity", Score: 500000, Rank: 1, Slots: 2, Other: ID(8), OtherNm: "web-10", Price: 110000},
		{Code: model.CodeRank, Hold: true, Policy: "activity", Score: 160000, Rank: 2, Slots: 2},
	}
	for i := range list {
		list[i].VM = s.VMs[i].ID
	}
	return list
}

func moves(why []model.Reason) (active []model.MoveStatus, pending []model.Move, recent []model.MoveStatus) {
	free := model.VFID{PF: "pf0", Index: 2}
	web := model.Subject{VM: ID(8), VMName: "web-10"}
	plug := model.Move{Kind: model.MovePlug, VM: ID(8), VMName: "web-10", VF: free, Reason: why[7], Steps: []model.Step{
		{Kind: model.StepSetMAC, Subject: web, VF: model.VFStep{ID: free, MAC: mac(8)}},
		{Kind: model.StepAttach, Subject: web, Device: model.DeviceStep{VF: free, Address: "0000:01:10.2"}},
	}}
	unplug := model.Move{Kind: model.MoveUnplug, VM: ID(1), VMName: "batch-1", VF: free, Reason: why[0]}
	failed := model.Move{
		Kind: model.MovePlug, VM: ID(2), VMName: "burst", VF: free,
		Reason: model.Reason{Code: model.CodeRank, Hold: true, Policy: "activity", Rank: 2, Slots: 2, Score: 30000},
	}
	waits := model.Move{Kind: model.MoveRepair, VF: free, Steps: []model.Step{{Kind: model.StepClearVF, VF: model.VFStep{ID: free}}}}
	return []model.MoveStatus{{Move: plug, Step: 1, Try: 1, Started: Now.Add(-2 * time.Second)}},
		[]model.Move{waits},
		[]model.MoveStatus{
			{Move: unplug, Started: Now.Add(-9 * time.Second), Ended: Now.Add(-8 * time.Second)},
			{
				Move: failed, Step: 1, Try: 4, Started: Now.Add(-90 * time.Second), Ended: Now.Add(-60 * time.Second),
				Error: "attach burst pf0/2: no free PCIe root port",
			},
		}
}
