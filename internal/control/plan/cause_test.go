package plan

import (
	"testing"

	"sluice/internal/model"
)

// What a VM with a VF loses it to, and what the VM that gets it owes it to.
func TestCauses(t *testing.T) {
	gets := []model.Assignment{{VM: "b", NIC: "ua-0", VF: vf0}}
	rank := model.Reason{Code: model.CodeOutranked, Policy: "adaptive", Rank: 3, Slots: 1}
	for name, c := range map[string]struct {
		edit   func(s *model.Snapshot, why []model.Reason)
		assign []model.Assignment
		lost   string // cause of a's unplug
		got    string // cause of b's plug
	}{
		"another VM gains more": {nil, gets, "gives way to b", "takes over from a"},
		"nobody gets the VF":    {nil, nil, "others come first", ""},
		"the link is down": {
			func(s *model.Snapshot, _ []model.Reason) { s.PFs[0].LinkUp = false }, nil, "link of pf0 down", "",
		},
		"the PF is gone": {func(s *model.Snapshot, _ []model.Reason) { s.PFs = nil }, nil, "pf0 is gone from the host", ""},
		"no bridge": {
			func(s *model.Snapshot, _ []model.Reason) { s.PFs[0].Uplink.Why = "pf0 is in no bridge" }, nil, "pf0 is in no bridge", "",
		},
		"not in the config": {
			func(s *model.Snapshot, _ []model.Reason) { s.PFs[0].Managed = false }, nil, "pf0 is not in sluice.yaml any more", "",
		},
		"drained": {
			func(_ *model.Snapshot, why []model.Reason) { why[0] = model.Reason{Code: model.CodeDrain, By: "ann"} }, nil, "drained by ann", "",
		},
		"released": {
			func(_ *model.Snapshot, why []model.Reason) {
				why[0] = model.Reason{Code: model.CodeReleased, By: "ann"}
			},
			gets, "released by ann", "takes over from a",
		},
		"forbidden": {
			func(_ *model.Snapshot, why []model.Reason) { why[0].Code = model.CodeForbidden }, nil, "forbidden by sluice.yaml", "",
		},
		"the other is pinned": {
			func(_ *model.Snapshot, why []model.Reason) {
				why[1] = model.Reason{Code: model.CodePinned, Hold: true, By: "ann"}
			},
			gets, "gives way to b, pinned by ann", "pinned by ann",
		},
		"the other is pinned by a rule": {
			func(_ *model.Snapshot, why []model.Reason) { why[1] = model.Reason{Code: model.CodePinned, Hold: true} },
			gets, "gives way to b, pinned by sluice.yaml", "pinned by sluice.yaml",
		},
		"the other's link is down": {
			func(s *model.Snapshot, _ []model.Reason) {
				there := model.VFID{PF: "pf1"}
				s.PFs = append(s.PFs, model.PF{Name: "pf1", Managed: true, VFs: []model.VF{{ID: there, Owner: model.OwnerSluice, Holder: "b"}}})
				s.VMs[1].NICs[0].VF, s.VMs[1].NICs[0].VFOwner = there, model.OwnerSluice
			}, gets, "gives way to b, whose own VF cannot be used: link of pf1 down", "link of pf1 down",
		},
		"its guest does not use it": {
			func(_ *model.Snapshot, why []model.Reason) {
				why[0] = model.Reason{Code: model.CodeBackoff, Detail: "no driver has it open"}
			}, nil, "waiting after a failed move (no driver has it open)", "",
		},
	} {
		s := world()
		s.PFs[0].LinkUp = true
		to := target(s, c.assign...)
		to.Reasons[0], to.Reasons[1] = rank, model.Reason{Code: model.CodeRank, Hold: len(c.assign) > 0}
		if c.edit != nil {
			c.edit(s, to.Reasons)
		}
		for i := range to.Reasons {
			to.Reasons[i].VM = s.VMs[i].ID
		}
		causes := map[string]string{}
		for _, m := range Diff(s, to, nobody{}, DefaultTimeouts) {
			causes[string(m.Kind)+" "+m.VMName] = m.Cause.String()
		}
		if causes["unplug a"] != c.lost || causes["plug b"] != c.got {
			t.Errorf("%s: %q, want a to lose its VF by %q, and b to get it by %q", name, causes, c.lost, c.got)
		}
	}
}
