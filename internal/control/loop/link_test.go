package loop

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/model"
)

// A VF whose PF has no link cuts its NIC off, so its unplug comes before a plug of another NIC of the VM, and a plug that delays
// it is undone.
func TestUnplugWithoutLinkComesFirst(t *testing.T) {
	plug := model.Move{Kind: model.MovePlug, VM: "a", NIC: "ua-0", VF: model.VFID{PF: "pf0", Index: 0}, Steps: []model.Step{{
		Kind: model.StepSetMAC, Subject: model.Subject{VM: "a"}, Flow: model.Flow{Turns: true},
	}}}
	other := func(s *model.Snapshot) *model.NIC { return &s.VMs[0].NICs[1] }
	for name, c := range map[string]struct {
		edit  func(*Core, *model.Snapshot)
		waits bool
	}{
		"another NIC has a VF without link": {func(*Core, *model.Snapshot) {}, true},
		"its PF has a link":                 {func(_ *Core, s *model.Snapshot) { s.PFs[1].LinkUp = true }, false},
		"that VF is freed already":          {func(c *Core, s *model.Snapshot) { c.unseen.freed[other(s).VF] = noon }, false},
		"somebody else attached that VF":    {func(_ *Core, s *model.Snapshot) { other(s).VFOwner = model.OwnerForeign }, false},
		"it has no VF":                      {func(_ *Core, s *model.Snapshot) { other(s).VF = model.NoVF }, false},
		"that VF is of another VM": {func(_ *Core, s *model.Snapshot) {
			s.VMs = append(s.VMs, model.VM{ID: "b", NICs: []model.NIC{*other(s)}})
			s.VMs[0].NICs = s.VMs[0].NICs[:1]
		}, false},
	} {
		core, err := NewCore(model.Rules{Policy: "none"}, Options{Mode: model.ModeEnforce, Parallel: 1}, &memJournal{}, nil)
		must(t, err)
		core.snap = &model.Snapshot{
			PFs: []model.PF{
				{Name: "pf0", LinkUp: true, VFs: []model.VF{{ID: plug.VF, Owner: model.OwnerFree}}},
				{Name: "pf1", VFs: []model.VF{{ID: model.VFID{PF: "pf1"}, Owner: model.OwnerSluice, Holder: "a"}}},
			},
			VMs: []model.VM{{ID: "a", NICs: []model.NIC{
				{Alias: "ua-0"}, {Alias: "ua-1", VF: model.VFID{PF: "pf1"}, VFOwner: model.OwnerSluice},
			}}},
		}
		c.edit(core, core.snap)
		if begins := core.ready(plug); begins == c.waits {
			t.Errorf("%s: the plug begins: %v", name, begins)
		}
		step, err := core.exec.Begin(noon, plug)
		must(t, err)
		core.cancelPlugs(noon.Add(time.Second))
		run := core.exec.Finish(noon, step.ID, nil)
		if run == nil || run.Cancelled() != c.waits || c.waits && !errors.Is(run.Cause(), errInTheWay) {
			t.Errorf("%s: the plug under way: %+v", name, run)
		}
	}

	// A NIC that leaves such a VF for another does not delay itself.
	core := &Core{snap: &model.Snapshot{PFs: []model.PF{{Name: "pf1"}}, VMs: []model.VM{
		{ID: "a", NICs: []model.NIC{{Alias: "ua-1", VF: model.VFID{PF: "pf1"}, VFOwner: model.OwnerSluice}}},
	}}}
	if core.otherWithoutLink(model.NICID{VM: "a", NIC: "ua-1"}) || core.otherWithoutLink(model.NICID{VM: "gone", NIC: "ua-0"}) {
		t.Error("a NIC waits for itself, or for a VM that is not there")
	}
}
