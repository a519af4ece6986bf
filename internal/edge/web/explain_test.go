package web_test

import (
	"testing"
	"time"

	"sluice/internal/edge/web"
	"sluice/internal/model"
)

// A VM's sentence is about the NIC that its Reason names; each NIC that may have a VF says why.
func TestExplainSeveralNICs(t *testing.T) {
	nic := func(alias string, vf model.VFID) model.NIC {
		return model.NIC{Alias: alias, Network: "br0", Failover: model.FailoverTeaming, VF: vf}
	}
	vf := model.VFID{PF: "pf0", Index: 1}
	v := &model.View{
		Snapshot: &model.Snapshot{Time: time.Unix(1, 0), VMs: []model.VM{
			{ID: "a", Name: "db", State: model.VMRunning, NICs: []model.NIC{nic("mgmt", model.NoVF), nic("ua-0", vf), nic("ua-1", model.NoVF)}},
		}},
		Target: &model.Target{
			Reasons: []model.Reason{{VM: "a", NIC: "ua-1", Hold: true, Code: model.CodePinned}},
			NICs: []model.Reason{
				{VM: "a", NIC: "ua-0", Hold: true, Code: model.CodeEnough},
				{VM: "a", NIC: "ua-1", Hold: true, Code: model.CodePinned},
			},
		},
		Mode: model.ModeEnforce,
	}
	e, err := web.Explain(v, "db")
	if err != nil {
		t.Fatal(err)
	}
	if want := "db is on virtio and gets a VF behind ua-1: pinned"; e.Sentence != want {
		t.Errorf("%q, want %q", e.Sentence, want)
	}
	want := []string{"", "holds a VF behind ua-0: there are VFs for every VM on its network", "holds a VF behind ua-1: pinned"}
	for i, p := range e.Paths {
		if p.Why != want[i] {
			t.Errorf("%s: %q, want %q", p.NIC, p.Why, want[i])
		}
	}
}
