package whatif

import (
	"math"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/history"
	"sluice/internal/model"
)

const (
	idA = "00000000-0000-4000-8000-00000000000a"
	idB = "00000000-0000-4000-8000-00000000000b"
)

// hour is the history of two VMs and one VF: a is busy in the first half, b in the second.
func hour() *history.Past {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := &history.Past{
		Rules: model.Rules{Policy: "adaptive", Interval: time.Minute},
		Snapshot: &model.Snapshot{Time: at.Add(time.Hour), PFs: []model.PF{
			{Name: "pf0", Network: "br0", Managed: true, Speed: 10e9, NUMANode: -1, VFs: []model.VF{
				{ID: model.VFID{PF: "pf0"}, Owner: model.OwnerSluice, Holder: idA}, {ID: model.VFID{PF: "pf0", Index: 1}, Owner: model.OwnerForeign},
			}},
			{Name: "other", Network: "br0", VFs: make([]model.VF, 8)},
		}},
		Load: api.History{From: at, To: at.Add(time.Hour), Step: 10},
	}
	for i, id := range []model.VMID{idA, idB} {
		p.Snapshot.VMs = append(p.Snapshot.VMs, model.VM{
			ID: id, Name: string("ab"[i]), NUMANode: -1,
			NICs: []model.NIC{{Network: "br0", Failover: model.FailoverTeaming, VF: model.NoVF}},
		})
		v := api.VMHistory{Name: string("ab"[i]), ID: string(id)}
		for k := range 360 {
			busy := (k < 180) == (i == 0)
			pps := float32(1000)
			if busy {
				pps = 99000
			}
			v.Virtio, v.VF, v.Bytes = append(v.Virtio, pps), append(v.VF, 0), append(v.Bytes, 500*pps)
		}
		p.Load.VMs = append(p.Load.VMs, v)
	}
	return p
}

func compute(t *testing.T, p *history.Past) map[string]api.PolicyResult {
	t.Helper()
	list, err := Compute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]api.PolicyResult{}
	for i, r := range list {
		out[r.Policy] = r
		if i > 0 && r.Net > list[i-1].Net {
			t.Errorf("%s stands before %s, which is better", list[i-1].Policy, r.Policy)
		}
		if r.Net > r.Gross || r.Gross < 0 || r.Gross > 1 {
			t.Errorf("%+v makes no sense", r)
		}
	}
	return out
}

// If the load changes over once in the hour, a policy that follows it carries nearly everything with one or two moves.
func TestFollowsTheLoad(t *testing.T) {
	got := compute(t, hour())
	if r := got["adaptive"]; r.Gross < 0.9 || r.Net < 0.85 || r.Moves < 1 || r.Moves > 2 {
		t.Errorf("adaptive: %+v", r)
	}
	for _, name := range []string{"none", "random"} {
		if _, is := got[name]; is {
			t.Errorf("%s is compared", name)
		}
	}
}

// Pins apply: with a pinned, VFs carry what it moves, half of everything.
func TestRulesCount(t *testing.T) {
	p := hour()
	p.Rules.VMs = []model.VMRule{{Match: "a", Pin: true}}
	for _, r := range compute(t, p) {
		if math.Abs(r.Gross-0.5) > 0.01 || r.Moves != 0 {
			t.Errorf("%+v", r)
		}
	}
	p.Rules.VMs = []model.VMRule{{Match: "?", Forbid: true}}
	for _, r := range compute(t, p) {
		if r.Gross != 0 {
			t.Errorf("forbidden: %+v", r)
		}
	}
}

// If packets have different values, the comparison uses them too.
func TestWorthCounts(t *testing.T) {
	p := hour()
	p.Rules.VMs = []model.VMRule{{Match: "a", Sensitivity: model.SensitivityHigh}}
	p.Rules.Worth = model.Worth{Latency: 200}
	for name, r := range compute(t, p) {
		if policy := name == "adaptive" || name == "activity"; policy && (r.Moves != 0 || r.Gross < 0.99) {
			t.Errorf("a packet of a counts 200, so that a is worth the VF also when b is busy: %s %+v", name, r)
		}
	}
	p.Rules.VMs = nil
	p.Rules.Worth = model.Worth{CPU: true, Cost: model.PacketCost{Kilobyte: time.Microsecond}}
	for k := range p.Load.VMs[0].Bytes {
		p.Load.VMs[0].Bytes[k] *= 200 // 64 kB per packet dominate the value: b never costs as much
	}
	if r := compute(t, p)["adaptive"]; r.Gross < 0.98 {
		t.Errorf("by what virtio costs the host, a is worth the VF also when b is busy: %+v", r)
	}
}

// VFs held by others and PFs that are not listed are not shared out; the load of VMs that are gone still counts.
func TestTheHostCounts(t *testing.T) {
	p := hour()
	p.Snapshot.VMs = p.Snapshot.VMs[:1]
	if r := compute(t, p)["adaptive"]; r.Gross < 0.9 {
		t.Errorf("with b gone: %+v", r)
	}
	p.Snapshot.PFs[0].VFs[0].Owner = model.OwnerForeign
	if r := compute(t, p)["adaptive"]; r.Gross != 0 {
		t.Errorf("without VFs: %+v", r)
	}
	p.Snapshot.PFs[0].Managed = false
	if _, err := Compute(t.Context(), p); err == nil {
		t.Error("no PF is listed, and there is no error")
	}
}

// A VM that can have no VF on the real host gets none here either, but its load still counts.
func TestVMsWithoutANICForAVF(t *testing.T) {
	for name, change := range map[string]func(*model.NIC){
		"on a network without a managed PF": func(n *model.NIC) { n.Network = "br9" },
		"a function of a virtual PF":        func(n *model.NIC) { n.VirtualPF = "vpf0" },
	} {
		p := hour()
		change(&p.Snapshot.VMs[1].NICs[0])
		for policy, r := range compute(t, p) {
			if r.Gross > 0.51 || policy == "adaptive" && r.Gross < 0.49 { // a moves half of everything
				t.Errorf("b is %s: %+v", name, r)
			}
		}
	}
	p := hour()
	p.Snapshot.VMs[1].NICs = nil
	if r := compute(t, p)["adaptive"]; math.Abs(r.Gross-0.5) > 0.01 {
		t.Errorf("b has no NIC: %+v", r)
	}
}

// An unknown load is left out, not invented.
func TestUnknownLoads(t *testing.T) {
	p := hour()
	for i := range p.Load.VMs {
		for k := range 300 {
			p.Load.VMs[i].VF[k] = float32(math.NaN())
		}
	}
	if r := compute(t, p)["adaptive"]; r.Gross < 0.9 {
		t.Errorf("%+v", r)
	}
	for k := range 360 {
		p.Load.VMs[0].VF[k], p.Load.VMs[1].VF[k] = float32(math.NaN()), float32(math.NaN())
	}
	if _, err := Compute(t.Context(), p); err == nil {
		t.Error("nothing is known, and there is no error")
	}
}
